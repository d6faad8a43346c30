//! The input of a decision on a claim.
//!
//! The executor and the crash simulation fill it in.

use std::sync::Arc;

use super::topology::TopologyIndex;
use super::{Driver, Settings};
use crate::model::{Claim, Class, Grant};

/// Everything that a decision on a claim reads, taken from the caches at once.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The driver.
    pub driver: &'a Driver,
    /// The command line.
    pub settings: &'a Settings,
    /// The claim, as the cache had it last.
    pub claim: &'a Claim,
    /// The claim no longer exists, or another one has taken its name. Then only calls with unknown outcome are worked
    /// on.
    pub gone: bool,
    /// The class that [`Claim::class_name`] names, if it exists.
    pub class: Option<&'a Class>,
    /// A PersistentVolume named [`Attempt::volume_name`](super::claim::Attempt::volume_name) exists.
    pub volume_exists: bool,
    /// The PersistentVolume of that name is being deleted together with its volume.
    pub volume_leaves: bool,
    /// All ReferenceGrants; none without the gate.
    pub grants: &'a [Arc<Grant>],
    /// The topology segments of the cluster.
    pub topology: &'a TopologyIndex,
}

impl View<'_> {
    /// Whether the driver constrains where volumes are accessible, and the gate lets that count.
    #[must_use]
    pub fn topology_active(&self) -> bool {
        self.driver.abilities.topology && self.settings.gates.topology
    }
}
