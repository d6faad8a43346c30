//! When a driver's attachment limit is refreshed (CSIDriver `spec.nodeAllocatableUpdatePeriodSeconds`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// `spec.nodeAllocatableUpdatePeriodSeconds` of a CSIDriver object that exists.
pub type Period = Option<i64>;

/// Whether the change of a CSIDriver object from `before` to `after` concerns the driver's refresh task; `None` is an
/// object that does not exist. Changes of anything but the period must not restart the task, or a busy object would
/// keep it from ever ticking.
#[must_use]
pub fn is_relevant(before: Option<Period>, after: Option<Period>) -> bool {
    before != after
}

/// The period of the driver's refresh task, or `None` if there must be none: the driver has to be registered here, and
/// its CSIDriver object has to exist and to set the period.
#[must_use]
pub fn decide_task(registered: bool, object: Option<Period>) -> Option<Duration> {
    if !registered {
        return None;
    }
    // The API server rejects periods under 10 s; a negative one cannot come from it.
    let seconds = u64::try_from(object.flatten()?).ok()?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// The change of a driver's refresh task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Leave it as it is.
    Keep,
    /// End it, if it runs.
    Stop,
    /// End it, if it runs, and start a new one whose first tick is one period away.
    Replace(Duration),
}

/// The drivers registered on this node and the CSIDriver objects of the cluster.
#[derive(Debug, Default)]
pub struct Refresh {
    registered: BTreeSet<String>,
    objects: BTreeMap<String, Period>,
}

impl Refresh {
    /// Records that a driver was registered or deregistered, which always re-evaluates its task.
    pub fn driver(&mut self, name: &str, registered: bool) -> Task {
        if registered {
            self.registered.insert(name.to_owned());
        } else {
            self.registered.remove(name);
        }
        self.evaluate(name)
    }

    /// Records the CSIDriver object `name`; `None` if it is gone.
    pub fn object(&mut self, name: &str, after: Option<Period>) -> Task {
        let before = match after {
            Some(period) => self.objects.insert(name.to_owned(), period),
            None => self.objects.remove(name),
        };
        if is_relevant(before, after) {
            self.evaluate(name)
        } else {
            Task::Keep
        }
    }

    /// The period of the CSIDriver object `name`; `None` if the object does not exist.
    #[must_use]
    pub fn period(&self, name: &str) -> Option<Period> {
        self.objects.get(name).copied()
    }

    fn evaluate(&self, name: &str) -> Task {
        match decide_task(self.registered.contains(name), self.period(name)) {
            Some(period) => Task::Replace(period),
            None => Task::Stop,
        }
    }
}
