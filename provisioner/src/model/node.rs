//! Node and CSINode: the topology of the cluster.

use std::sync::Arc;

use super::{List, Pairs, Text};

/// A Node, as far as the provisioner reads it, cached under its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// `metadata.labels`.
    pub labels: Pairs,
}

/// A `storage.k8s.io/v1` CSINode, as far as the provisioner reads it. It has its node's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsiNode {
    /// `spec.drivers`; shared, since most nodes have the same.
    pub drivers: Arc<Vec<DriverKeys>>,
}

/// A driver's entry in a CSINode.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DriverKeys {
    /// `name`
    pub name: Text,
    /// `topologyKeys`, in order.
    pub keys: List,
}

impl CsiNode {
    /// Drops all other drivers' entries. `share` returns the one shared copy of the remaining list.
    pub fn keep_only(
        &mut self,
        driver: &str,
        share: impl FnOnce(Vec<DriverKeys>) -> Arc<Vec<DriverKeys>>,
    ) {
        if self.drivers.iter().any(|entry| &*entry.name != driver) {
            let kept = self.drivers.iter().filter(|entry| &*entry.name == driver);
            self.drivers = share(kept.cloned().collect());
        }
    }

    /// Topology keys of `driver` on this node; `None` while it is not registered there.
    #[must_use]
    pub fn keys_of(&self, driver: &str) -> Option<&List> {
        let mut drivers = self.drivers.iter();
        drivers
            .find(|entry| &*entry.name == driver)
            .map(|entry| &entry.keys)
    }
}
