//! The work queue as a pure structure: dirty, running, waiting and delayed keys, and their failures.
//!
//! The semantics are those of client-go's rate-limited de-duplicating queue: a key runs at most once
//! at a time, a key added while it runs runs again afterwards, a delayed key keeps its earliest time.
//! Two differences: a failure counts towards the next delay only if the delay before it was served
//! (kubernetes/kubernetes#132805: events that arrive during back-off escalate it). And keys belong to
//! lanes with reserved capacity and, in them, to fairness groups; the group with fewest running keys
//! goes first. Groups with hanging keys get half of all slots, together: the rest stays free for
//! others.
//!
//! No clock, no tasks, no locks here: time is an argument and never runs backwards.

mod outage;
mod stats;

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

use super::entry::{Blocked, Entry, Mark, Phase, Place, Popped};
use super::lane::{Lane, LaneConfig};

/// The queue. See the module's documentation for its rules.
#[derive(Debug)]
pub struct State<K> {
    pub(super) entries: HashMap<K, Entry>,
    pub(super) lanes: Vec<Lane<K>>,
    shared: usize,
    pub(super) timers: BTreeMap<Mark, K>,
    next_seq: u64,
    next_lane: usize,
    running: usize,
    shut_down: bool,
}

impl<K: Clone + Eq + Hash> State<K> {
    /// A queue with these lanes and `shared` slots that any of them may use beyond its own.
    ///
    /// A lane that could never run a key gets one slot.
    pub fn new(lanes: Vec<LaneConfig>, shared: usize) -> Self {
        let mut lanes: Vec<_> = lanes.into_iter().map(Lane::new).collect();
        if lanes.is_empty() {
            lanes.push(Lane::new(LaneConfig {
                name: "",
                reserved: 1,
                group_limit: None,
            }));
        }
        for lane in &mut lanes {
            lane.config.reserved = lane.config.reserved.max(usize::from(shared == 0));
        }
        Self {
            entries: HashMap::new(),
            lanes,
            shared,
            timers: BTreeMap::new(),
            next_seq: 0,
            next_lane: 0,
            running: 0,
            shut_down: false,
        }
    }

    /// Makes the key ready at once; a pending delay stays. Returns whether it was not ready before.
    ///
    /// A key that is already waiting moves to `place` and keeps its age.
    pub fn add(&mut self, key: &K, place: Place, now: Instant) -> bool {
        if self.shut_down {
            return false;
        }
        let place = self.place(place);
        self.entry(key, place);
        self.relocate(key, place);
        self.make_ready(key, now)
    }

    /// Adds the key unless it is delayed by a back-off or an `add_after`.
    ///
    /// For periodic resyncs, which report no change and must not cut a back-off short.
    pub fn add_unless_delayed(&mut self, key: &K, place: Place, now: Instant) -> bool {
        let delayed = |entry: &Entry| entry.backoff.is_some() || entry.after.is_some();
        !self.entries.get(key).is_some_and(delayed) && self.add(key, place, now)
    }

    /// Makes the key ready after a delay, or at an earlier time already requested.
    pub fn add_after(&mut self, key: &K, place: Place, delay: Duration, now: Instant) -> bool {
        if delay.is_zero() {
            return self.add(key, place, now);
        }
        if !self.shut_down {
            let place = self.place(place);
            self.entry(key, place);
            self.relocate(key, place);
            self.set_after(key, delay, now);
        }
        false
    }

    /// Makes keys whose delay has ended ready; returns how many.
    pub fn advance(&mut self, now: Instant) -> usize {
        let mut ready = 0;
        while let Some(first) = self.timers.first_entry() {
            if first.key().at > now || self.shut_down {
                break;
            }
            let (mark, key) = first.remove_entry();
            ready += usize::from(self.expire(&key, mark, now));
        }
        ready
    }

    /// The time at which the next delayed key becomes ready.
    pub fn next_due(&self) -> Option<Instant> {
        self.timers.first_key_value().map(|(mark, _)| mark.at)
    }

