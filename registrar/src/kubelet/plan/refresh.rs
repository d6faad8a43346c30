//! When a driver's attachment limit is asked for again (CSIDriver
//! `spec.nodeAllocatableUpdatePeriodSeconds`).

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
