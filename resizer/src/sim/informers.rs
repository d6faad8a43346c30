//! The caches of one process, as a mutant sees them.

use std::sync::Arc;

use sidecar_testkit::sim::watch::Watch;

use super::mutant::Mutant;
use crate::model::{AttributesClass, Claim, Pod, Text, Volume};
use crate::plan::{self, Driver};

/// The caches that the controller reads.
pub(super) struct Informers {
    pub(super) driver: Arc<Driver>,
    pub(super) claims: Watch<Claim>,
    pub(super) volumes: Watch<Volume>,
    pub(super) classes: Watch<AttributesClass>,
    pub(super) pods: Watch<Pod>,
    pub(super) mutant: Mutant,
}

impl plan::Informers for Informers {
    fn driver(&self) -> Arc<Driver> {
        Arc::clone(&self.driver)
    }

    fn claim(&self, key: &Text) -> Option<Arc<Claim>> {
        Some(self.mutant.sees(self.claims.get(key).cloned()?))
    }

    fn volume(&self, name: &Text) -> Option<(Arc<Volume>, u64)> {
        let (volume, version) = self.volumes.slots.get_versioned(name)?;
        Some((self.mutant.sees_volume(volume), version))
    }

    fn class(&self, name: &Text) -> Option<Arc<AttributesClass>> {
        Some(self.mutant.sees_class(self.classes.get(name).cloned()?))
    }
}
