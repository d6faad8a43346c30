//! The RBAC rules the attacher uses, which are those of the manifest it replaces.
//!
//! Only PATCH writes to objects: no `update` is needed, and none is asked for.

use sidecar::kube::access::{Need, Report, Rule};
use sidecar::verbose;

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
            Rule::required("", "persistentvolumes", &["list", "watch", "patch"]),
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

/// Logs what is missing: required rules loudly, each with the text that goes into a manifest, and
/// optional ones only to those who ask for more, since the shipped manifests leave them out.
/// Whether events may be written.
#[must_use]
pub fn log(report: Report) -> bool {
    let grants_events = report.unknown.is_none() && report.grants("", "events");
    let (required, optional) =
        { report.missing.into_iter() }.partition(|missing| missing.rule.need == Need::Required);
    for missing in Vec::from_iter::<Vec<sidecar::kube::access::Missing>>(optional) {
        if let Need::Optional(without) = missing.rule.need {
            verbose!(2, rule = %missing, without, "The service account lacks an optional permission");
        }
    }
    Report {
        missing: required,
        unknown: report.unknown,
    }
    .log();
    grants_events
}
