//! Keeps the CSIStorageCapacity objects of this process up to date.
//!
//! [`plan::capacity`](crate::plan::capacity) decides which objects there should be, and about their content. This
//! listens for changes, calls the driver, and writes.

mod origin;
mod task;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use csi_proto::csi::Topology;
use kube::Client;
use sidecar::controller::Watch;
use sidecar::kube::api::Api;
use sidecar::kube::cache::{Cache, Event};
use sidecar::kube::interner::Interner;
use sidecar::kube::reflect::Scope;
use sidecar::metrics::RegisterError;
use sidecar::node_selector;
use sidecar::queue::{self, Place, Queue};
use sidecar::retry::RetryPolicy;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::api::CAPACITIES;
use super::driver::DriverView;
use super::metrics::CapacityMetrics;
use crate::model::{Class, StorageCapacity};
use crate::plan::capacity::{DesiredObjects, Producer, Task};
use crate::plan::topology::Term;

pub use origin::producer;

/// Delay between a change of segments and its effect: nodes join in groups.
const SETTLE: Duration = Duration::from_millis(200);

/// The producer of CSIStorageCapacity objects.
pub struct Capacity {
    /// The queue of tasks.
    pub queue: Queue<Task>,
    producer: Producer,
    poll: Duration,
    driver: Arc<DriverView>,
    api: Api,
    classes: Cache<Class>,
    objects: Cache<StorageCapacity>,
    strings: Interner,
    desired: Mutex<DesiredObjects>,
    segments_changed: Notify,
}

/// Parts of a [`Capacity`].
pub struct Parts<'a> {
    /// Producer of the objects.
    pub producer: Producer,
    /// The flags of storage capacity.
    pub config: &'a crate::args::Capacity,
    /// The back-off of items.
    pub retry: RetryPolicy,
    /// The driver.
    pub driver: Arc<DriverView>,
    /// The API client, with a rate limit of its own.
    pub client: &'a Client,
    /// Cache of StorageClasses.
    pub classes: Cache<Class>,
    /// Texts that records share.
    pub strings: Interner,
    /// Metrics of the queue.
    pub queues: &'a queue::Metrics,
    /// Metrics of the objects.
    pub metrics: &'a CapacityMetrics,
}

impl Capacity {
    /// A producer that does nothing before [`serve`](Self::serve).
    ///
    /// # Errors
    /// The metrics reject the queue's name; they reject no text.
    pub fn new(parts: Parts<'_>) -> Result<Arc<Self>, RegisterError> {
        let Parts {
            producer,
            retry: policy,
            ..
        } = parts;
        let threads = parts.config.threads;
        let queue = Queue::new(queue::Config {
            metrics: Some(parts.queues.clone()),
            ..queue::Config::new(
                "csistoragecapacity",
                threads,
                Box::new(move |failures| policy.delay(failures, 0.0)),
            )
        })?;
        let name = producer.driver.as_str().into();
        let this = Arc::new_cyclic(|this: &Weak<Self>| {
            let weak = this.clone();
            let heard = move |event: Event<'_, StorageCapacity>| {
                if let Some(this) = weak.upgrade() {
                    this.object_changed(event);
                }
            };
            Self {
                queue,
                producer,
                poll: parts.config.poll,
                driver: parts.driver,
                api: Api::new(parts.client.clone()),
                classes: parts.classes,
                objects: Cache::new(parts.strings.clone(), heard),
                strings: parts.strings,
                desired: Mutex::new(DesiredObjects::new(name, parts.config.immediate)),
                segments_changed: Notify::new(),
            }
        });
        let weak = Arc::downgrade(&this);
        let figures = move || Some(weak.upgrade()?.desired().figures());
        parts.metrics.read_from(figures);
        Ok(this)
    }

    /// The desired objects. Never held across an await, nor while the queue or a cache is used.
    fn desired(&self) -> MutexGuard<'_, DesiredObjects> {
        self.desired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, tasks: Vec<Task>) {
        for task in tasks {
            self.queue.add(&task, Place::default());
        }
    }

    fn object_changed(&self, event: Event<'_, StorageCapacity>) {
        let tasks = match event {
            Event::Upserted { new, .. } => self.desired().object_changed(Arc::clone(new)),
            Event::Deleted { key, .. } => self.desired().object_gone(key.name()),
            Event::Resync { .. } => return,
        };
        self.add(tasks);
    }

    /// A class is new or changed.
    pub fn class_changed(&self, class: &Class) {
        let tasks = self.desired().class_changed(class);
        self.add(tasks);
    }

    /// A class is gone.
    pub fn class_gone(&self, name: &str) {
        let tasks = self.desired().class_gone(name);
        self.add(tasks);
    }

    /// The nodes or their labels have changed, and with them the segments.
    pub fn segments_changed(&self) {
        self.segments_changed.notify_one();
    }

    /// A volume was made for a claim of this class; `accessible` are its topologies.
    pub fn provisioned(&self, class: &str, accessible: &[Topology]) {
        let tasks = self.desired().after_success(class, accessible);
        self.add(tasks);
    }

    /// No volume could be made for a claim of this class.
    pub fn failed(&self, class: &str) {
        let tasks = self.desired().after_failure(class);
        self.add(tasks);
    }

    /// A volume with this affinity was deleted.
    pub fn deleted(&self, affinity: Option<&[node_selector::Term]>) {
        let tasks = self.desired().after_delete(affinity);
        self.add(tasks);
    }

    /// The watch of this process's objects. [`serve`](Self::serve) waits for it by itself.
    pub fn watch(&self) -> Watch {
        let scope = Scope {
            namespace: Some(self.producer.namespace.clone()),
            labels: self.producer.selector(),
            ..Scope::all(CAPACITIES)
        };
        Watch::of(scope, &self.objects).at_once()
    }

    /// Works until the queue is shut down. Classes and nodes must be listed before; `segments` is called whenever they
    /// have changed.
    pub async fn serve(self: &Arc<Self>, segments: impl Fn() -> Vec<Term>) {
        self.objects.synced().await;
        let mut classes = Vec::new();
        self.classes
            .for_each(|_, class| classes.push(Arc::clone(class)));
        for class in &classes {
            self.class_changed(class);
        }
        self.take_segments(&segments);
        let workers = self.queue.serve(|work| {
            let this = Arc::clone(self);
            async move { this.work(work).await }
        });
        tokio::select! {
            () = workers => {}
            never = self.poll() => match never {},
            never = self.follow(&segments) => match never {},
        }
    }

    fn take_segments(&self, segments: impl Fn() -> Vec<Term>) {
        let segments = segments();
        let tasks = self.desired().set_segments(segments);
        self.add(tasks);
    }

    async fn follow(&self, segments: impl Fn() -> Vec<Term>) -> Infallible {
        loop {
            self.segments_changed.notified().await;
            sleep(SETTLE).await;
            self.take_segments(&segments);
        }
    }

    /// Queues every item again and again; items in back-off stay there.
    async fn poll(&self) -> Infallible {
        if self.poll.is_zero() {
            return std::future::pending().await;
        }
        loop {
            sleep(self.poll).await;
            let tasks = self.desired().all();
            for task in tasks {
                self.queue.resync(&task, Place::default());
            }
        }
    }
}

impl std::fmt::Debug for Capacity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Capacity").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
