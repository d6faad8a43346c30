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
use crate::plan::memory::{Memory, Waiter};
use crate::plan::outcome::Cure;
use crate::plan::{event, lane, volume};

/// Caches, queues and books.
pub struct Cluster {
    /// VolumeAttachments, of whatever driver.
    pub attachments: Cache<Attachment>,
    /// PersistentVolumes, of whatever driver.
    pub volumes: Cache<Volume>,
    /// CSINodes.
    pub nodes: Cache<CsiNode>,
    /// VolumeAttachments of this driver to look at.
    pub queue: Queue<Text>,
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
            self.queue.add(name, lane::place(&attachment));
        }
    }

    /// Looks at the volume's finalizer if it may be due.
    pub fn look_at_volume(&self, name: &Text) {
        let driver = self.driver.current();
        let due = |volume: Arc<Volume>| volume::may_release(&volume, &driver);
        if self.volumes.get(name).is_some_and(due) {
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
                let old = old.map(|old| &**old);
                self.memory().upserted(old, new);
                // What this process writes itself is looked at by the attempt that wrote it.
                if source == Source::Watch && event::is_work(old, new, &driver) {
                    self.queue.add(&new.name, lane::place(new));
                }
            }
            Event::Deleted { old, .. } => {
                self.memory().deleted(old);
                if let Some(volume) = &old.volume {
                    self.look_at_volume(volume);
                }
            }
            Event::Resync { record, .. } => {
                // A resync also retries what waits for its back-off, without lengthening it.
                if *record.attacher == *driver.name {
                    self.queue.add(&record.name, lane::place(record));
                }
            }
        }
    }

    fn volume_changed(&self, event: Event<'_, Volume>) {
        match event {
            Event::Upserted { key, old, .. } => {
                let name = Text::from(key.as_str());
                self.look_at_volume(&name);
                if old.is_none() {
                    self.cured(&Cure::Volume(name));
                }
            }
            Event::Resync { key, .. } => self.look_at_volume(&key.as_str().into()),
            Event::Deleted { .. } => {}
        }
    }

    fn node_changed(&self, event: Event<'_, CsiNode>) {
        if let Event::Upserted { key, new, .. } = event
            && new.id_for(&self.driver.current().name).is_some()
        {
            self.cured(&Cure::CsiNode(key.as_str().into()));
        }
    }

    /// The driver can be asked again: what failed without it need not wait for its retry.
    pub fn driver_is_back(&self) {
        self.cured(&Cure::Driver);
    }

    fn cured(&self, cure: &Cure) {
        let names = self.memory().cured(cure);
        for name in names {
            self.wake(&name);
        }
    }
}
