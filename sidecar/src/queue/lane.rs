//! One lane of the work queue: who waits in it, whose turn it is, how much of it is running.
//!
//! Separate from `state` because fairness and capacity know nothing of keys being dirty or delayed.
//! It must not decide which lane goes first; that is `state`'s.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
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

#[derive(Debug, Default)]
struct Member {
    waiting: BTreeSet<u64>,
    running: usize,
    in_ring: bool,
}

/// Keys are known by their sequence number, given when they became ready, so that a key that moves
/// to another lane keeps its place in time.
#[derive(Debug)]
pub(super) struct Lane<K> {
    pub(super) config: LaneConfig,
    waiting: BTreeMap<u64, Waiter<K>>,
    groups: HashMap<Group, Member>,
    /// Groups with waiting work and room to run it, next turn first. May name a group whose last
    /// waiter has left; `pop` passes over it.
    ring: VecDeque<Group>,
    running: usize,
    /// Keys that run on without a slot; not counted in `running`, but still in their group's.
    lent: usize,
}

impl<K: Clone> Lane<K> {
    pub(super) fn new(config: LaneConfig) -> Self {
        Self {
            config,
            waiting: BTreeMap::new(),
            groups: HashMap::new(),
            ring: VecDeque::new(),
            running: 0,
            lent: 0,
        }
    }

    pub(super) fn depth(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn running(&self) -> usize {
        self.running
    }

    /// Keys that run, with a slot or without.
    pub(super) fn busy(&self) -> usize {
        self.running + self.lent
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
        self.groups.entry(group).or_default().waiting.insert(seq);
        self.enlist(group);
    }

    /// Takes a key that moves to another lane or group back out.
    pub(super) fn withdraw(&mut self, seq: u64, group: Group) {
        self.waiting.remove(&seq);
        if let Some(member) = self.groups.get_mut(&group) {
            member.waiting.remove(&seq);
        }
        self.forget_if_idle(group);
    }

    /// The next key in turn and since when it waited; it counts as running from now on.
    pub(super) fn pop(&mut self) -> Option<(K, Instant)> {
        while let Some(group) = self.ring.pop_front() {
            let Some(member) = self.groups.get_mut(&group) else {
                continue;
            };
            member.in_ring = false;
            let Some(waiter) = member
                .waiting
                .pop_first()
                .and_then(|seq| self.waiting.remove(&seq))
            else {
                self.forget_if_idle(group);
                continue;
            };
            member.running += 1;
            self.running += 1;
            self.enlist(group);
            return Some((waiter.key, waiter.since));
        }
        None
    }

    /// A running key gives its slot to another group's work, unless as many as `most` have done so.
    pub(super) fn lend(&mut self, most: usize) -> bool {
        if self.lent >= most || self.running == 0 {
            return false;
        }
        self.running -= 1;
        self.lent += 1;
        true
    }

    /// A key of this group that was popped has ended.
    pub(super) fn ended(&mut self, group: Group, lent: bool) {
        let count = if lent {
            &mut self.lent
        } else {
            &mut self.running
        };
        *count = count.saturating_sub(1);
        if let Some(member) = self.groups.get_mut(&group) {
            member.running = member.running.saturating_sub(1);
        }
        self.enlist(group);
        self.forget_if_idle(group);
    }

    fn enlist(&mut self, group: Group) {
        let limit = self
            .config
            .group_limit
            .map_or(usize::MAX, |limit| limit.max(1));
        if let Some(member) = self.groups.get_mut(&group)
            && !member.in_ring
            && !member.waiting.is_empty()
            && member.running < limit
        {
            member.in_ring = true;
            self.ring.push_back(group);
        }
    }

    /// Namespaces and nodes come and go; without this the map would remember all of them.
    fn forget_if_idle(&mut self, group: Group) {
        if self.groups.get(&group).is_some_and(|member| {
            member.waiting.is_empty() && member.running == 0 && !member.in_ring
        }) {
            self.groups.remove(&group);
        }
    }

    #[cfg(test)]
    pub(super) fn remembered_groups(&self) -> usize {
        self.groups.len()
    }
}
