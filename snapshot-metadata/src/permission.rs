//! The RBAC rules that csi-snapshot-metadata needs. Upstream's role lacks the last two.

use sidecar::kube::access::Rule;
use sidecar::secure::reviews;
use sidecar::snapshot::{CLASS, CONTENT, SNAPSHOT};

use crate::model::SERVICES;

/// The rules to check. `audience`: `--audience` gives the audience, so SnapshotMetadataServices are
/// not read.
#[must_use]
pub fn rules(audience: bool) -> Vec<Rule> {
    let mut rules = reviews::RULES.to_vec();
    rules.extend([
        Rule::required(SNAPSHOT.group, SNAPSHOT.plural, &["get"]),
        Rule::required(CONTENT.group, CONTENT.plural, &["get"]),
        Rule::required(CLASS.group, CLASS.plural, &["get", "list"]),
        Rule::required("", "secrets", &["get"])
            .optional("snapshots of classes that name a Secret cannot be served"),
    ]);
    if !audience {
        rules.push(Rule::required(SERVICES.group, SERVICES.plural, &["get"]));
    }
    rules
}
