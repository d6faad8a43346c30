//! The caches of this process, and how their changes reach the controller.

use std::sync::{Arc, Weak};

use sidecar::kube::cache::{Cache, Event, Source};
use sidecar::kube::interner::Interner;
use sidecar::kube::key::Key;
use sidecar::lifecycle::Lifecycle;

use super::driver::DriverView;
use super::executor::Engine;
use super::kept::KeptVolume;
use crate::model::{Attachment, CsiNode, Text, Volume};
use crate::plan::reactor::Change;
use crate::plan::{self, Driver};

/// Caches, and the driver.
#[derive(Debug)]
pub struct Informers {
    /// VolumeAttachments of all drivers.
    pub attachments: Cache<Attachment>,
    /// PersistentVolumes of this driver or with its finalizer, and those read with GET.
    pub volumes: Cache<KeptVolume>,
    /// CSINodes, reduced to this driver's entry.
    pub nodes: Cache<CsiNode>,
    /// Strings that records share.
    pub strings: Interner,
    driver: Arc<DriverView>,
}

impl Informers {
    /// Empty caches that report their changes to `engine` and the attachments' progress to
    /// `lifecycle`.
    pub(super) fn new(
        engine: &Weak<Engine>,
        driver: Arc<DriverView>,
        lifecycle: &Lifecycle,
    ) -> Self {
        let strings = Interner::default();
        let current = driver.current();
        let (name, finalizer) = (current.name.clone(), current.finalizer.clone());
        let trimmed_to = current.name.clone();
        Self {
            attachments: Cache::owned(engine, &strings, attachment_changed).measured(lifecycle),
            volumes: Cache::owned(engine, &strings, volume_changed)
                .only(move |volume: &KeptVolume| volume.is_of(&name, &finalizer))
                .passing(engine, volume_passed),
            nodes: Cache::owned(engine, &strings, node_changed)
                .trimmed(move |node: &mut CsiNode| node.keep_only(&trimmed_to)),
            strings,
            driver,
        }
    }
}

impl plan::Informers for Informers {
    fn driver(&self) -> Arc<Driver> {
        self.driver.current()
    }

    fn attachment(&self, name: &str) -> Option<Arc<Attachment>> {
        self.attachments.get(name)
    }

    fn attachments(&self) -> Vec<Arc<Attachment>> {
        let mut all = Vec::new();
        self.attachments
            .for_each(|_, attachment| all.push(Arc::clone(attachment)));
        all
    }

    fn volume(&self, name: &str) -> Option<Arc<Volume>> {
        let kept = self.volumes.get(name)?;
        Some(Arc::new(kept.volume()))
    }

    fn node(&self, name: &str) -> Option<Arc<CsiNode>> {
        self.nodes.get(name)
    }
}

fn attachment_changed(engine: &Engine, event: Event<'_, Attachment>) {
    engine.observe(match event {
        Event::Upserted {
            old, new, source, ..
        } => Change::Attachment {
            old: old.map(|old| &**old),
            new,
            own: source == Source::Own,
        },
        Event::Deleted { old, .. } => Change::AttachmentGone(old),
        Event::Resync { record, .. } => Change::AttachmentResync(record),
    });
}

fn volume_changed(engine: &Engine, event: Event<'_, KeptVolume>) {
    match event {
        Event::Upserted { key, old, .. } => engine.observe(Change::Volume {
            name: Text::from(key.as_str()),
            new: old.is_none(),
        }),
        Event::Resync { key, .. } => engine.observe(Change::VolumeResync(key.as_str().into())),
        Event::Deleted { .. } => {}
    }
}

/// The volume exists but the cache does not keep it; an attachment may wait for it.
fn volume_passed(engine: &Engine, key: &Key) {
    let (name, new) = (Text::from(key.as_str()), true);
    engine.observe(Change::Volume { name, new });
}

fn node_changed(engine: &Engine, event: Event<'_, CsiNode>) {
    if let Event::Upserted { key, new, .. } = event {
        engine.observe(Change::Node(Text::from(key.as_str()), new));
    }
}
