//! What this process knows of the cluster, and what changes of it put into the queue.
//!
//! Separate from the workers: caches tell changes from their own tasks, and all that happens then
//! is a look at the books and an entry in the queue.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sidecar::kube::cache::{Cache, Event, Source};
use sidecar::kube::interner::Interner;
use sidecar::metrics::RegisterError;
use sidecar::queue::{Config, Metrics, Queue, exponential};

use super::driver::DriverLink;
use crate::model::{AttributesClass, Claim, Pod, Text, Volume};
use crate::plan::event::Origin;
use crate::plan::memory::Memory;
use crate::plan::sync_gate::SyncGates;
use crate::plan::view::Caches;
use crate::plan::{Kind, Settings, Task, turn};

/// Caches, queue and books.
pub struct Cluster {
    /// PersistentVolumeClaims, of whatever driver.
    pub claims: Cache<Claim>,
    /// PersistentVolumes, of whatever driver.
    pub volumes: Cache<Volume>,
    /// Pods that use claims, if it matters.
    pub pods: Cache<Pod>,
    /// VolumeAttributesClasses, if volumes are modified.
    pub classes: Cache<AttributesClass>,
    /// Claims to look at.
    pub queue: Queue<Task>,
    driver: Arc<DriverLink>,
    memory: Mutex<Memory>,
    gates: Mutex<SyncGates>,
}

/// How often and how much at a time is worked.
#[derive(Clone, Copy, Debug)]
pub struct Pacing {
    /// `--workers`
    pub workers: usize,
    /// `--retry-interval-start`
    pub retry_start: Duration,
    /// `--retry-interval-max`
    pub retry_max: Duration,
}

impl Cluster {
    /// An empty cluster.
    ///
    /// # Errors
    /// When the metrics refuse the queue's name, which they do for no text.
    pub fn new(
        driver: Arc<DriverLink>,
        pacing: Pacing,
        settings: &Settings,
        metrics: &Metrics,
    ) -> Result<Arc<Self>, RegisterError> {
        let current = driver.current();
        let delay = exponential(pacing.retry_start, pacing.retry_max);
        let queue = Queue::new(Config {
            lanes: turn::lanes(pacing.workers),
            metrics: Some(metrics.clone()),
            // Under the name that upstream gives both of its queues.
            ..Config::new(format!("{}-pvc", current.name), pacing.workers, delay)
        })?;
        let gates = SyncGates::new(current.abilities, settings);
        let strings = Interner::default();
        Ok(Arc::new_cyclic(|cluster| Self {
            claims: Cache::owned(cluster, &strings, Self::claim_changed),
            volumes: Cache::owned(cluster, &strings, Self::volume_changed),
            pods: Cache::owned(cluster, &strings, Self::pod_changed),
            classes: Cache::owned(cluster, &strings, Self::class_changed),
            queue,
            driver,
            memory: Mutex::new(Memory::new(settings)),
            gates: Mutex::new(gates),
        }))
    }

    /// The books. Never held across an await, nor while a queue or cache is used.
    pub fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gates(&self) -> MutexGuard<'_, SyncGates> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that work of this sort depends on is known: it may begin.
    pub fn open(&self, kind: Kind) {
        let early = self.gates().open(kind);
        for task in early {
            self.queue.add(&task, task.place());
        }
    }

    /// Looks at these at once.
    pub fn wake(&self, tasks: impl IntoIterator<Item = Task>) {
        let due = self.gates().pass(tasks);
        for task in due {
            self.queue.add(&task, task.place());
        }
    }

    /// The driver can be asked again: what failed without it need not wait for its retry.
    pub fn driver_is_back(&self) {
        let tasks = self.memory().driver_is_back();
        self.wake(tasks);
    }

    fn claim_changed(&self, event: Event<'_, Claim>) {
        let (key, old, new, origin) = match event {
            Event::Upserted {
                key,
                old,
                new,
                source,
            } => (key, old, Some(&**new), Origin::from(source)),
            Event::Deleted { key, old } => (key, Some(old), None, Origin::Watch),
            Event::Resync { key, record } => return self.resync(key.as_str(), record),
        };
        let (key, old) = (Text::from(key.as_str()), old.map(|old| &**old));
        let tasks = self.memory().claim_changed(&key, old, new, origin);
        self.wake(tasks);
    }

    fn resync(&self, key: &str, claim: &Claim) {
        if claim.detail().is_none() {
            return;
        }
        let both = Kind::ALL.map(|kind| Task::new(kind, &Text::from(key)));
        let due = self.gates().pass(both);
        for task in due {
            self.queue.resync(&task, task.place());
        }
    }

    fn volume_changed(&self, event: Event<'_, Volume>) {
        let (key, old, new) = match event {
            Event::Upserted { key, old, new, .. } => (key, old, Some(&**new)),
            Event::Deleted { key, old } => (key, Some(old), None),
            Event::Resync { .. } => return,
        };
        let old = old.map(|old| &**old);
        let driver = self.driver.current();
        let name = Text::from(key.as_str());
        let tasks = self.memory().volume_changed(&name, old, new, &driver);
        self.wake(tasks);
    }

    fn pod_changed(&self, event: Event<'_, Pod>) {
        let (old, new) = match event {
            Event::Upserted { old, new, .. } => (old, Some(&**new)),
            Event::Deleted { old, .. } => (Some(old), None),
            Event::Resync { .. } => return,
        };
        let tasks = self.memory().pod_changed(old.map(|old| &**old), new);
        self.wake(tasks);
    }

    fn class_changed(&self, event: Event<'_, AttributesClass>) {
        let (key, old, new) = match event {
            Event::Upserted { key, old, new, .. } => (key, old, Some(&**new)),
            Event::Deleted { key, old } => (key, Some(old), None),
            Event::Resync { .. } => return,
        };
        let (name, old) = (Text::from(key.as_str()), old.map(|old| &**old));
        let tasks = self.memory().class_changed(&name, old, new);
        self.wake(tasks);
    }
}

impl From<Source> for Origin {
    fn from(source: Source) -> Self {
        match source {
            Source::Watch => Self::Watch,
            Source::Own => Self::Own,
        }
    }
}

impl Caches for Cluster {
    fn claim(&self, key: &Text) -> Option<Arc<Claim>> {
        self.claims.get(key)
    }

    fn volume(&self, name: &Text) -> Option<(Arc<Volume>, u64)> {
        self.volumes.get_versioned(name)
    }

    fn class(&self, name: &Text) -> Option<Arc<AttributesClass>> {
        self.classes.get(name)
    }

    fn in_use(&self, claim: &Text) -> bool {
        self.memory().in_use(claim)
    }
}
