//! Measures how long users wait for volumes and snapshots: from timestamps of objects to the end of each stage, across
//! attempts, restarts and changes of leader.
//!
//! | file | contents |
//! |---|---|
//! | `stage` | the stages, and the progress that a state of an object shows: pure |
//! | `tracker` | tracks open stages and measures ended ones: pure |
//! | `names` | bounds the values of a label: pure |
//! | `metrics` | the metric families |
//!
//! Caches look at each object from a list, from the watch or from the answer to a write of this process
//! ([`Record::steps`](crate::kube::cache::Record::steps)), before they drop most of its fields. Reactors, queues and
//! simulations know nothing about it.

mod metrics;
mod names;
mod stage;
mod tracker;

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use jiff::Timestamp;

use crate::kube::rate::ClockSkew;
use crate::mutex::lock;
use crate::text::Text;

pub use metrics::LifecycleMetrics;
pub use stage::{End, Id, Progress, Since, Stage, Step};
use tracker::{Sample, Tracker, Waiting};

/// The cache's knowledge of an object before it looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The object was not in the cache.
    First,
    /// The object was in the cache.
    Again,
    /// The watch reports the object as deleted.
    Gone,
}

/// Looks up the driver by the name of an object.
type Owner = Box<dyn Fn(&str) -> Option<Text> + Send + Sync>;

/// The measurements of a controller while it leads; clones share one state.
#[derive(Clone)]
pub struct Lifecycle(Arc<Inner>);

struct Inner {
    parts: Parts,
    tracker: Mutex<Tracker>,
    owner: OnceLock<Owner>,
    /// The node of this process in a node deployment.
    node: OnceLock<Text>,
    /// Objects with stages that opened before their driver was known, each with the name of the object that knows it.
    unsure: Mutex<Vec<(Id, Text)>>,
}

/// The parts of a [`Lifecycle`].
pub(crate) struct Parts {
    /// The driver's name; empty for a controller that serves several.
    pub(crate) driver: Text,
    /// The stages that the controller measures.
    pub(crate) stages: &'static [Stage],
    /// The previous leader's last renewal of the lease, in seconds since 1970.
    pub(crate) counted_until: Option<i64>,
    /// Metrics for the samples.
    pub(crate) metrics: LifecycleMetrics,
    /// The API server's clock.
    pub(crate) skew: ClockSkew,
}

impl fmt::Debug for Lifecycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lifecycle")
            .field("stages", &self.0.parts.stages)
            .finish_non_exhaustive()
    }
}

impl Lifecycle {
    /// Begins to measure; the gauges show the open stages until the value is dropped.
    pub(crate) fn new(parts: Parts) -> Self {
        let now = parts.skew.now();
        let before = parts.counted_until;
        let before = before.and_then(|second| Timestamp::from_second(second).ok());
        // Without a previous leader, earlier ends count for no process, or another one still counts them.
        let counted = before.map_or(now, |before| before.min(now));
        let this = Self(Arc::new(Inner {
            parts,
            tracker: Mutex::new(Tracker::new(counted)),
            owner: OnceLock::new(),
            node: OnceLock::new(),
            unsure: Mutex::default(),
        }));
        this.0.parts.metrics.show(&this.0);
        this
    }

    /// Sets the lookup of the driver by the name of the object that knows it. `owner` may use all caches except the one
    /// whose records call it.
    #[must_use]
    pub fn owned_by(self, owner: impl Fn(&str) -> Option<Text> + Send + Sync + 'static) -> Self {
        // Set once; later calls are ignored.
        let _first = self.0.owner.set(Box::new(owner));
        self
    }

    /// In a node deployment, measures objects of this node only.
    #[must_use]
    pub fn of_node(self, node: Option<&str>) -> Self {
        if let Some(node) = node {
            // Set once; later calls are ignored.
            let _first = self.0.node.set(node.into());
        }
        self
    }

    /// The node of this process in a node deployment.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        self.0.node.get().map(|node| &**node)
    }

    /// The driver's name; empty for a controller that serves several.
    #[must_use]
    pub fn driver(&self) -> &str {
        &self.0.parts.driver
    }

    /// The driver known to the object of this name, if that is cached.
    #[must_use]
    pub fn owner(&self, name: &str) -> Option<Text> {
        let owner = self.0.owner.get().filter(|_| !name.is_empty())?;
        owner(name)
    }

    /// Whether the object of this name belongs to this driver. While the first lists are incomplete, returns true
    /// if the driver is unknown, and drops the stages of `uid` later if it is another one.
    #[must_use]
    pub fn may_be_ours(&self, uid: &str, name: &str) -> bool {
        match self.owner(name) {
            Some(owner) => *owner == *self.0.parts.driver,
            None if lock(&self.0.tracker).is_listed() => false,
            None => {
                lock(&self.0.unsure).push((Id::of(uid), name.into()));
                true
            }
        }
    }

    /// Takes the progress that objects show, in order.
    pub(crate) fn take(&self, steps: Vec<Step<'_>>) {
        let measured = |step: &Step<'_>| self.0.parts.stages.contains(&step.stage);
        if !steps.iter().any(measured) {
            return;
        }
        let now = self.0.parts.skew.now();
        for mut step in steps.into_iter().filter(measured) {
            let owners = step.owners;
            let known = || owners.iter().find_map(|name| self.owner(name));
            // After the deletion no cached object may know the driver any more.
            if step.stage.ends_with_object() && matches!(step.progress, Progress::Open { .. }) {
                step.driver = step.driver.or_else(known);
            }
            let sample = lock(&self.0.tracker).take(step, now);
            if let Some(mut sample) = sample {
                sample.driver = sample.driver.or_else(known);
                self.measure(&sample);
            }
        }
    }

    /// Handles an object that was not in the last list: ends the stages that end with it, and drops all others.
    pub(crate) fn vanished(&self, object: Id) {
        let steps = self.0.parts.stages.iter().map(|stage| {
            let gone = Progress::DONE;
            let what = if stage.ends_with_object() {
                gone
            } else {
                Progress::Dropped
            };
            Step::new(*stage, object, what)
        });
        self.take(steps.collect());
    }

    /// Records that the first lists are complete: new objects begin their stages from now on.
    pub(crate) fn listed(&self) {
        let unsure = std::mem::take(&mut *lock(&self.0.unsure)).into_iter();
        let others = unsure.filter(|(_, name)| {
            let owner = self.owner(name);
            owner.is_none_or(|owner| *owner != *self.0.parts.driver)
        });
        // Looked up without the tracker's lock: another cache answers.
        let others: Vec<_> = others.collect();
        let mut tracker = lock(&self.0.tracker);
        for (object, _) in others {
            let stages = self.0.parts.stages.iter();
            stages.for_each(|stage| tracker.forget(*stage, object));
        }
        for sample in tracker.listed() {
            self.measure(&sample);
        }
    }

    fn measure(&self, sample: &Sample) {
        self.0.parts.metrics.measure(sample, &self.0.parts.driver);
    }
}

impl Inner {
    /// The open objects of each stage.
    fn unfinished(&self) -> Vec<(Stage, Waiting)> {
        lock(&self.tracker).unfinished(self.parts.stages, self.parts.skew.now())
    }
}

#[cfg(test)]
mod tests;
