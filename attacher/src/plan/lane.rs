//! Whose turn it is: attach and detach have lanes of their own, and nodes take turns in each.
//!
//! Separate, because fairness is arithmetic on who waits and who runs. A burst of detaches, or a
//! node whose calls hang, must not hold up everybody else.
//!
//! * Each lane runs up to `--worker-threads` attempts. With a single worker thread the two lanes
//!   share it and alternate: who asks for one thread wants one call at a time.
//! * In a lane the nodes with waiting work take turns, first come first served within a node.
//! * An attempt that runs for unusually long gives its place to work of *other* nodes; for its own
//!   node it still counts. A lane never runs more than twice its number.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::{Duration, Instant};

use super::outcome::Direction;
use crate::model::Text;

/// The two lanes.
#[derive(Debug)]
pub struct Lanes<K> {
    attach: Lane<K>,
    detach: Lane<K>,
    threads: usize,
    last: Direction,
}

/// One lane.
#[derive(Debug)]
struct Lane<K> {
    /// By node, longest wait first.
    waiting: HashMap<Text, VecDeque<(K, Instant)>>,
    /// The node under which each waiting key is found.
    placed: HashMap<K, Text>,
    /// Nodes with waiting work, the next one first.
    turns: VecDeque<Text>,
    running: HashMap<K, (Text, Instant)>,
    pace: Pace,
}

/// How long an attempt may run before it counts as hanging: three times what attempts took lately.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    mean: Option<Duration>,
}

impl Pace {
    const SHORTEST: Duration = Duration::from_millis(1500);
    const LONGEST: Duration = Duration::from_secs(5);

    fn observe(&mut self, took: Duration) {
        self.mean = Some(match self.mean {
            None => took,
            Some(mean) => (mean * 7 + took) / 8,
        });
    }

    fn limit(self) -> Duration {
        let usual = self.mean.unwrap_or_default() * 3;
        usual.clamp(Self::SHORTEST, Self::LONGEST)
    }
}

impl<K: Clone + Eq + Hash> Lanes<K> {
    /// Empty lanes for `threads` (at least one) worker threads each.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self {
            attach: Lane::default(),
            detach: Lane::default(),
            threads: threads.max(1),
            last: Direction::Detach,
        }
    }

    /// `key` waits for a place from `since` on. A key that waits already keeps its place in the
    /// queue, or moves with its waiting time if it belongs to the other lane now.
    pub fn push(&mut self, key: K, direction: Direction, node: &Text, since: Instant) {
        let since = match self.lane(direction.opposite()).withdraw(&key) {
            Some(waiting) => waiting.min(since),
            None => since,
        };
        self.lane(direction).push(key, node, since);
    }

    /// The next key to work on, if there is a place for one at `now`.
    pub fn pop(&mut self, now: Instant) -> Option<(K, Direction)> {
        let first = match self.threads {
            1 => self.last.opposite(),
            _ => Direction::Attach,
        };
        for direction in [first, first.opposite()] {
            if self.threads == 1 && !self.is_idle() {
                return None;
            }
            let threads = self.threads;
            if let Some(key) = self.lane(direction).pop(threads, now) {
                self.last = direction;
                return Some((key, direction));
            }
        }
        None
    }

    /// The attempt on `key` ended; how long successful ones take says which ones hang.
    pub fn finish(&mut self, key: &K, succeeded: bool, now: Instant) {
        for lane in [&mut self.attach, &mut self.detach] {
            if let Some((_, since)) = lane.running.remove(key)
                && succeeded
            {
                lane.pace.observe(now.saturating_duration_since(since));
            }
        }
    }

    /// `key` needs no place any more.
    pub fn withdraw(&mut self, key: &K) {
        self.attach.withdraw(key);
        self.detach.withdraw(key);
    }

    /// When a running attempt begins to count as hanging, so that waiting work of other nodes may
    /// start: the time to ask [`pop`](Self::pop) again if nothing else happens before.
    #[must_use]
    pub fn next_change(&self, now: Instant) -> Option<Instant> {
        if self.threads == 1 {
            return None;
        }
        [&self.attach, &self.detach]
            .into_iter()
            .filter(|lane| !lane.turns.is_empty())
            .flat_map(|lane| {
                lane.running
                    .values()
                    .map(|(_, since)| *since + lane.pace.limit())
            })
            .filter(|at| *at > now)
            .min()
    }

    /// How many keys wait for a place.
    #[must_use]
    pub fn depth(&self, direction: Direction) -> usize {
        self.by(direction).placed.len()
    }

    /// How many attempts run.
    #[must_use]
    pub fn running(&self, direction: Direction) -> usize {
        self.by(direction).running.len()
    }

    /// How long the key has waited that has waited longest.
    #[must_use]
    pub fn oldest(&self, direction: Direction, now: Instant) -> Duration {
        let fronts = self.by(direction).waiting.values();
        let oldest = fronts
            .filter_map(|keys| keys.front())
            .map(|(_, since)| *since)
            .min();
        oldest.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    fn is_idle(&self) -> bool {
        self.attach.running.is_empty() && self.detach.running.is_empty()
    }

    fn lane(&mut self, direction: Direction) -> &mut Lane<K> {
        match direction {
            Direction::Attach => &mut self.attach,
            Direction::Detach => &mut self.detach,
        }
    }

    fn by(&self, direction: Direction) -> &Lane<K> {
        match direction {
            Direction::Attach => &self.attach,
            Direction::Detach => &self.detach,
        }
    }
}

