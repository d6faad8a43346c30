//! The state of one key in the queue, and of all keys that are not idle.
//!
//! Computed when somebody asks; the queue keeps nothing for it.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use super::entry::{Entry, Phase};
use super::{Queue, State, WorkKey, now};

/// The queue's view of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyState {
    /// Name of the key's lane.
    pub lane: &'static str,
    /// Stage of the key.
    pub stage: Stage,
    /// Number of failures in a row that count towards its next delay.
    pub failures: u32,
    /// Number of keys of the lane that became ready before it and still wait; zero unless it waits itself.
    pub ahead: usize,
    /// Number of running keys in the lane.
    pub running: usize,
    /// How long the lane's oldest waiting key has waited; zero when none waits.
    pub oldest_wait: Duration,
}

/// The stage of a key that the queue knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is ready since this time and waits for a worker.
    Waiting(Instant),
    /// A worker has it since this time.
    Running(Instant),
    /// It waits until this time after a failure.
    Backoff(Instant),
    /// It is due at this time, without a failure.
    Later(Instant),
    /// Nothing is due.
    Idle,
}

impl Stage {
    /// Its name in answers.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Waiting(_) => "waiting",
            Self::Running(_) => "running",
            Self::Backoff(_) => "backoff",
            Self::Later(_) => "later",
            Self::Idle => "idle",
        }
    }

    /// Its start, if that lies in the past.
    #[must_use]
    pub fn since(self) -> Option<Instant> {
        match self {
            Self::Waiting(since) | Self::Running(since) => Some(since),
            Self::Backoff(_) | Self::Later(_) | Self::Idle => None,
        }
    }
}

