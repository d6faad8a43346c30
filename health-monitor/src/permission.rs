//! The RBAC rules that the health monitor uses.

use sidecar::kube::access::Rule;

use crate::plan::mode::Mode;

const LIST: &[&str] = &["list", "watch"];

/// The rules to check.
#[must_use]
pub fn rules(mode: Mode) -> Vec<Rule> {
    let mut rules = vec![
        Rule::required("", "persistentvolumes", LIST),
        Rule::required("", "persistentvolumeclaims", LIST),
    ];
    match mode {
        Mode::ListHealth { .. } | Mode::GetHealth => {
            rules.push(Rule::required(
                "",
                "persistentvolumeclaims/status",
                &["patch"],
            ));
        }
        Mode::ListConditions | Mode::GetConditions => {
            rules.push(Rule::required("", "events", &["list", "create", "patch"]));
        }
        Mode::Nothing => {}
    }
    rules
}