    /// Takes the next key, if one is ready and has a slot. Always `None` once shut down.
    pub fn pop(&mut self, now: Instant) -> Option<Popped<K>> {
        if self.shut_down {
            return None;
        }
        let borrowed: usize = self.lanes.iter().map(Lane::borrowed).sum();
        let stalled: usize = self.lanes.iter().map(Lane::stalled).sum();
        let stalled_too = stalled < self.most_stalled();
        let count = self.lanes.len();
        let mut turns: Vec<usize> = (0..count)
            .map(|turn| (self.next_lane + turn) % count)
            .collect();
        turns.sort_by_key(|index| self.lanes.get(*index).map(Lane::running));
        for index in turns {
            let Some(lane) = self.lanes.get_mut(index) else {
                continue;
            };
            if lane.running() >= lane.config.reserved && borrowed >= self.shared {
                continue;
            }
            let Some((key, since)) = lane.pop(stalled_too) else {
                continue;
            };
            self.next_lane = (index + 1) % count;
            self.running += 1;
            if let Some(entry) = self.entries.get_mut(&key) {
                let (place, premature) = (entry.place, entry.backoff.is_some());
                entry.phase = Phase::Running {
                    started: now,
                    place,
                    premature,
                    again: None,
                    hung: false,
                };
            }
            return Some(Popped {
                key,
                waited: now.saturating_duration_since(since),
            });
        }
        None
    }

    /// Records that the key's run hangs: until a later run of it ends without hanging, its group
    /// shares half of the slots with other such groups. Returns whether the key did not hang before.
    pub fn hangs(&mut self, key: &K) -> bool {
        let Some(entry) = self.entries.get_mut(key) else {
            return false;
        };
        let Phase::Running { place, hung, .. } = &mut entry.phase else {
            return false;
        };
        let news = !std::mem::replace(hung, true);
        if entry.hangs.is_none()
            && let Some(lane) = self.lanes.get_mut(place.lane)
        {
            entry.hangs = Some(*place);
            lane.hangs(place.group, true);
        }
        news
    }

    /// Number of slots that all groups with hanging keys may have together.
    fn most_stalled(&self) -> usize {
        let reserved = self.lanes.iter().map(|lane| lane.config.reserved);
        (reserved.fold(self.shared, usize::saturating_add) / 2).max(1)
    }

