//! Node and CSINode: where volumes can be.

use std::sync::Arc;

use super::{List, Pairs, Text};

/// What the provisioner reads of a Node. Its name is the key under which it is cached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// `metadata.labels`.
    pub labels: Pairs,
}

/// What the provisioner reads of a `storage.k8s.io/v1` CSINode. Its name is the node's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsiNode {
    /// `spec.drivers`, which are the same on most nodes.
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
    /// Forgets all other drivers' entries. `share` finds the one copy of what is left.
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
