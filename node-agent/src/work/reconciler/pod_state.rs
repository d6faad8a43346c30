//! The loop's state of each pod.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::model::pod::Pod;

/// Time after which other pods stop waiting for a pod's first look-up.
const FIRST_LOOK: Duration = Duration::from_secs(5);

/// State of one pod.
struct PodState {
    pod: Pod,
    /// Time of its next look-up.
    next: Instant,
    resolving: bool,
    /// Time at which it was first seen.
    first: Instant,
    /// Looked up at least once, with any result.
    attempted: bool,
    /// All its volumes were found at least once.
    complete: bool,
    failures: u32,
    /// Time since which it has waited for volumes.
    waiting: Instant,
    /// A write about it is under way, or is done for good.
    written: bool,
    /// Time of the next attempt to write.
    next_write: Instant,
}

/// All pods of the node, by UID.
#[derive(Default)]
pub(super) struct PodStates {
    entries: BTreeMap<String, PodState>,
}

/// Work that is due for a pod.
#[derive(Debug)]
pub(super) enum Work {
    Resolve(Pod),
    Write(Pod),
    Check(Pod),
}

impl PodStates {
    /// Takes in the current pods; returns the UIDs of those that are gone.
    pub(super) fn update(&mut self, pods: Vec<Pod>, now: Instant) -> Vec<String> {
        let mut gone: BTreeMap<String, PodState> = std::mem::take(&mut self.entries);
        for pod in pods {
            let uid = pod.names.uid.clone();
            let entry = match gone.remove(&uid) {
                Some(mut entry) => {
                    // The last write described another state of the pod.
                    entry.written &= entry.pod.deleting == pod.deleting;
                    entry.pod = pod;
                    entry
                }
                None => PodState {
                    pod,
                    next: now,
                    first: now,
                    resolving: false,
                    attempted: false,
                    complete: false,
                    failures: 0,
                    waiting: now,
                    written: false,
                    next_write: now,
                },
            };
            self.entries.insert(uid, entry);
        }
        gone.into_keys().collect()
    }

    pub(super) fn pod(&self, uid: &str) -> Option<&Pod> {
        self.entries.get(uid).map(|entry| &entry.pod)
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.entries.values().map(|entry| &entry.pod)
    }

    /// Whether every pod that may want volumes was looked up or is overdue: then volumes that no
    /// other pod wants are unmounted without waiting for it. An overdue pod loses nothing: its
    /// published volumes stay, and the rest is staged again.
    pub(super) fn is_complete(&self, now: Instant) -> bool {
        let mut entries = self.entries.values();
        entries.all(|entry| entry.attempted || entry.pod.ended || now >= entry.first + FIRST_LOOK)
    }

    /// The work that is due for a pod, and when to look at it again. `waits`: volumes are missing.
    pub(super) fn due_work(
        &mut self,
        uid: &str,
        waits: bool,
        ready: bool,
        now: Instant,
    ) -> Vec<Work> {
        let Some(entry) = self.entries.get_mut(uid) else {
            return Vec::new();
        };
        let mut due_work = Vec::new();
        if !entry.pod.ended && !entry.resolving && entry.next <= now {
            entry.resolving = true;
            due_work.push(Work::Resolve(entry.pod.clone()));
        }
        if !waits || entry.pod.ended {
            entry.waiting = now;
        } else if now.duration_since(entry.waiting) >= super::WAIT {
            entry.waiting = now;
            due_work.push(Work::Check(entry.pod.clone()));
        }
        let complete = entry.complete || entry.pod.ended;
        if ready && complete && !entry.written && entry.next_write <= now {
            entry.written = true;
            due_work.push(Work::Write(entry.pod.clone()));
        }
        due_work
    }

    /// The next time at which something is due without any change. Work that is overdue waits for
    /// an event.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        let times = self.entries.values().flat_map(|entry| {
            let alive = !entry.pod.ended;
            let look = (alive && !entry.resolving).then_some(entry.next);
            let wait = alive.then_some(entry.waiting + super::WAIT);
            let next_write = (!entry.written).then_some(entry.next_write);
            let first = (alive && !entry.attempted).then_some(entry.first + FIRST_LOOK);
            [look, wait, next_write, first]
        });
        times.flatten().filter(|then| *then > now).min()
    }

    /// A look-up of the pod's volumes has ended; returns the number of failures in a row.
    pub(super) fn resolved(&mut self, uid: &str, complete: bool, next: Instant) -> u32 {
        let Some(entry) = self.entries.get_mut(uid) else {
            return 0;
        };
        entry.resolving = false;
        entry.attempted = true;
        entry.complete |= complete;
        entry.next = next;
        entry.failures = if complete {
            0
        } else {
            entry.failures.saturating_add(1)
        };
        entry.failures
    }

    /// Sets the time of the next look-up.
    pub(super) fn look_at(&mut self, uid: &str, then: Instant) {
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.next = then;
        }
    }

    /// A write about the pod has ended; a failed one is repeated at `then`.
    pub(super) fn written(&mut self, uid: &str, done: bool, then: Instant) {
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.written = done;
            entry.next_write = then;
        }
    }
}
