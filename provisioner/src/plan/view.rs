//! What a decision on a claim looks at.
//!
//! The executor and the crash simulation fill it in.

use std::sync::Arc;

use super::topology::TopologyIndex;
use super::{Driver, Settings};
use crate::model::{Claim, Class, Grant};

/// Everything a decision on a claim looks at, read from the caches in one go.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The driver.
    pub driver: &'a Driver,
    /// The command line.
    pub settings: &'a Settings,
    /// The claim to work on, as it was last seen.
    pub claim: &'a Claim,
    /// The claim is no longer in the API, or another one has taken its name. Only calls in doubt are
    /// worked on then.
    pub gone: bool,
    /// The class that [`Claim::class_name`] names, if it is there.
    pub class: Option<&'a Class>,
    /// There is a PersistentVolume of the name that
    /// [`Attempt::volume_name`](super::claim::Attempt::volume_name) says.
    pub volume_exists: bool,
    /// It is on its way out, with its volume.
    pub volume_leaves: bool,
    /// All ReferenceGrants; none without the gate.
    pub grants: &'a [Arc<Grant>],
    /// Where volumes can be.
    pub places: &'a TopologyIndex,
}

impl View<'_> {
    /// Whether the driver's volumes are not everywhere, and that counts.
    #[must_use]
    pub fn topology_active(&self) -> bool {
        self.driver.abilities.topology && self.settings.gates.topology
    }
}
