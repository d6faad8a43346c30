//! The rows of the chart snapshot-controller.

use super::Expect::{Absent, Is};
use super::table::MINIMAL;
use super::{Row, row};

const TESTED: &[&str] = &["test.image=busybox:1"];
const TESTED_ALONE: &[&str] = &[
    "test.image=busybox:1",
    "replicas=1",
    "leaderElection.enabled=false",
];

/// The pod of `helm test`.
const TEST: &str = "Pod/test-snapshot-controller-test";

#[rustfmt::skip]
pub(super) const TABLE: &[Row] = &[
    row(MINIMAL, &[], TEST, "", Absent),
    row(MINIMAL, TESTED, TEST, "/spec/containers/[http]/command/6", Is(r#""http://test-snapshot-controller-tested:8080/readyz""#)),
    row(MINIMAL, TESTED, TEST, "/spec/containers/[election]/command/0", Is(r#""sh""#)),
    row(MINIMAL, TESTED, TEST, "/spec/containers/[election]/securityContext/readOnlyRootFilesystem", Is("true")),
    row(MINIMAL, TESTED, TEST, "/spec/automountServiceAccountToken", Is("false")),
    // Without leader election nothing on the page says that the definitions were found.
    row(MINIMAL, TESTED_ALONE, TEST, "/spec/containers/[election]", Absent),
];