impl<K> Default for Lane<K> {
    fn default() -> Self {
        Self {
            waiting: HashMap::new(),
            placed: HashMap::new(),
            turns: VecDeque::new(),
            running: HashMap::new(),
            pace: Pace::default(),
        }
    }
}

impl<K: Clone + Eq + Hash> Lane<K> {
    fn push(&mut self, key: K, node: &Text, since: Instant) {
        if self.placed.contains_key(&key) {
            return;
        }
        self.placed.insert(key.clone(), node.clone());
        let keys = self.waiting.entry(node.clone()).or_default();
        if keys.is_empty() {
            self.turns.push_back(node.clone());
        }
        let place = keys.partition_point(|(_, waiting)| *waiting <= since);
        keys.insert(place, (key, since));
    }

    fn withdraw(&mut self, key: &K) -> Option<Instant> {
        let node = self.placed.remove(key)?;
        let keys = self.waiting.get_mut(&node)?;
        let place = keys.iter().position(|(waiting, _)| waiting == key)?;
        let (_, since) = keys.remove(place)?;
        if keys.is_empty() {
            self.waiting.remove(&node);
            self.turns.retain(|turn| *turn != node);
        }
        Some(since)
    }

    /// The next key of the first node in turn that may have another place.
    fn pop(&mut self, threads: usize, now: Instant) -> Option<K> {
        if self.running.len() >= threads * 2 {
            return None;
        }
        let limit = self.pace.limit();
        let mut fresh = 0;
        let mut hanging: HashMap<&Text, usize> = HashMap::new();
        for (node, since) in self.running.values() {
            match now.saturating_duration_since(*since) < limit {
                true => fresh += 1,
                false => *hanging.entry(node).or_default() += 1,
            }
        }
        let may_run = |node: &Text| fresh + hanging.get(node).unwrap_or(&0) < threads;
        let turn = self.turns.iter().position(may_run)?;
        let node = self.turns.remove(turn)?;
        let keys = self.waiting.get_mut(&node)?;
        let (key, _) = keys.pop_front()?;
        self.placed.remove(&key);
        match keys.is_empty() {
            true => {
                self.waiting.remove(&node);
            }
            false => self.turns.push_back(node.clone()),
        }
        self.running.insert(key.clone(), (node, now));
        Some(key)
    }
}

#[cfg(test)]
mod tests;
