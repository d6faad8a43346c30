//! CSINode: under which ids drivers know a node.

use super::Pairs;

/// What the attacher reads of a `storage.k8s.io/v1` CSINode. Its name is the node's, and the key
/// under which it is cached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiNode {
    /// `name` and `nodeID` of each entry in `spec.drivers`.
    pub drivers: Pairs,
}

impl CsiNode {
    /// Forgets all other drivers' entries.
    pub fn keep_only(&mut self, driver: &str) {
        let entry = self.drivers.iter().find(|(name, _)| *name == driver);
        if self.drivers.iter().count() > usize::from(entry.is_some()) {
            self.drivers = entry.into_iter().collect();
        }
    }

    /// The id under which `driver` knows the node; `None` while the driver is not registered there.
    #[must_use]
    pub fn id_for(&self, driver: &str) -> Option<&str> {
        let mut drivers = self.drivers.iter();
        drivers.find(|(name, _)| *name == driver).map(|(_, id)| id)
    }
}
