//! One lane of the work queue: who waits in it, whose turn it is, how much of it is running.
//!
//! Fairness and capacity know nothing of keys being dirty or delayed. It must not decide which lane
//! goes first; that is `state`'s.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

/// What the keys of one fairness group have in common: the node, or the namespace, they belong to.
///
/// Within a lane the groups take turns, and a lane may limit how many keys of one group run at a
/// time. Two names that happen to hash alike share their turns and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Group(u64);

impl Group {
    /// The one group of a queue that knows no fairness.
    pub const NONE: Self = Self(0);

    /// The group of everything that carries this name.
    pub fn of(name: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// A lane: work of one sort that must not wait behind work of another sort.
#[derive(Debug, Clone)]
pub struct LaneConfig {
    /// Label value of this lane's gauges and its name in the log, for example `attach`.
    pub name: &'static str,
    /// How many keys of this lane may run whatever the other lanes do.
    pub reserved: usize,
    /// How many keys of one group may run at a time; `None` is no limit. At least one may.
    pub group_limit: Option<usize>,
}

#[derive(Debug)]
struct Waiter<K> {
    key: K,
    since: Instant,
}

/// Whose turn it is among groups: first who runs least, then whose last turn was longest ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    running: usize,
    seq: u64,
}

#[derive(Debug, Default)]
struct Member {
    waiting: BTreeSet<u64>,
    running: usize,
    /// Keys of the group whose last run hung, or whose present one does.
    hanging: usize,
    /// When its last turn was, or when it came.
    seq: u64,
    /// Its place in `prompt` or `hanging`, if it has waiting work and room to run it.
    turn: Option<Turn>,
}

/// Keys are known by their sequence number, given when they became ready, so that a key that moves
/// to another lane keeps its place in time.
#[derive(Debug)]
pub(super) struct Lane<K> {
    pub(super) config: LaneConfig,
    waiting: BTreeMap<u64, Waiter<K>>,
    groups: HashMap<Group, Member>,
    /// Groups with waiting work and room to run it, next turn first.
    prompt: BTreeMap<Turn, Group>,
    /// The same for groups with keys that hang.
    hanging: BTreeMap<Turn, Group>,
    next_turn: u64,
    running: usize,
    /// Of these, how many belong to groups with keys that hang.
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

    /// Keys that run and belong to groups with keys that hang.
    pub(super) fn stalled(&self) -> usize {
        self.stalled
    }

    /// How many running keys use slots that are not reserved for this lane.
    pub(super) fn borrowed(&self) -> usize {
        self.running.saturating_sub(self.config.reserved)
    }

    /// Since when the key that waits longest has been waiting.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.waiting
            .first_key_value()
            .map(|(_, waiter)| waiter.since)
    }

    pub(super) fn push(&mut self, seq: u64, key: K, group: Group, since: Instant) {
        self.waiting.insert(seq, Waiter { key, since });
        self.change(group, |member| {
            member.waiting.insert(seq);
        });
    }

    /// Takes a key that moves to another lane or group back out.
    pub(super) fn withdraw(&mut self, seq: u64, group: Group) {
        self.waiting.remove(&seq);
        self.change(group, |member| {
            member.waiting.remove(&seq);
        });
    }

    /// The next key in turn and since when it waited; it counts as running from now on. Groups with
    /// keys that hang have a turn only if `stalled_too`.
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

    /// One more key of this group hangs, or (`false`) one fewer.
    pub(super) fn hangs(&mut self, group: Group, hangs: bool) {
        self.change(group, |member| {
            member.hanging = if hangs {
                member.hanging + 1
            } else {
                member.hanging.saturating_sub(1)
            };
        });
    }

    /// A key of this group that was popped has ended.
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

    /// Changes what is known of a group, and with it its turn.
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
        // Namespaces and nodes come and go; without this the map would remember all of them.
        if member.waiting.is_empty() && member.running == 0 && member.hanging == 0 {
            self.groups.remove(&group);
        }
    }

    #[cfg(test)]
    pub(super) fn remembered_groups(&self) -> usize {
        self.groups.len()
    }
}
