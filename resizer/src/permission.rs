//! The RBAC rules that the resizer needs: those of the manifest that it replaces.
//!
//! The resizer writes by PATCH alone, and of claims only the status: it needs no `update`, and
//! requests none.

use sidecar::kube::access::Rule;

use crate::plan::driver::Abilities;
use crate::plan::{Kind, Settings};

const LIST: &[&str] = &["list", "watch"];

/// The rules to check.
#[must_use]
pub fn rules(can: Abilities, settings: &Settings) -> Vec<Rule> {
    let mut rules = vec![
        Rule::required("", "persistentvolumes", &["get", "list", "watch", "patch"]),
        Rule::required("", "persistentvolumeclaims", &["get", "list", "watch"]),
        Rule::required("", "persistentvolumeclaims/status", &["patch"]),
        Rule::required("", "events", &["create", "patch"]).optional("no events on claims"),
        Rule::required("", "secrets", &["get"])
            .optional("volumes whose driver wants a Secret cannot be expanded or modified"),
    ];
    if watches_pods(can, settings) {
        rules.push(Rule::required("", "pods", LIST));
    }
    if watches_classes(can, settings) {
        rules.push(Rule::required(
            "storage.k8s.io",
            "volumeattributesclasses",
            LIST,
        ));
    }
    rules
}

/// Whether pods have to be watched.
#[must_use]
pub fn watches_pods(can: Abilities, settings: &Settings) -> bool {
    can.has(Kind::Expand) && settings.handle_in_use
}

/// Whether VolumeAttributesClasses have to be watched.
#[must_use]
pub fn watches_classes(can: Abilities, settings: &Settings) -> bool {
    can.has(Kind::Modify) && settings.gates.attributes_class
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::driver::Expansion;
    use crate::plan::settings::Gates;

    #[test]
    fn z_24_to_26_what_is_not_used_is_not_asked_for() {
        let can = |expansion, modify| Abilities {
            expansion,
            modify,
            ..Abilities::default()
        };
        let both = can(Expansion::Controller, true);
        let usual = Settings::default();
        let careless = Settings {
            handle_in_use: false,
            ..usual.clone()
        };
        let gates = Gates {
            attributes_class: false,
            ..Gates::default()
        };
        let old = Settings {
            gates,
            ..usual.clone()
        };
        for (row, can, settings, pods, classes) in [
            ("Z-25", both, &usual, true, true),
            ("Z-24", can(Expansion::None, true), &usual, false, true),
            ("Z-22", can(Expansion::NodeOnly, false), &usual, true, false),
            ("Z-26", both, &careless, false, true),
            ("Z-11, Z-13", both, &old, true, false),
        ] {
            let rules = rules(can, settings);
            let asks = |resource| rules.iter().any(|rule| rule.resource == resource);
            assert_eq!(asks("pods"), pods, "{row}");
            assert_eq!(asks("volumeattributesclasses"), classes, "{row}");
        }
    }
}
