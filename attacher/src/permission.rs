//! The RBAC rules the attacher uses, equal to those in upstream's manifest.
//!
//! The attacher changes objects with PATCH only, so it neither needs nor requests `update`.

use sidecar::kube::access::{Report, Rule};

const LIST: &[&str] = &["list", "watch"];

/// The rules to check. `publish`: the driver implements publish and unpublish; otherwise the
/// attacher reads no volumes, nodes or Secrets.
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

/// The namespace of events about cluster-scoped objects.
const EVENTS_NAMESPACE: &str = "default";

/// Whether the report grants writing events; `false` if the check itself failed.
#[must_use]
pub fn grants_events(report: &Report) -> bool {
    report.unknown.is_none() && report.grants("", "events")
}
