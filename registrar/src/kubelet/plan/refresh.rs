//! When a driver's attachment limit is asked for again (CSIDriver
//! `spec.nodeAllocatableUpdatePeriodSeconds`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// `spec.nodeAllocatableUpdatePeriodSeconds` of a CSIDriver object that exists.
pub type Period = Option<i64>;

/// Whether a CSIDriver object that was `before` and is `after` makes the driver's refresh task
/// worth another look; `None` is an object that does not exist. Changes of anything but the period
/// must not restart the task, or a busy object would keep it from ever ticking.
#[must_use]
pub fn is_relevant(before: Option<Period>, after: Option<Period>) -> bool {
    before != after
}

/// The period of the driver's refresh task, or `None` if there must be none: the driver has to be
/// registered here, its CSIDriver object has to exist and to ask for it.
#[must_use]
pub fn decide_task(registered: bool, object: Option<Period>) -> Option<Duration> {
    if !registered {
        return None;
    }
    // The API server refuses periods under 10 s; a negative one cannot come from it.
    let seconds = u64::try_from(object.flatten()?).ok()?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// What to do with a driver's refresh task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Leave it as it is.
    Keep,
    /// End it, if it runs.
    Stop,
    /// End it, if it runs, and begin a new one whose first tick is one period away.
    Replace(Duration),
}

/// The drivers registered on this node and the CSIDriver objects of the cluster.
#[derive(Debug, Default)]
pub struct Refresh {
    registered: BTreeSet<String>,
    objects: BTreeMap<String, Period>,
}

impl Refresh {
    /// A driver was registered or deregistered; the task is always looked at then.
    pub fn driver(&mut self, name: &str, registered: bool) -> Task {
        if registered {
            self.registered.insert(name.to_owned());
        } else {
            self.registered.remove(name);
        }
        self.evaluate(name)
    }

    /// The CSIDriver object `name` is now like this; `None` if it is gone.
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

    /// The period of the CSIDriver object `name`; `None` if there is no such object.
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
