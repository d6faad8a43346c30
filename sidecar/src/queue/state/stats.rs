//! Statistics of the queue.

use std::hash::Hash;
use std::time::{Duration, Instant};

use super::State;
use crate::queue::entry::{LaneStats, Phase};

impl<K: Clone + Eq + Hash> State<K> {
    /// Number of running keys.
    pub fn running(&self) -> usize {
        self.running
    }

    /// Number of failures that count towards the key's next delay.
    pub fn failures(&self, key: &K) -> u32 {
        self.entries.get(key).map_or(0, |entry| entry.failures)
    }

    /// Depth, running keys and oldest wait per lane, in the lanes' order.
    pub fn lanes(&self, now: Instant) -> impl Iterator<Item = LaneStats> + '_ {
        self.lanes.iter().map(move |lane| LaneStats {
            lane: lane.config.name,
            depth: lane.depth(),
            running: lane.running(),
            oldest_wait: lane
                .oldest()
                .map_or(Duration::ZERO, |since| now.saturating_duration_since(since)),
        })
    }

    /// The current run time of each running key.
    pub fn run_times(&self, now: Instant) -> impl Iterator<Item = Duration> + '_ {
        self.entries
            .values()
            .filter_map(move |entry| match entry.phase {
                Phase::Running { started, .. } => Some(now.saturating_duration_since(started)),
                Phase::Idle | Phase::Waiting(_) => None,
            })
    }
}
