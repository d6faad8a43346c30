//! The work queue's state of a key, and its statistics.
//!
//! Data only; the rules are in `state`.

use std::time::{Duration, Instant};

use super::lane::Group;

/// A key's queue slot: its lane, by index into the queue's lanes, and its fairness group.
///
/// An index out of range counts as the first lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Index into the lanes the queue was made with.
    pub lane: usize,
    /// The fairness group: a node, a namespace or the like.
    pub group: Group,
}

impl Place {
    /// A slot in a lane and a group.
    pub fn new(lane: usize, group: Group) -> Self {
        Self { lane, group }
    }
}

/// A key handed out by [`State::pop`](super::State::pop).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Popped<K> {
    /// The key; no other worker has it.
    pub key: K,
    /// Time since the key became ready.
    pub waited: Duration,
}

/// Statistics of one lane at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneStats {
    /// The lane's name.
    pub lane: &'static str,
    /// Keys that are ready and wait for a slot.
    pub depth: usize,
    /// Running keys.
    pub running: usize,
    /// How long the oldest waiting key has waited; zero when none waits.
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

/// Whether a failure was caused by a server that did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blocked {
    No,
    Yes,
    /// It was; the server answered again, and the key was retried because of that.
    Over,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) place: Place,
    pub(super) phase: Phase,
    pub(super) failures: u32,
    /// End of the back-off after the last failure, while it lies ahead.
    pub(super) backoff: Option<Mark>,
    /// Whether an outage caused the last failure.
    pub(super) blocked: Blocked,
    /// Earliest time requested with `add_after`, while it lies ahead.
    pub(super) after: Option<Mark>,
    /// The slot in which it hung, if its current or its last run hangs or did.
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
