//! The caches of this process, and how their changes reach the controller.

use std::sync::{Arc, Weak};

use sidecar::kube::cache::{Cache, Event};
use sidecar::kube::interner::Interner;

use super::driver::DriverView;
use super::executor::Engine;
use crate::model::{Claim, Text, Volume};
use crate::plan::reactor::Change;
use crate::plan::{self, Driver};

/// Caches, and the driver.
#[derive(Debug)]
pub struct Informers {
    /// Claims that are unbound or have health conditions.
    pub claims: Cache<Claim>,
    /// Bound PersistentVolumes of this driver.
    pub volumes: Cache<Volume>,
    driver: Arc<DriverView>,
}

impl Informers {
    /// Empty caches that report their changes to `engine`.
    pub(super) fn new(engine: &Weak<Engine>, driver: Arc<DriverView>) -> Self {
        let strings = Interner::default();
        let name = driver.current().name.clone();
        Self {
            // The next report compares the claim's conditions, so their changes need no reaction.
            claims: Cache::new(strings.clone(), |_| {}),
            volumes: Cache::owned(engine, &strings, volume_changed)
                .only(move |volume: &Volume| *volume.driver == *name),
            driver,
        }
    }
}

impl plan::Informers for Informers {
    fn driver(&self) -> Arc<Driver> {
        self.driver.current()
    }

    fn volume(&self, name: &str) -> Option<Arc<Volume>> {
        self.volumes.get(name)
    }

    fn claim(&self, key: &str) -> Option<Arc<Claim>> {
        self.claims.get(key)
    }

    fn unhealthy(&self) -> Vec<(Text, Arc<Claim>)> {
        let mut all = Vec::new();
        self.claims.for_each(|key, claim| {
            if !claim.stored.is_empty() {
                all.push((key.as_str().into(), Arc::clone(claim)));
            }
        });
        all
    }
}

fn volume_changed(engine: &Engine, event: Event<'_, Volume>) {
    let (key, old, new) = match event {
        Event::Upserted { key, old, new, .. } => (key, old.map(|old| &**old), Some(&**new)),
        Event::Deleted { key, old } => (key, Some(&**old), None),
        Event::Resync { .. } => return,
    };
    let name = Text::from(key.as_str());
    engine.observe(Change::Volume { name, old, new });
}
