//! The caches of this process, and their changes as the reactor gets them.

use std::sync::{Arc, Weak};

use sidecar::kube::cache::{Cache, Event, Source};
use sidecar::kube::interner::Interner;
use sidecar::lifecycle::Lifecycle;

use super::driver::DriverView;
use super::executor::Engine;
use crate::model::{Attachment, Claim, Class, CsiNode, Grant, Node, Text, Volume};
use crate::plan::reactor::Change;
use crate::plan::{self, Driver};

/// Caches, and the driver.
#[derive(Debug)]
pub struct Informers {
    /// Claims of all drivers that may need work.
    pub claims: Cache<Claim>,
    /// PersistentVolumes of all drivers.
    pub volumes: Cache<Volume>,
    /// StorageClasses.
    pub classes: Cache<Class>,
    /// VolumeAttachments, if the driver has `PUBLISH_UNPUBLISH_VOLUME`.
    pub attachments: Cache<Attachment>,
    /// Nodes, if topology counts.
    pub nodes: Cache<Node>,
    /// CSINodes, if topology counts; only this driver's entry of each.
    pub csi_nodes: Cache<CsiNode>,
    /// ReferenceGrants, if their gate is on.
    pub grants: Cache<Grant>,
    /// Texts that records share.
    pub strings: Interner,
    driver: Arc<DriverView>,
}

impl Informers {
    /// Empty caches, whose changes `engine` hears. `lifecycle` gets the progress of claims and volumes.
    pub(super) fn new(
        engine: &Weak<Engine>,
        driver: Arc<DriverView>,
        lifecycle: &Lifecycle,
    ) -> Self {
        let strings = Interner::default();
        let name = driver.current().name.clone();
        let shared = strings.clone();
        Self {
            claims: Cache::owned(engine, &strings, claim_changed).measured(lifecycle),
            volumes: Cache::owned(engine, &strings, volume_changed).measured(lifecycle),
            classes: Cache::owned(engine, &strings, class_changed),
            attachments: Cache::owned(engine, &strings, attachment_changed),
            nodes: Cache::owned(engine, &strings, node_changed),
            csi_nodes: Cache::owned(engine, &strings, csi_node_changed).trimmed(
                move |node: &mut CsiNode| node.keep_only(&name, |kept| shared.share(kept)),
            ),
            grants: Cache::owned(engine, &strings, grant_changed),
            strings,
            driver,
        }
    }
}

impl plan::Informers for Informers {
    fn driver(&self) -> Arc<Driver> {
        self.driver.current()
    }

    fn claim(&self, key: &str) -> Option<Arc<Claim>> {
        self.claims.get(key)
    }

    fn for_each_claim(&self, look: &mut dyn FnMut(&Arc<Claim>)) {
        self.claims.for_each(|_, claim| look(claim));
    }

    fn volume(&self, name: &str) -> Option<Arc<Volume>> {
        self.volumes.get(name)
    }

    fn for_each_volume(&self, look: &mut dyn FnMut(&str, &Volume)) {
        self.volumes
            .for_each(|key, volume| look(key.as_str(), volume));
    }

    fn class(&self, name: &str) -> Option<Arc<Class>> {
        self.classes.get(name)
    }

    fn for_each_grant(&self, look: &mut dyn FnMut(&Arc<Grant>)) {
        self.grants.for_each(|_, grant| look(grant));
    }

    fn misses_attachments(&self) -> bool {
        self.driver.current().abilities.publish && !self.attachments.is_current()
    }
}

fn claim_changed(engine: &Engine, event: Event<'_, Claim>) {
    engine.observe(match event {
        Event::Upserted {
            old, new, source, ..
        } => Change::Claim {
            old: old.map(|old| &**old),
            new,
            own: source == Source::Own,
        },
        Event::Deleted { old, .. } => Change::ClaimGone(old),
        Event::Resync { record, .. } => Change::ClaimResync(record),
    });
}

fn volume_changed(engine: &Engine, event: Event<'_, Volume>) {
    engine.observe(match event {
        Event::Upserted {
            key,
            old,
            new,
            source,
        } => Change::Volume {
            name: key.as_str().into(),
            old: old.map(|old| &**old),
            new,
            own: source == Source::Own,
        },
        Event::Deleted { key, .. } => Change::VolumeGone(key.as_str()),
        Event::Resync { key, record } => Change::VolumeResync(key.as_str().into(), record),
    });
}

fn class_changed(engine: &Engine, event: Event<'_, Class>) {
    let capacity = engine.shell().capacity.get();
    match event {
        Event::Upserted { new, .. } => {
            engine.observe(Change::Class(new));
            if let Some(capacity) = capacity {
                capacity.class_changed(new);
            }
        }
        Event::Deleted { old, .. } => {
            if let Some(capacity) = capacity {
                capacity.class_gone(&old.name);
            }
        }
        Event::Resync { .. } => {}
    }
}

fn attachment_changed(engine: &Engine, event: Event<'_, Attachment>) {
    match event {
        Event::Upserted { old, new, .. } => engine.observe(Change::Attachment {
            old: old.map(|old| &**old),
            new,
        }),
        Event::Deleted { old, .. } => engine.observe(Change::AttachmentGone(old)),
        Event::Resync { .. } => {}
    }
}

fn node_changed(engine: &Engine, event: Event<'_, Node>) {
    let (key, old, new) = match event {
        Event::Upserted { key, old, new, .. } => (key, old.map(|old| &**old), Some(&**new)),
        Event::Deleted { key, old } => (key, Some(&**old), None),
        Event::Resync { .. } => return,
    };
    let name = Text::from(key.as_str());
    engine.observe(Change::Node { name, old, new });
}

fn csi_node_changed(engine: &Engine, event: Event<'_, CsiNode>) {
    let (key, new) = match event {
        Event::Upserted { key, new, .. } => (key, Some(&**new)),
        Event::Deleted { key, .. } => (key, None),
        Event::Resync { .. } => return,
    };
    engine.observe(Change::CsiNode(key.as_str().into(), new));
}

fn grant_changed(engine: &Engine, event: Event<'_, Grant>) {
    if let Event::Upserted { new, .. } = event {
        engine.observe(Change::Grant(new));
    }
}
