//! The rows of the chart snapshot-controller.

use super::Expect::{Absent, Has, Is, Lacks};
use super::table::MINIMAL;
use super::{Row, row};

const TESTED: &[&str] = &["test.image=busybox:1"];
const TESTED_ALONE: &[&str] = &[
    "test.image=busybox:1",
    "replicas=1",
    "leaderElection.enabled=false",
];

const CONTROLLER: &str = "Deployment/test-snapshot-controller";
const ANSWERING: &[&str] = &["why.endpoint.port=8095", "podAnnotations.team=storage"];
const ARGUMENTS: &str = "/spec/template/spec/containers/[snapshot-controller]/args";
const ANNOTATIONS: &str = "/spec/template/metadata/annotations";

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
    // W-67
    row(MINIMAL, &[], CONTROLLER, ARGUMENTS, Lacks("--why-endpoint")),
    row(MINIMAL, &[], CONTROLLER, ANNOTATIONS, Absent),
    row(MINIMAL, ANSWERING, CONTROLLER, ARGUMENTS, Has("--why-endpoint=localhost:8095")),
    row(MINIMAL, ANSWERING, CONTROLLER, ANNOTATIONS, Is(r#"{"csi-sidecars.io/why": "8095", "team": "storage"}"#)),
];
