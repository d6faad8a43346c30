//! The RBAC rules of the provisioner, which are those of the manifest it replaces.

use sidecar::kube::access::Rule;

use crate::plan::driver::Abilities;
use crate::plan::settings::Settings;

const LIST: &[&str] = &["list", "watch"];
const GET: &[&str] = &["get"];

/// Determines the rules, beside the driver.
#[derive(Clone, Copy, Debug)]
pub struct Uses<'a> {
    /// The settings.
    pub settings: &'a Settings,
    /// Namespace of CSIStorageCapacity objects, if they are produced.
    pub capacity: Option<&'a str>,
    /// Whether finalizers of snapshots are swept.
    pub sweep: bool,
    /// Namespace of the provisioning journal, if there is one.
    pub journal: Option<&'a str>,
}

/// The rule for the provisioning journal in its namespace.
#[must_use]
pub fn journal(namespace: &str) -> Rule {
    const VERBS: &[&str] = &["get", "create", "update"];
    Rule::required("coordination.k8s.io", "leases", VERBS).within(namespace)
}

/// The rules to check.
#[must_use]
pub fn rules(can: Abilities, uses: &Uses<'_>) -> Vec<Rule> {
    const STORAGE: &str = "storage.k8s.io";
    let Uses {
        settings,
        capacity,
        sweep,
        journal,
    } = uses;
    let mut rules = vec![
        Rule::required(
            "",
            "persistentvolumes",
            &["get", "list", "watch", "create", "patch", "delete"],
        ),
        Rule::required("", "persistentvolumeclaims", LIST),
        Rule::required(STORAGE, "storageclasses", LIST),
        Rule::required("", "events", &["create", "patch"])
            .optional("no events on claims and volumes"),
        Rule::required("", "secrets", GET)
            .optional("classes with a provisioner secret cannot be used"),
    ];
    let topology = can.topology && settings.gates.topology;
    if watches_nodes(can, settings, capacity.is_some()) {
        rules.push(Rule::required(STORAGE, "csinodes", LIST));
        rules.push(Rule::required("", "nodes", LIST));
    }
    let claims = Rule::required("", "persistentvolumeclaims", &["get", "update"]);
    if topology || settings.node.is_some() {
        rules.push(claims);
    } else if can.clone {
        rules.push(claims.optional("claims cannot be cloned"));
    }
    if can.publish {
        rules.push(Rule::required(STORAGE, "volumeattachments", LIST));
    }
    if can.modify && settings.gates.attributes_class {
        rules.push(
            Rule::required(STORAGE, "volumeattributesclasses", GET)
                .optional("claims with a VolumeAttributesClass cannot be provisioned"),
        );
    }
    if can.snapshot {
        rules.extend(snapshots(*sweep));
    }
    if settings.gates.cross_namespace {
        rules.push(Rule::required(
            "gateway.networking.k8s.io",
            "referencegrants",
            LIST,
        ));
    }
    if let (Some(namespace), Some(_)) = (journal, &settings.node) {
        const WITHOUT: &str = "calls in the journals of nodes that are gone are not reported";
        const STAY: &str = "empty journals of nodes that are gone are not removed";
        let leases = |verbs| Rule::required("coordination.k8s.io", "leases", verbs);
        rules.push(leases(&["list"]).within(namespace).optional(WITHOUT));
        rules.push(leases(&["delete"]).within(namespace).optional(STAY));
        rules.push(Rule::required("", "nodes", GET).optional(WITHOUT));
    }
    if let Some(namespace) = capacity {
        const ALL: &[&str] = &["list", "watch", "create", "update", "delete"];
        rules.push(Rule::required(STORAGE, "csistoragecapacities", ALL).within(namespace));
    }
    rules
}

/// Whether the provisioner watches Nodes and CSINodes. `capacity`: CSIStorageCapacity objects are produced.
#[must_use]
pub fn watches_nodes(can: Abilities, settings: &Settings, capacity: bool) -> bool {
    let topology = can.topology && settings.gates.topology;
    settings.node.is_none() && (topology || capacity)
}

fn snapshots(sweep: bool) -> [Rule; 2] {
    const SNAPSHOT: &str = crate::keys::SNAPSHOT_GROUP;
    let verbs: &'static [&'static str] = if sweep {
        &["get", "update", "list", "watch"]
    } else {
        &["get", "update"]
    };
    [
        Rule::required(SNAPSHOT, "volumesnapshotcontents", GET)
            .optional("snapshots cannot be restored"),
        Rule::required(SNAPSHOT, "volumesnapshots", verbs)
            .optional("snapshots are not protected while they are restored"),
    ]
}

#[cfg(test)]
mod tests {
    use sidecar::kube::access::Need;

    use super::*;
    use crate::plan::settings::NodeDeployment;

    fn resources(can: Abilities, settings: &Settings) -> Vec<&'static str> {
        let uses = Uses {
            settings,
            capacity: None,
            sweep: false,
            journal: Some("csi"),
        };
        rules(can, &uses).iter().map(|rule| rule.resource).collect()
    }

    /// The rule for claims by the driver's abilities, with the consequence of a missing permission.
    #[test]
    fn claims_are_read_and_written_for_topology_and_clones_alone() {
        let settings = Settings::default();
        let need = |of: Abilities| {
            let uses = Uses {
                settings: &settings,
                capacity: None,
                sweep: false,
                journal: None,
            };
            let rules = rules(of, &uses);
            let mut claims = { rules.into_iter() }
                .filter(|rule| rule.resource == "persistentvolumeclaims" && rule.verbs != LIST);
            let found = claims.next().map(|rule| rule.need);
            assert_eq!(claims.next().map(|rule| rule.need), None);
            found
        };
        let none = Abilities::default();
        assert_eq!(need(none), None);
        // A chart may leave cloning out although the driver supports it: everything else works.
        let clone = Abilities {
            clone: true,
            ..none
        };
        assert_eq!(need(clone), Some(Need::Optional("claims cannot be cloned")));
        for topology in [
            Abilities {
                topology: true,
                ..none
            },
            Abilities {
                topology: true,
                ..clone
            },
        ] {
            assert_eq!(need(topology), Some(Need::Required));
        }
    }

    #[test]
    fn rows_28_and_29_what_is_not_used_is_not_asked_for() {
        let settings = Settings::default();
        let none = resources(Abilities::default(), &settings);
        for absent in ["volumeattachments", "nodes", "csinodes", "volumesnapshots"] {
            assert!(!none.contains(&absent), "{absent}");
        }
        let all = Abilities::new(|_| true, |_| true);
        let all = resources(all, &settings);
        for present in ["volumeattachments", "nodes", "csinodes", "volumesnapshots"] {
            assert!(all.contains(&present), "{present}");
        }
        assert!(!all.contains(&"leases"));
        let settings = Settings {
            node: Some(NodeDeployment {
                name: "n1".into(),
                immediate_binding: true,
            }),
            ..settings
        };
        let node = resources(Abilities::default(), &settings);
        assert!(node.contains(&"leases") && node.contains(&"nodes"));
    }
}
