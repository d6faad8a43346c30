//! The setting of a run: driver, command line, classes and nodes.
//!
//! Each scene has only features that belong together: interleavings that matter must not be rare.

use std::collections::BTreeMap;

use super::driver::Names;
use crate::model::{BindingMode, Class, List, SelectorTerm, Text};
use crate::plan::Driver;
use crate::plan::driver::Abilities;
use crate::plan::settings::{NodeDeployment, Protection, Settings};
use crate::plan::topology::{Entry, Term};
use crate::testing::driver;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scene {
    /// Attachments, a Secret, volumes with policy Retain, volumes that were made by hand.
    Plain,
    /// Volumes have topology; nodes come and go and run out of capacity.
    Topology,
    /// Volumes are copies of other claims' volumes and of snapshots.
    Sources,
    /// The driver replaced an in-tree plugin, and two of the classes are the plugin's. The driver makes volumes that
    /// cannot have a PersistentVolume of the plugin.
    Moved,
    /// A provisioner on each of two nodes.
    Nodes,
    /// The same with a driver that reports no topology. Its volumes have policy Retain: no process could tell on which
    /// node to delete one.
    Apart,
}

/// The only topology key.
pub(super) const ZONE: &str = "zone";
/// Parameter that tells the classes of the one name apart.
const NUMBER: &str = "number";
/// The plugin that the driver of [`Scene::Moved`] replaced.
const PLUGIN: &str = "kubernetes.io/aws-ebs";
/// Name of the only class.
pub(super) const CLASS: &str = "sc";
/// The source claim of the clones.
pub(super) const SOURCE: &str = "src";
const CLAIMS: [&str; 2] = ["c0", "c1"];
const CLAIMS_AND_SOURCE: [&str; 3] = ["c0", "c1", SOURCE];
const NODES: [&str; 3] = ["n0", "n1", "n2"];

/// The topology of a node.
pub(super) fn zone(node: &str) -> String {
    node.replace('n', "z")
}

/// The node of that topology.
pub(super) fn node_in(zone: &str) -> String {
    zone.replace('z', "n")
}

/// The driver's entry in the CSINode of a node.
pub(super) fn registered() -> Entry {
    Entry::Keys(List::from([Text::from(ZONE)]))
}

impl Scene {
    pub(super) const ALL: [Self; 6] = [
        Self::Plain,
        Self::Topology,
        Self::Sources,
        Self::Moved,
        Self::Nodes,
        Self::Apart,
    ];

    /// Whether there is a provisioner on each node.
    pub(super) fn is_node_deployment(self) -> bool {
        matches!(self, Self::Nodes | Self::Apart)
    }

    /// How the driver treats names, which differs from run to run.
    pub(super) fn names(self, protection: Protection, seed: u64) -> Names {
        match (self, protection, seed % 3) {
            // The next process does not know the requests of the one before, so that its request may differ.
            (_, Protection::Off, _) | (_, _, 1) => Names::Shared,
            (Self::Topology, _, 0) => Names::Local,
            (_, _, _) => Names::Unique,
        }
    }

    pub(super) fn claims(self) -> &'static [&'static str] {
        match self {
            Self::Plain | Self::Topology | Self::Moved | Self::Nodes | Self::Apart => &CLAIMS,
            Self::Sources => &CLAIMS_AND_SOURCE,
        }
    }

    pub(super) fn nodes(self) -> &'static [&'static str] {
        match self {
            Self::Plain | Self::Sources | Self::Moved => &[],
            Self::Topology => &NODES,
            Self::Nodes | Self::Apart => &NODES[..2],
        }
    }

    /// Number of classes that take turns under the one name.
    pub(super) fn classes(self) -> usize {
        match self {
            Self::Plain | Self::Topology | Self::Moved => 3,
            Self::Sources | Self::Nodes | Self::Apart => 2,
        }
    }

    pub(super) fn class(self, number: usize) -> Class {
        let number_text = number.to_string();
        let secret = [
            ("csi.storage.k8s.io/provisioner-secret-name", "secret"),
            ("csi.storage.k8s.io/provisioner-secret-namespace", "ns"),
        ];
        let secret = secret.into_iter().filter(|_| number == 1);
        let parameters = [(NUMBER, &*number_text)].into_iter().chain(secret);
        let waits = matches!(
            (self, number),
            (Self::Topology, 1 | 2) | (Self::Nodes | Self::Apart, 1)
        );
        let kept = self == Self::Apart || self == Self::Plain && number == 2;
        let allowed: Vec<SelectorTerm> = match (self, number) {
            (Self::Topology, 2) => {
                let zones = List::from(["z0", "z1"].map(Text::from));
                vec![[(Text::from(ZONE), zones)].into()]
            }
            _ => Vec::new(),
        };
        Class {
            name: CLASS.into(),
            uid: format!("class-{number}").into(),
            provisioner: match (self, number) {
                (Self::Moved, 0 | 1) => PLUGIN.into(),
                _ => self.driver_name().into(),
            },
            parameters: parameters.collect(),
            reclaim_policy: Some(if kept { "Retain" } else { "Delete" }.into()),
            binding_mode: if waits {
                BindingMode::WaitForFirstConsumer
            } else {
                BindingMode::Immediate
            },
            allowed_topologies: allowed.into(),
            ..Class::default()
        }
    }

    pub(super) fn driver_name(self) -> &'static str {
        match self {
            Self::Moved => "ebs.csi.aws.com",
            Self::Plain | Self::Topology | Self::Sources | Self::Nodes | Self::Apart => {
                "test-driver"
            }
        }
    }

    pub(super) fn driver(self) -> Driver {
        let fixture = driver();
        Driver {
            name: self.driver_name().into(),
            abilities: Abilities {
                publish: true,
                topology: matches!(self, Self::Topology | Self::Nodes),
                snapshot: self == Self::Sources,
                clone: self == Self::Sources,
                ..fixture.abilities
            },
        }
    }

    /// The command line of the provisioner at `site`.
    pub(super) fn settings(self, protection: Protection, site: usize, strict: bool) -> Settings {
        Settings {
            protection,
            strict_topology: strict,
            node: self.node(site),
            ..Settings::default()
        }
    }

    /// Node deployment: the node at `site`.
    pub(super) fn node(self, site: usize) -> Option<NodeDeployment> {
        self.is_node_deployment().then(|| NodeDeployment {
            name: NODES[site].into(),
            immediate_binding: true,
        })
    }
}

/// The topology of a node as the driver there reports it.
pub(super) fn segment(node: &str) -> Term {
    Term::new([(Text::from(ZONE), Text::from(zone(node)))])
}

/// Whether a volume with these parameters is of the class that names the Secret.
pub(super) fn needs_secret(parameters: &BTreeMap<String, String>) -> bool {
    parameters.get(NUMBER).is_some_and(|number| number == "1")
}
