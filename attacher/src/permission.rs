//! The RBAC rules the attacher uses, which are those of the manifest it replaces.
//!
//! Only PATCH writes to objects: no `update` is needed, and none is asked for.

use sidecar::kube::access::{Report, Rule};

const LIST: &[&str] = &["list", "watch"];

/// The rules to check. `publish`: the driver has calls to make; otherwise volumes, nodes and
/// Secrets are not looked at.
#[must_use]
pub fn rules(publish: bool) -> Vec<Rule> {
    const STORAGE: &str = "storage.k8s.io";
    let mut rules = vec![
        Rule::required(
            STORAGE,
            "volumeattachments",
            &["get", "list", "watch", "patch"],
        ),
        Rule::required(STORAGE, "volumeattachments/status", &["patch"]),
    ];
    if publish {
        rules.extend([
            Rule::required("", "persistentvolumes", &["get", "list", "watch", "patch"]),
            Rule::required(STORAGE, "csinodes", LIST),
            Rule::required("", "secrets", &["get"])
                .optional("volumes with a controllerPublishSecretRef cannot be attached"),
            Rule::required("", "events", &["create", "patch"])
                .within(EVENTS_NAMESPACE)
                .optional("no events on volumes whose attach or detach keeps failing"),
        ]);
    }
    rules
}

/// Where events about objects of the cluster live.
const EVENTS_NAMESPACE: &str = "default";

/// Whether events may be written, as far as is known.
#[must_use]
pub fn grants_events(report: &Report) -> bool {
    report.unknown.is_none() && report.grants("", "events")
}