    /// Ends a run with nothing left to do: forgets failures and cancels a back-off.
    ///
    /// Returns the run's duration.
    pub fn done(&mut self, key: &K, now: Instant) -> Duration {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.failures = 0;
            entry.blocked = Blocked::No;
            if let Some(mark) = entry.backoff.take() {
                self.timers.remove(&mark);
            }
        }
        self.end(key, now)
    }

    /// Ends a failed run: the key runs again after `delay(failures)`, this failure included.
    ///
    /// If the run began while the back-off of an earlier failure was still pending, the failure does
    /// not count: the pending time stands or, if it passed during the run, the same delay applies
    /// again. Returns the run's duration and the time until the next run.
    pub fn retry(
        &mut self,
        key: &K,
        now: Instant,
        delay: impl FnOnce(u32) -> Duration,
    ) -> (Duration, Duration) {
        let mut wait = Duration::ZERO;
        if let Some(entry) = self.entries.get_mut(key)
            && let Phase::Running { premature, .. } = entry.phase
        {
            if !premature || entry.failures == 0 {
                entry.failures = entry.failures.saturating_add(1);
            }
            wait = match entry.backoff {
                Some(pending) => pending.at.saturating_duration_since(now),
                None => delay(entry.failures),
            };
            if entry.backoff.is_none()
                && !self.shut_down
                && let Some(at) = now.checked_add(wait)
            {
                let mark = Mark {
                    at,
                    seq: self.next_seq,
                };
                self.next_seq += 1;
                entry.backoff = Some(mark);
                self.timers.insert(mark, key.clone());
            }
        }
        (self.end(key, now), wait)
    }

    /// Ends a run that did not fail but must be repeated after a delay; failures stay as they are.
    pub fn again_after(&mut self, key: &K, delay: Duration, now: Instant) -> Duration {
        if delay.is_zero() {
            self.make_ready(key, now);
        } else if !self.shut_down {
            self.set_after(key, delay, now);
        }
        self.end(key, now)
    }

    /// Stops adding and handing out keys; running keys may end.
    pub fn shut_down(&mut self) {
        self.shut_down = true;
    }

    /// Whether [`State::shut_down`] was called.
    pub fn is_shut_down(&self) -> bool {
        self.shut_down
    }

    fn place(&self, place: Place) -> Place {
        let lane = if place.lane < self.lanes.len() {
            place.lane
        } else {
            0
        };
        Place { lane, ..place }
    }

    fn mark(&mut self, at: Instant) -> Mark {
        let seq = self.next_seq;
        self.next_seq += 1;
        Mark { at, seq }
    }

    fn entry(&mut self, key: &K, place: Place) -> &mut Entry {
        self.entries.entry(key.clone()).or_insert_with(|| Entry {
            place,
            phase: Phase::Idle,
            failures: 0,
            backoff: None,
            blocked: Blocked::No,
            after: None,
            hangs: None,
        })
    }

    fn relocate(&mut self, key: &K, place: Place) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let old = std::mem::replace(&mut entry.place, place);
        if let Phase::Waiting(mark) = entry.phase
            && old != place
        {
            if let Some(lane) = self.lanes.get_mut(old.lane) {
                lane.withdraw(mark.seq, old.group);
            }
            self.enqueue(key, place, mark);
        }
    }

    fn enqueue(&mut self, key: &K, place: Place, mark: Mark) {
        if let Some(lane) = self.lanes.get_mut(place.lane) {
            lane.push(mark.seq, key.clone(), place.group, mark.at);
        }
    }

    fn make_ready(&mut self, key: &K, now: Instant) -> bool {
        let mark = self.mark(now);
        let Some(entry) = self.entries.get_mut(key) else {
            return false;
        };
        match &mut entry.phase {
            Phase::Waiting(_) | Phase::Running { again: Some(_), .. } => false,
            Phase::Running { again, .. } => {
                *again = Some(mark);
                true
            }
            Phase::Idle => {
                entry.phase = Phase::Waiting(mark);
                let place = entry.place;
                self.enqueue(key, place, mark);
                true
            }
        }
    }

    fn set_after(&mut self, key: &K, delay: Duration, now: Instant) {
        let Some(at) = now.checked_add(delay) else {
            return;
        };
        let mark = self.mark(at);
        if let Some(entry) = self.entries.get_mut(key)
            && entry.after.is_none_or(|pending| at < pending.at)
        {
            if let Some(later) = entry.after.replace(mark) {
                self.timers.remove(&later);
            }
            self.timers.insert(mark, key.clone());
        }
    }

    /// Handles the end of a delay. A back-off that ends while the key runs causes no further run: the
    /// run's own result decides. Any other delay makes the key ready.
    fn expire(&mut self, key: &K, mark: Mark, now: Instant) -> bool {
        let Some(entry) = self.entries.get_mut(key) else {
            return false;
        };
        if entry.after == Some(mark) {
            entry.after = None;
        } else {
            entry.backoff = None;
            entry.blocked = Blocked::No;
            if matches!(entry.phase, Phase::Running { .. }) {
                return false;
            }
        }
        self.make_ready(key, now)
    }

    fn end(&mut self, key: &K, now: Instant) -> Duration {
        let Some(entry) = self.entries.get_mut(key) else {
            return Duration::ZERO;
        };
        let Phase::Running {
            started,
            place,
            again,
            hung,
            ..
        } = entry.phase
        else {
            return Duration::ZERO;
        };
        let current = entry.place;
        entry.phase = again.map_or(Phase::Idle, Phase::Waiting);
        let blank = entry.is_blank();
        let over = entry
            .hangs
            .take_if(|_| blank || !hung || entry.failures == 0);
        if blank {
            self.entries.remove(key);
        }
        self.running = self.running.saturating_sub(1);
        if let Some(lane) = self.lanes.get_mut(place.lane) {
            lane.ended(place.group);
        }
        if let Some(place) = over
            && let Some(lane) = self.lanes.get_mut(place.lane)
        {
            lane.hangs(place.group, false);
        }
        if let Some(mark) = again {
            self.enqueue(key, current, mark);
        }
        now.saturating_duration_since(started)
    }
}

#[cfg(test)]
mod tests;
