//! CSINode: the ids by which drivers know a node.

use super::Pairs;

/// A `storage.k8s.io/v1` CSINode, as far as the attacher reads it. Its name is the node's name and
/// its key in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiNode {
    /// `name` and `nodeID` of each entry in `spec.drivers`.
    pub drivers: Pairs,
}

impl CsiNode {
    /// Drops the entries of all other drivers.
    pub fn keep_only(&mut self, driver: &str) {
        let entry = self.drivers.iter().find(|(name, _)| *name == driver);
        if self.drivers.iter().count() > usize::from(entry.is_some()) {
            self.drivers = entry.into_iter().collect();
        }
    }

    /// The id by which `driver` knows the node; `None` while the driver is not registered there.
    #[must_use]
    pub fn id_for(&self, driver: &str) -> Option<&str> {
        let mut drivers = self.drivers.iter();
        drivers.find(|(name, _)| *name == driver).map(|(_, id)| id)
    }
}
