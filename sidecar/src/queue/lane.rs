//! One lane of the work queue: its waiting keys, the order of its groups, its running keys.
//!
//! Fairness and capacity only: dirty and delayed keys, and the order of lanes, are up to `state`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

/// The fairness group of a key: the node, the namespace or the like that it belongs to.
///
/// Within a lane the groups take turns, and a lane may limit how many keys of one group run at a
/// time. Two names with the same hash share their turns and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Group(u64);

impl Group {
    /// The single group of a queue without fairness.
    pub const NONE: Self = Self(0);

    /// The group of all keys with this name.
    pub fn of(name: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// A lane: one sort of work that must not wait behind another.
#[derive(Debug, Clone)]
pub struct LaneConfig {
    /// Label value of this lane's gauges and its name in the log, for example `attach`.
    pub name: &'static str,
    /// Number of this lane's keys that may run whatever the other lanes do.
    pub reserved: usize,
    /// Number of keys of one group that may run at a time; `None` means no limit. At least one may.
    pub group_limit: Option<usize>,
}

#[derive(Debug)]
struct Waiter<K> {
    key: K,
    since: Instant,
}

/// Order of the groups: first the one with fewest running keys, then the one whose last turn was
/// longest ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    running: usize,
    seq: u64,
}

#[derive(Debug, Default)]
struct Member {
    waiting: BTreeSet<u64>,
    running: usize,
    /// Number of the group's keys whose last or current run hangs.
    hanging: usize,
    /// When the group's last turn was, or when it was created.
    seq: u64,
    /// Its position in `prompt` or `hanging`, if it has waiting keys and may run them.
    turn: Option<Turn>,
}

/// Keys are identified by the sequence number that they got when they became ready, so that a key
/// that moves to another lane keeps its age.
#[derive(Debug)]
pub(super) struct Lane<K> {
    pub(super) config: LaneConfig,
    waiting: BTreeMap<u64, Waiter<K>>,
    groups: HashMap<Group, Member>,
    /// Groups with waiting keys that may run, next turn first.
    prompt: BTreeMap<Turn, Group>,
    /// The same for groups with hanging keys.
    hanging: BTreeMap<Turn, Group>,
    next_turn: u64,
    running: usize,
    /// Number of running keys in groups with hanging keys.
    stalled: usize,
}

impl<K: Clone> Lane<K> {
    pub(super) fn new(config: LaneConfig) -> Self {
        Self {
            config,
            waiting: BTreeMap::new(),
            groups: HashMap::new(),
            prompt: BTreeMap::new(),
            hanging: BTreeMap::new(),
            next_turn: 0,
            running: 0,
            stalled: 0,
        }
    }

    pub(super) fn depth(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn running(&self) -> usize {
        self.running
    }

    /// Number of running keys in groups with hanging keys.
    pub(super) fn stalled(&self) -> usize {
        self.stalled
    }

    /// Number of running keys in slots that are not reserved for this lane.
    pub(super) fn borrowed(&self) -> usize {
        self.running.saturating_sub(self.config.reserved)
    }

    /// The time since which the oldest waiting key has waited.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.waiting
            .first_key_value()
            .map(|(_, waiter)| waiter.since)
    }

    /// Number of waiting keys that became ready before the one with this number.
    pub(super) fn ahead_of(&self, seq: u64) -> usize {
        self.waiting.range(..seq).count()
    }

    pub(super) fn push(&mut self, seq: u64, key: K, group: Group, since: Instant) {
        self.waiting.insert(seq, Waiter { key, since });
        self.change(group, |member| {
            member.waiting.insert(seq);
        });
    }

    /// Removes a waiting key that moves to another lane or group.
    pub(super) fn withdraw(&mut self, seq: u64, group: Group) {
        self.waiting.remove(&seq);
        self.change(group, |member| {
            member.waiting.remove(&seq);
        });
    }

    /// Takes the next key and the time since which it waited; it counts as running from now on.
    /// Groups with hanging keys get a turn only if `stalled_too`.
    pub(super) fn pop(&mut self, stalled_too: bool) -> Option<(K, Instant)> {
        let prompt = self.prompt.first_key_value();
        let hanging = self.hanging.first_key_value().filter(|_| stalled_too);
        let group = match (prompt, hanging) {
            (Some(one), Some(other)) if other.0 < one.0 => *other.1,
            (Some((_, group)), _) | (None, Some((_, group))) => *group,
            (None, None) => return None,
        };
        let (mut next, seq) = (None, self.next_turn());
        self.change(group, |member| {
            next = member.waiting.pop_first();
            member.running += usize::from(next.is_some());
            member.seq = seq;
        });
        let waiter = self.waiting.remove(&next?)?;
        self.running += 1;
        Some((waiter.key, waiter.since))
    }

    /// Records that one more key of this group hangs, or (`false`) one fewer.
    pub(super) fn hangs(&mut self, group: Group, hangs: bool) {
        self.change(group, |member| {
            member.hanging = if hangs {
                member.hanging + 1
            } else {
                member.hanging.saturating_sub(1)
            };
        });
    }

    /// Records that a running key of this group has ended.
    pub(super) fn ended(&mut self, group: Group) {
        self.running = self.running.saturating_sub(1);
        self.change(group, |member| {
            member.running = member.running.saturating_sub(1);
        });
    }

    fn next_turn(&mut self) -> u64 {
        self.next_turn += 1;
        self.next_turn
    }

    /// Changes a group's state and, with it, its turn.
    fn change(&mut self, group: Group, change: impl FnOnce(&mut Member)) {
        let limit = self
            .config
            .group_limit
            .map_or(usize::MAX, |limit| limit.max(1));
        let seq = self.next_turn();
        let member = self.groups.entry(group).or_insert_with(|| Member {
            seq,
            ..Member::default()
        });
        if let Some(turn) = member.turn.take() {
            match member.hanging {
                0 => self.prompt.remove(&turn),
                _ => self.hanging.remove(&turn),
            };
        }
        if member.hanging > 0 {
            self.stalled = self.stalled.saturating_sub(member.running);
        }
        change(member);
        if member.hanging > 0 {
            self.stalled += member.running;
        }
        if !member.waiting.is_empty() && member.running < limit {
            let turn = Turn {
                running: member.running,
                seq: member.seq,
            };
            member.turn = Some(turn);
            match member.hanging {
                0 => self.prompt.insert(turn, group),
                _ => self.hanging.insert(turn, group),
            };
        }
        // Namespaces and nodes come and go; the map must not keep all of them.
        if member.waiting.is_empty() && member.running == 0 && member.hanging == 0 {
            self.groups.remove(&group);
        }
    }

    #[cfg(test)]
    pub(super) fn remembered_groups(&self) -> usize {
        self.groups.len()
    }
}
