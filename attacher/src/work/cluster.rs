//! What this process knows of the cluster, and what changes of it put into the queues.
//!
//! Separate from the workers: caches tell changes from their own tasks, and all that happens then
//! is a look at the books and an entry in a queue.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sidecar::kube::cache::{Cache, Event, Source};
use sidecar::kube::interner::Interner;
use sidecar::metrics::RegisterError;
use sidecar::queue::{Config, Metrics, Place, Queue, exponential};

use super::driver::DriverLink;
use crate::model::{Attachment, CsiNode, Text, Volume};
use crate::plan::memory::{Ended, Item, Memory, Waiter};
use crate::plan::orphan::{Orphan, Verdict};
use crate::plan::outcome::Cure;
use crate::plan::wake::{self, Due};
use crate::plan::{View, lane};

/// Caches, queues and books.
pub struct Cluster {
    /// VolumeAttachments, of whatever driver.
    pub attachments: Cache<Attachment>,
    /// PersistentVolumes, of whatever driver.
    pub volumes: Cache<Volume>,
    /// CSINodes.
    pub nodes: Cache<CsiNode>,
    /// VolumeAttachments of this driver to look at, and what such have left published.
    pub queue: Queue<Item>,
    /// PersistentVolumes whose finalizer may be due.
    pub releases: Queue<Text>,
    /// Texts that records share.
    pub strings: Interner,
    driver: Arc<DriverLink>,
    memory: Mutex<Memory>,
}

/// How often and how much at a time is worked.
#[derive(Clone, Copy, Debug)]
pub struct Pacing {
    /// `--worker-threads`
    pub threads: usize,
    /// `--retry-interval-start`
    pub retry_start: Duration,
    /// `--retry-interval-max`
    pub retry_max: Duration,
}

impl Cluster {
    /// An empty cluster.
    ///
    /// # Errors
    /// When the metrics refuse the queues' names, which they do for no text.
    pub fn new(
        driver: Arc<DriverLink>,
        pacing: Pacing,
        metrics: &Metrics,
    ) -> Result<Arc<Self>, RegisterError> {
        let delay = || exponential(pacing.retry_start, pacing.retry_max);
        let (lanes, shared) = lane::lanes(pacing.threads);
        let queue = Queue::new(Config {
            name: "csi-attacher-va".into(),
            lanes,
            shared,
            delay: delay(),
            metrics: Some(metrics.clone()),
        })?;
        let releases = Queue::new(Config {
            metrics: Some(metrics.clone()),
            ..Config::new("csi-attacher-pv", pacing.threads, delay())
        })?;
        let strings = Interner::default();
        Ok(Arc::new_cyclic(|cluster| Self {
            attachments: Cache::owned(cluster, &strings, Self::attachment_changed),
            volumes: Cache::owned(cluster, &strings, Self::volume_changed),
            nodes: Cache::owned(cluster, &strings, Self::node_changed),
            queue,
            releases,
            strings: strings.clone(),
            driver,
            memory: Mutex::default(),
        }))
    }

    /// The books. Never held across an await, nor while a queue or cache is used.
    pub fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the attachment at once.
    pub fn wake(&self, name: &Text) {
        if let Some(attachment) = self.attachments.get(name) {
            self.look_at(&attachment);
        }
    }

    /// The same for an attachment that may have changed since it was cached.
    pub fn look_at(&self, attachment: &Attachment) {
        let item = Item::Attachment(attachment.name.clone());
        self.queue.add(&item, lane::place(attachment));
    }

    /// Whoever waited for this need not wait any longer.
    pub fn wake_all(&self, items: impl IntoIterator<Item = Item>) {
        for item in items {
            match &item {
                Item::Attachment(name) => self.wake(name),
                Item::Orphan(target) => {
                    let place = self.memory().orphan(target).map(lane::place_of_orphan);
                    if let Some(place) = place {
                        self.queue.add(&item, place);
                    }
                }
            }
        }
    }

    /// An attempt ended: what depended on it is looked at.
    pub fn ended(&self, ended: Ended) {
        if let Some(lost) = ended.lost {
            self.orphaned(&lost);
        }
        if let Some(volume) = ended.volume {
            self.look_at_volume(&volume);
        }
    }

