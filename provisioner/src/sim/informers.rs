//! The caches of one process, as a mutant sees them.

use std::sync::Arc;

use sidecar_testkit::sim::watch::Watch;

use super::mutant::Mutant;
use super::server::NodeInfo;
use crate::model::{Attachment, Claim, Class, Grant, Volume};
use crate::plan::{self, Driver};

/// The informers of the controller.
pub(super) struct Informers {
    pub(super) driver: Arc<Driver>,
    pub(super) claims: Watch<Claim>,
    pub(super) volumes: Watch<Volume>,
    pub(super) attachments: Watch<Attachment>,
    pub(super) classes: Watch<Class>,
    pub(super) nodes: Watch<NodeInfo>,
    /// The watch of attachments has ended, and the process knows it.
    pub(super) attachments_missed: bool,
    pub(super) mutant: Mutant,
    /// The kinds of objects that a mutant does not see now.
    pub(super) hidden: Hidden,
}

/// Kinds of objects that can be hidden.
#[derive(Clone, Copy, Default)]
pub(super) struct Hidden {
    pub(super) claims: bool,
    pub(super) volumes: bool,
}

impl Informers {
    pub(super) fn new(driver: Driver, mutant: Mutant) -> Self {
        Self {
            driver: Arc::new(driver),
            claims: Watch::new(),
            volumes: Watch::new(),
            attachments: Watch::new(),
            classes: Watch::new(),
            nodes: Watch::new(),
            attachments_missed: false,
            mutant,
            hidden: Hidden::default(),
        }
    }
}

impl plan::Informers for Informers {
    fn driver(&self) -> Arc<Driver> {
        Arc::clone(&self.driver)
    }

    fn claim(&self, key: &str) -> Option<Arc<Claim>> {
        self.claims.get(key).cloned()
    }

    fn for_each_claim(&self, look: &mut dyn FnMut(&Arc<Claim>)) {
        let all = self.claims.slots.iter().filter(|_| !self.hidden.claims);
        all.for_each(|(_, claim)| look(claim));
    }

    fn volume(&self, name: &str) -> Option<Arc<Volume>> {
        let volume = self.volumes.get(name).filter(|_| !self.hidden.volumes);
        volume.cloned()
    }

    fn for_each_volume(&self, look: &mut dyn FnMut(&str, &Volume)) {
        let all = self.volumes.slots.iter();
        all.for_each(|(key, volume)| look(key.as_str(), volume));
    }

    fn class(&self, name: &str) -> Option<Arc<Class>> {
        self.classes.get(name).cloned()
    }

    fn for_each_grant(&self, _look: &mut dyn FnMut(&Arc<Grant>)) {}

    fn misses_attachments(&self) -> bool {
        self.attachments_missed && self.mutant != Mutant::TrustsBrokenWatches
    }
}
