//! The RBAC rules the snapshotter uses, all of which upstream's role grants.
//!
//! Only PATCH writes to contents: no `update` is needed, and none is asked for.

use sidecar::kube::access::Rule;
use sidecar::snapshot::{CLASS, CONTENT};

/// The rules to check.
#[must_use]
pub fn rules() -> Vec<Rule> {
    vec![
        Rule::required(
            CONTENT.group,
            CONTENT.plural,
            &["get", "list", "watch", "patch"],
        ),
        Rule::required(CONTENT.group, "volumesnapshotcontents/status", &["patch"]),
        Rule::required(CLASS.group, CLASS.plural, &["list", "watch"]),
        Rule::required("", "secrets", &["get"])
            .optional("snapshots of classes that name a Secret cannot be taken or deleted"),
        Rule::required("", "events", &["create", "patch"])
            .within(EVENTS_NAMESPACE)
            .optional("no events on VolumeSnapshotContents"),
    ]
}

/// Where events about objects of the cluster live.
const EVENTS_NAMESPACE: &str = "default";