fn stage(entry: &Entry) -> Stage {
    match (&entry.phase, entry.backoff, entry.after) {
        (Phase::Running { started, .. }, _, _) => Stage::Running(*started),
        (Phase::Waiting(mark), _, _) => Stage::Waiting(mark.at),
        (Phase::Idle, Some(backoff), after) if after.is_none_or(|after| backoff.at <= after.at) => {
            Stage::Backoff(backoff.at)
        }
        (Phase::Idle, _, Some(after)) => Stage::Later(after.at),
        (Phase::Idle, Some(backoff), None) => Stage::Backoff(backoff.at),
        (Phase::Idle, None, None) => Stage::Idle,
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    /// The key's state; `None` if the queue does not know the key, which is then idle.
    pub fn key_state(&self, key: &K, now: Instant) -> Option<KeyState> {
        let entry = self.entries.get(key)?;
        let lane = self.lanes.get(entry.place.lane)?;
        let oldest = lane.oldest().map(|at| now.saturating_duration_since(at));
        Some(KeyState {
            lane: lane.config.name,
            stage: stage(entry),
            failures: entry.failures,
            ahead: match entry.phase {
                Phase::Waiting(mark) => lane.ahead_of(mark.seq),
                Phase::Running { .. } | Phase::Idle => 0,
            },
            running: lane.running(),
            oldest_wait: oldest.unwrap_or_default(),
        })
    }

    /// The number of keys by stage, and the `most` keys that are not idle for which `since` returns the earliest time.
    /// `since` gets each key with the start of its stage, if that lies in the past.
    pub fn busiest(
        &self,
        most: usize,
        since: impl Fn(&K, Option<Instant>) -> Option<Instant>,
    ) -> (BTreeMap<&'static str, usize>, Vec<K>) {
        let mut totals = BTreeMap::new();
        // The key's number keeps apart those with equal times.
        let mut first: BTreeMap<(bool, Option<Instant>, usize), &K> = BTreeMap::new();
        for (number, (key, entry)) in self.entries.iter().enumerate() {
            let stage = stage(entry);
            if stage == Stage::Idle {
                continue;
            }
            *totals.entry(stage.word()).or_default() += 1;
            let since = since(key, stage.since());
            first.insert((since.is_none(), since, number), key);
            if first.len() > most {
                first.pop_last();
            }
        }
        (totals, first.into_values().cloned().collect())
    }
}

impl<K: WorkKey> Queue<K> {
    /// Label `name` of the queue's metrics.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// As [`State::key_state`].
    pub fn key_state(&self, key: &K) -> Option<KeyState> {
        self.inner.lock().state.key_state(key, now())
    }

    /// As [`State::busiest`].
    pub fn busiest(
        &self,
        most: usize,
        since: impl Fn(&K, Option<Instant>) -> Option<Instant>,
    ) -> (BTreeMap<&'static str, usize>, Vec<K>) {
        self.inner.lock().state.busiest(most, since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Group, LaneConfig, Place};

    const S: Duration = Duration::from_secs(1);

    fn state() -> State<u32> {
        let lane = |name, reserved| LaneConfig {
            name,
            reserved,
            group_limit: None,
        };
        State::new(vec![lane("attach", 1), lane("detach", 1)], 0)
    }

    fn place(lane: usize) -> Place {
        Place::new(lane, Group::NONE)
    }

    #[test]
    fn w_3_who_waits_is_told_its_place_and_since_when() {
        let (mut state, start) = (state(), Instant::now());
        for key in 0..42 {
            state.add(&key, place(0), start + S * key);
        }
        assert_eq!(state.pop(start + 42 * S).unwrap().key, 0);
        let key_state = state.key_state(&41, start + 60 * S).unwrap();
        let expected = KeyState {
            lane: "attach",
            stage: Stage::Waiting(start + 41 * S),
            failures: 0,
            ahead: 40,
            running: 1,
            oldest_wait: 59 * S,
        };
        assert_eq!(key_state, expected);
        assert_eq!(state.key_state(&99, start), None);
    }

    #[test]
    fn w_4_w_5_w_6_stages_have_their_times() {
        let (mut state, start) = (state(), Instant::now());
        state.add(&1, place(0), start);
        state.pop(start + S);
        let stage = |state: &State<u32>, key| state.key_state(&key, start).map(|at| at.stage);
        assert_eq!(stage(&state, 1), Some(Stage::Running(start + S)));
        for failures in 1..=3 {
            state.retry(&1, start + S, |_| 4 * S);
            let key_state = state.key_state(&1, start).unwrap();
            let until = Stage::Backoff(start + 5 * S);
            assert_eq!((key_state.stage, key_state.failures), (until, failures));
            if failures < 3 {
                // The back-off is over before the next attempt, and the clock stands still in this test.
                let entry = state.entries.get_mut(&1).unwrap();
                let mark = entry.backoff.take().unwrap();
                state.timers.remove(&mark);
                state.add(&1, place(0), start + S);
                state.pop(start + S);
            }
        }
        state.add(&2, place(1), start);
        state.pop(start);
        state.again_after(&2, 9 * S, start);
        assert_eq!(stage(&state, 2), Some(Stage::Later(start + 9 * S)));
    }

    #[test]
    fn w_13_a_lane_counts_its_own_keys_alone() {
        let (mut state, start) = (state(), Instant::now());
        for key in 0..2_000 {
            state.add(&key, place(1), start);
        }
        for key in 2_000..2_003 {
            state.add(&key, place(0), start);
        }
        let ahead = |key| state.key_state(&key, start).unwrap().ahead;
        assert_eq!((ahead(2_002), ahead(1_999)), (2, 1_999));
    }

    #[test]
    fn w_16_of_many_keys_the_longest_are_listed_and_all_are_counted() {
        let (mut state, start) = (state(), Instant::now());
        for key in 0..500 {
            state.add(&key, place(0), start + S * (500 - key));
        }
        state.add_after(&900, place(0), S, start);
        let (totals, keys) = state.busiest(3, |_, since| since);
        assert_eq!(totals, BTreeMap::from([("later", 1), ("waiting", 500)]));
        assert_eq!(keys, [499, 498, 497]);
        let failing = |key: &u32, _| (*key == 900).then_some(start);
        let (_, keys) = state.busiest(1, failing);
        assert_eq!(keys, [900]);
    }
}
