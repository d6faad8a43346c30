//! The caches of this process, which report their changes to the controller.

use std::sync::{Arc, Weak};

use sidecar::kube::cache::{Cache, Event, Source};
use sidecar::kube::interner::Interner;
use sidecar::lifecycle::Lifecycle;

use super::driver::DriverView;
use super::executor::Engine;
use crate::model::{AttributesClass, Claim, Pod, Text, Volume};
use crate::plan::event::Origin;
use crate::plan::reactor::Change;
use crate::plan::{self, Driver};

/// The caches, and the driver.
#[derive(Debug)]
pub struct Informers {
    /// PersistentVolumeClaims of all drivers that have a due task, and those that were read.
    pub claims: Cache<Claim>,
    /// PersistentVolumes of all drivers: so the resizer recognizes an open claim of another driver
    /// without a request.
    pub volumes: Cache<Volume>,
    /// Pods that use claims; empty unless they are watched.
    pub pods: Cache<Pod>,
    /// VolumeAttributesClasses; empty unless volumes are modified.
    pub classes: Cache<AttributesClass>,
    driver: Arc<DriverView>,
}

impl Informers {
    /// Empty caches, whose changes `engine` hears. `lifecycle` is told how far claims have come.
    pub(super) fn new(
        engine: &Weak<Engine>,
        driver: Arc<DriverView>,
        lifecycle: Lifecycle,
    ) -> Self {
        let strings = Interner::default();
        let volumes = Cache::owned(engine, &strings, volume_changed);
        let lifecycle = lifecycle.owned_by({
            // Not the cache itself, which would keep itself.
            let engine = engine.clone();
            move |volume| {
                let engine = engine.upgrade()?;
                let volume = engine.shell().informers.volumes.get(volume)?;
                Some(volume.driver().unwrap_or_default().into())
            }
        });
        Self {
            claims: Cache::owned(engine, &strings, claim_changed)
                .only(Claim::is_open)
                .measured(&lifecycle),
            volumes,
            pods: Cache::owned(engine, &strings, pod_changed),
            classes: Cache::owned(engine, &strings, class_changed),
            driver,
        }
    }
}

impl plan::Informers for Informers {
    fn driver(&self) -> Arc<Driver> {
        self.driver.current()
    }

    fn claim(&self, key: &Text) -> Option<Arc<Claim>> {
        self.claims.get(key)
    }

    fn volume(&self, name: &Text) -> Option<(Arc<Volume>, u64)> {
        self.volumes.get_versioned(name)
    }

    fn class(&self, name: &Text) -> Option<Arc<AttributesClass>> {
        self.classes.get(name)
    }
}

fn claim_changed(engine: &Engine, event: Event<'_, Claim>) {
    engine.observe(match event {
        Event::Upserted {
            key,
            old,
            new,
            source,
        } => Change::Claim {
            key: key.as_str().into(),
            old: old.map(|old| &**old),
            new: Some(new),
            origin: Origin::from(source),
        },
        Event::Deleted { key, old } => Change::Claim {
            key: key.as_str().into(),
            old: Some(old),
            new: None,
            origin: Origin::Watch,
        },
        Event::Resync { key, record } => Change::ClaimResync(key.as_str().into(), record),
    });
}

fn volume_changed(engine: &Engine, event: Event<'_, Volume>) {
    let (key, old, new) = match event {
        Event::Upserted { key, old, new, .. } => (key, old, Some(new)),
        Event::Deleted { key, old } => (key, Some(old), None),
        Event::Resync { .. } => return,
    };
    engine.observe(Change::Volume {
        name: Text::from(key.as_str()),
        old: old.map(|old| &**old),
        new: new.map(|new| &**new),
    });
}

fn pod_changed(engine: &Engine, event: Event<'_, Pod>) {
    let (old, new) = match event {
        Event::Upserted { old, new, .. } => (old, Some(new)),
        Event::Deleted { old, .. } => (Some(old), None),
        Event::Resync { .. } => return,
    };
    engine.observe(Change::Pod {
        old: old.map(|old| &**old),
        new: new.map(|new| &**new),
    });
}

fn class_changed(engine: &Engine, event: Event<'_, AttributesClass>) {
    let (key, old, new) = match event {
        Event::Upserted { key, old, new, .. } => (key, old, Some(new)),
        Event::Deleted { key, old } => (key, Some(old), None),
        Event::Resync { .. } => return,
    };
    engine.observe(Change::Class {
        name: Text::from(key.as_str()),
        old: old.map(|old| &**old),
        new: new.map(|new| &**new),
    });
}

impl From<Source> for Origin {
    fn from(source: Source) -> Self {
        match source {
            Source::Watch => Self::Watch,
            Source::Own => Self::Own,
        }
    }
}