    /// This attachment is gone and may have left its volume on the node.
    fn orphaned(&self, attachment: &Attachment) {
        let orphan = self.with_view(attachment, Orphan::of);
        let (attachment, node) = (&*attachment.name, &*attachment.node);
        match orphan {
            Ok(orphan) => {
                let volume_handle = &*orphan.target.volume;
                tracing::warn!(
                    attachment,
                    node,
                    volume_handle,
                    "VolumeAttachment is gone and its volume may be on the node, detaching"
                );
                let item = Item::Orphan(orphan.target.clone());
                self.memory().owe(orphan);
                self.wake_all([item]);
            }
            Err(failure) => {
                tracing::error!(
                    attachment,
                    node,
                    err = %failure,
                    "VolumeAttachment is gone and its volume may be on the node, cannot be detached"
                );
            }
        }
    }

    /// What to do about an orphan, as the caches are now.
    pub fn verdict(&self, orphan: &Orphan) -> Verdict {
        let mut all = Vec::new();
        let mut collect = |attachment: &Arc<Attachment>| all.push(Arc::clone(attachment));
        self.attachments
            .for_each(|_, attachment| collect(attachment));
        let driver = self.driver.current();
        let looked_up: Vec<_> = { all.iter() }
            .map(|attachment| {
                let name = attachment.volume.as_ref();
                let volume = name.and_then(|name| self.volumes.get(name));
                (attachment, volume, self.nodes.get(&attachment.node))
            })
            .collect();
        orphan.verdict({ looked_up.iter() }.map(|(attachment, volume, node)| View {
            driver: &driver,
            attachment,
            volume: volume.as_deref(),
            node: node.as_deref(),
        }))
    }

    /// Looks at everything that a decision on `attachment` needs, in one go.
    pub fn with_view<T>(&self, attachment: &Attachment, decide: impl FnOnce(&View<'_>) -> T) -> T {
        let name = attachment.volume.as_ref();
        let volume = name.and_then(|name| self.volumes.get(name));
        let node = self.nodes.get(&attachment.node);
        decide(&View {
            driver: &self.driver.current(),
            attachment,
            volume: volume.as_deref(),
            node: node.as_deref(),
        })
    }

    /// Looks at the volume's finalizer if it may be due.
    pub fn look_at_volume(&self, name: &Text) {
        let driver = self.driver.current();
        if wake::is_release_due(self.volumes.get(name).as_deref(), &driver) {
            self.releases.add(name, Place::default());
        }
    }

    /// A patch of the volume ended: who waited for it goes on.
    pub fn volume_patched(&self, name: &Text) {
        let waiting = self.memory().patches.end(name);
        for waiter in waiting {
            match waiter {
                Waiter::Attachment(name) => self.wake(&name),
                Waiter::Volume(name) => self.releases.add(&name, Place::default()),
            }
        }
    }

    fn attachment_changed(&self, event: Event<'_, Attachment>) {
        let driver = self.driver.current();
        match event {
            Event::Upserted {
                old, new, source, ..
            } => {
                let (old, own) = (old.map(|old| &**old), source == Source::Own);
                let due = wake::attachment_upserted(&mut self.memory(), old, new, own, &driver);
                self.look_after(due);
            }
            Event::Deleted { old, .. } => {
                let due = wake::attachment_deleted(&mut self.memory(), old, &driver);
                if due.unexplained {
                    tracing::warn!(
                        attachment = &*old.name,
                        node = &*old.node,
                        "VolumeAttachment is gone without having been deleted first; its volume \
                         may be in use and stays on the node"
                    );
                }
                self.look_after(due);
            }
            Event::Resync { record, .. } => {
                // A resync also retries what waits for its back-off, without lengthening it.
                if *record.attacher == *driver.name {
                    self.look_at(record);
                }
            }
        }
    }

    fn volume_changed(&self, event: Event<'_, Volume>) {
        match event {
            Event::Upserted { key, old, .. } => {
                let old = old.map(|old| &**old);
                let name = Text::from(key.as_str());
                let due = wake::volume_upserted(&mut self.memory(), &name, old);
                self.look_after(due);
            }
            Event::Resync { key, .. } => self.look_at_volume(&key.as_str().into()),
            Event::Deleted { .. } => {}
        }
    }

    fn node_changed(&self, event: Event<'_, CsiNode>) {
        if let Event::Upserted { key, new, .. } = event {
            let (name, driver) = (Text::from(key.as_str()), self.driver.current());
            let due = wake::node_upserted(&mut self.memory(), &name, new, &driver);
            self.look_after(due);
        }
    }

    fn look_after(&self, due: Due) {
        if let Some(lost) = due.lost {
            self.orphaned(&lost);
        }
        self.wake_all(due.items);
        for volume in due.volumes {
            self.look_at_volume(&volume);
        }
    }

    /// The driver can be asked again: what failed without it need not wait for its retry.
    pub fn driver_is_back(&self) {
        let items = self.memory().cured(&Cure::Driver);
        self.wake_all(items);
    }
}
