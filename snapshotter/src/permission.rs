//! The RBAC rules that the snapshotter needs; upstream's role grants all of them.
//!
//! The snapshotter writes contents by PATCH alone: it needs no `update`, and requests none.

use sidecar::kube::access::Rule;
use sidecar::snapshot::{CLASS, CONTENT, GROUP_CLASS, GROUP_CONTENT, group};

/// The rules to check. `groups`: group snapshots are served.
#[must_use]
pub fn rules(groups: bool) -> Vec<Rule> {
    let mut rules = vec![
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
    ];
    if groups {
        rules.extend(of_groups());
    }
    rules
}

fn of_groups() -> [Rule; 3] {
    let contents = &["get", "list", "watch", "patch"];
    [
        Rule::required(GROUP_CONTENT.group, GROUP_CONTENT.plural, contents),
        Rule::required(GROUP_CONTENT.group, group::CONTENT_STATUS, &["patch"]),
        Rule::required(GROUP_CLASS.group, GROUP_CLASS.plural, &["list", "watch"]),
    ]
}

/// The namespace of events about cluster-scoped objects.
const EVENTS_NAMESPACE: &str = "default";
