//! What the work queue knows of a key, and what it tells about itself.
//!
//! Data only; the rules are in `state`.

use std::time::{Duration, Instant};

use super::lane::Group;

/// Where a key belongs: its lane, by index into the queue's lanes, and its fairness group.
///
/// An index that does not exist counts as the first lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Index into the lanes the queue was made with.
    pub lane: usize,
    /// The node, namespace or whatever else shares fairly.
    pub group: Group,
}

impl Place {
    /// A place in a lane, in a group.
    pub fn new(lane: usize, group: Group) -> Self {
        Self { lane, group }
    }
}

/// A key handed out by [`State::pop`](super::State::pop).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Popped<K> {
    /// The key; no other worker has it.
    pub key: K,
    /// How long it waited since it became ready.
    pub waited: Duration,
}

/// What one lane holds at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneStats {
    /// The lane's name.
    pub lane: &'static str,
    /// Keys that are ready and wait for a slot.
    pub depth: usize,
    /// Keys that run.
    pub running: usize,
    /// How long the key that waits longest has been waiting; zero when none waits.
    pub oldest_wait: Duration,
}

/// When a key became ready: `seq` orders keys within equal instants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark {
    pub(super) at: Instant,
    pub(super) seq: u64,
}

#[derive(Debug)]
pub(super) enum Phase {
    Idle,
    Waiting(Mark),
    Running {
        started: Instant,
        place: Place,
        premature: bool,
        again: Option<Mark>,
        /// Whether this run hangs.
        hung: bool,
    },
}

/// Whether a failure was that of a server which did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blocked {
    No,
    Yes,
    /// It was, the server answered again, and the key was tried again because of that.
    Over,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) place: Place,
    pub(super) phase: Phase,
    pub(super) failures: u32,
    /// End of the back-off after the last failure, while it lies ahead.
    pub(super) backoff: Option<Mark>,
    /// What the last failure had to do with an outage.
    pub(super) blocked: Blocked,
    /// Earliest time asked for with `add_after`, while it lies ahead.
    pub(super) after: Option<Mark>,
    /// Where it ran when it hung, if its present or its last run does or did.
    pub(super) hangs: Option<Place>,
}

impl Entry {
    /// Whether the queue may forget the key.
    pub(super) fn is_blank(&self) -> bool {
        matches!(self.phase, Phase::Idle)
            && self.failures == 0
            && self.backoff.is_none()
            && self.after.is_none()
    }
}
