//! The process's state beyond its caches: which VolumeSnapshots need a claim, which claims are
//! restored from a VolumeSnapshot, the triggers of failed attempts, and running writes of claims.
//!
//! The caches and repeated failures bring all of it back after a crash.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hash;

use sidecar::part::only;
use sidecar::waits::Waits;

use super::complaint::RequeueTrigger;
use super::request::Object;
use super::unhandled::UnhandledContents;
use crate::model::{Claim, Content, GroupContent, Snapshot, Text};

/// The key of a queue item: an object, by its key in the API.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// VolumeSnapshot, `namespace/name`.
    Snapshot(Text),
    /// VolumeSnapshotContent.
    Content(Text),
    /// A claim that may lose our finalizer, `namespace/name`.
    Claim(Text),
    /// VolumeGroupSnapshot, `namespace/name`.
    Group(Text),
    /// VolumeGroupSnapshotContent.
    GroupContent(Text),
}

impl Key {
    /// The object with this key.
    #[must_use]
    pub fn object(&self) -> Object {
        match self {
            Self::Snapshot(key) => Object::Snapshot(key.clone()),
            Self::Content(name) => Object::Content(name.clone()),
            Self::Claim(key) => Object::Claim(key.clone()),
            Self::Group(key) => Object::Group(key.clone()),
            Self::GroupContent(name) => Object::GroupContent(name.clone()),
        }
    }
}

/// The handle of a group; handles are unique only within a driver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupHandle {
    /// Name of the driver.
    pub driver: Text,
    /// The driver's handle of the group.
    pub handle: Text,
}

/// State of the process; see the module.
#[derive(Clone, Debug, Default)]
pub struct InFlightState {
    /// VolumeSnapshots that need a claim, by the claim's key.
    users: Relation,
    /// Claims that are being restored from a VolumeSnapshot, by the VolumeSnapshot's key.
    pub(super) restores: Relation,
    /// VolumeSnapshots that a group snapshot owns, by the group's UID.
    pub(super) members: Relation,
    /// VolumeSnapshots whose content has the handle of a group.
    pub(super) grouped: Relation<GroupHandle>,
    /// Half-made contents of members, by the handle of the group.
    pub(super) unbound: Relation<GroupHandle>,
    /// Contents of groups, by the group's handle.
    pub(super) groups: Relation<GroupHandle>,
    /// Triggers of failed attempts.
    waits: Waits<Key, RequeueTrigger>,
    /// UIDs of contents that users were told nothing will delete.
    pub(super) orphans: HashSet<Text>,
    /// VolumeSnapshots whose content no sidecar has begun with.
    pub unhandled: UnhandledContents,
    /// Running and unsettled writes of claims.
    pub claims: Claims,
}

impl Content {
    /// The group that its snapshot is part of, from the driver's status.
    #[must_use]
    pub fn part_of(&self) -> Option<GroupHandle> {
        let handle = self.status.as_deref()?.group.clone()?;
        let driver = self.driver.clone();
        Some(GroupHandle { driver, handle })
    }

    /// The group whose member it was made for, from the annotation.
    #[must_use]
    pub fn made_for(&self) -> Option<GroupHandle> {
        let (driver, handle) = (self.driver.clone(), self.group.clone()?);
        Some(GroupHandle { driver, handle })
    }
}

impl GroupContent {
    /// The group in the storage system, once the handle is known.
    #[must_use]
    pub fn stands_for(&self) -> Option<GroupHandle> {
        let (driver, handle) = (self.driver.clone(), self.handle()?.clone());
        Some(GroupHandle { driver, handle })
    }
}

impl InFlightState {
    /// What a decision looks at that uses no other claim than this one: of snapshots that fail there may be 50,000.
    #[must_use]
    pub fn about(&self, claim: Option<&Text>) -> Self {
        Self {
            users: Relation(only(
                claim.and_then(|claim| self.users.0.get_key_value(claim)),
            )),
            restores: self.restores.clone(),
            members: self.members.clone(),
            groups: self.groups.clone(),
            orphans: self.orphans.clone(),
            claims: Claims {
                busy: self.claims.busy.clone(),
                doubtful: { claim.and_then(|claim| self.claims.doubtful.get(claim)) }
                    .cloned()
                    .into_iter()
                    .collect(),
            },
            ..Self::default()
        }
    }

    /// The triggers that requeue the key before its back-off ends.
    #[must_use]
    pub fn awaited(&self, key: &Key) -> &[RequeueTrigger] {
        self.waits.awaited_by(key)
    }

    /// Records a new, changed or deleted VolumeSnapshot. Returns the claim that it no longer needs.
    pub fn snapshot(&mut self, old: Option<&Snapshot>, new: Option<&Snapshot>) -> Option<Text> {
        let owner = |of: &Snapshot| Some((of.owner()?.0.clone(), of.key()));
        self.members.change(old, new, owner);
        let uses = |of: &Snapshot| Some((of.uses()?, of.key()));
        self.users.change(old, new, uses)
    }

    /// Records a new, changed or deleted content.
    pub fn content(&mut self, old: Option<&Content>, new: Option<&Content>) {
        let grouped = |of: &Content| Some((of.part_of()?, of.snapshot_key()));
        self.grouped.change(old, new, grouped);
        let unbound = |of: &Content| {
            let group = of.made_for().filter(|_| of.is_half())?;
            Some((group, of.name.clone()))
        };
        self.unbound.change(old, new, unbound);
    }

    /// Records a new, changed or deleted group content. Returns the handles whose group has changed.
    pub fn group_content(
        &mut self,
        old: Option<&GroupContent>,
        new: Option<&GroupContent>,
    ) -> Vec<GroupHandle> {
        let named = |of: &GroupContent| Some((of.stands_for()?, of.name.clone()));
        let bound = |of: &GroupContent| of.group.uid.clone();
        let (was, is) = (old.and_then(named), new.and_then(named));
        if was == is && old.map(bound) == new.map(bound) {
            return Vec::new();
        }
        self.groups.change(old, new, named);
        let both = [was, is].into_iter().flatten();
        let mut handles: Vec<GroupHandle> = both.map(|(handle, _)| handle).collect();
        handles.dedup();
        handles
    }

    /// Records a new, changed or deleted claim. Returns the VolumeSnapshot that it is no longer
    /// restored from.
    pub fn claim(&mut self, key: &Text, old: Option<&Claim>, new: Option<&Claim>) -> Option<Text> {
        let restored = |of: &Claim| Some((of.restores.clone()?, key.clone()));
        self.restores.change(old, new, restored)
    }

    /// Whether a VolumeSnapshot other than `but` needs the claim.
    #[must_use]
    pub fn is_used(&self, claim: &Text, but: Option<&Text>) -> bool {
        let mut users = self.users.of(claim);
        users.any(|user| Some(user) != but)
    }

    /// Records that an attempt on `key` failed, and its triggers.
    pub fn failed(&mut self, key: &Key, triggers: &[RequeueTrigger]) {
        self.forget(key);
        for trigger in triggers {
            self.waits.wait(key, trigger.clone());
        }
    }

    /// Drops the triggers of `key`.
    pub fn forget(&mut self, key: &Key) {
        self.waits.forget(key);
    }

    /// The keys that wait for this trigger.
    #[must_use]
    pub fn triggered(&self, trigger: &RequeueTrigger) -> Vec<Key> {
        self.waits.of(trigger).cloned().collect()
    }
}

/// A multimap from a value to the keys that refer to it.
#[derive(Clone, Debug)]
pub(super) struct Relation<K = Text>(HashMap<K, BTreeSet<Text>>);

impl<K> Default for Relation<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Relation<K> {
    /// Takes in a change of an object, of which `refers` says the value and the key. Returns the value to which the key
    /// refers no longer.
    fn change<T>(
        &mut self,
        old: Option<&T>,
        new: Option<&T>,
        refers: impl Fn(&T) -> Option<(K, Text)>,
    ) -> Option<K> {
        let (was, is) = (old.and_then(&refers), new.and_then(&refers));
        if was == is {
            return None;
        }
        if let Some((of, key)) = &was
            && let Some(keys) = self.0.get_mut(of)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.0.remove(of);
            }
        }
        if let Some((of, key)) = is {
            self.0.entry(of).or_default().insert(key);
        }
        was.map(|(of, _)| of)
    }

    pub(super) fn of<'a>(&'a self, of: &K) -> impl Iterator<Item = &'a Text> + use<'a, K> {
        self.0.get(of).into_iter().flatten()
    }
}

/// Writes to claims: one at a time per claim, since one attempt may rely on the finalizer that
/// another removes.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// Claims that are being written, with the keys that wait for the end of the write.
    busy: HashMap<Text, Vec<Key>>,
    /// Claims whose last write has an unknown outcome.
    doubtful: HashSet<Text>,
}

impl Claims {
    /// Whether an attempt is writing to the claim.
    #[must_use]
    pub fn is_busy(&self, claim: &Text) -> bool {
        self.busy.contains_key(claim)
    }

    /// Whether the claim must be read again before a decision relies on it.
    #[must_use]
    pub fn is_doubtful(&self, claim: &Text) -> bool {
        self.doubtful.contains(claim)
    }

    /// Records that a write begins.
    pub fn begin(&mut self, claim: &Text) {
        self.busy.entry(claim.clone()).or_default();
    }

    /// Lets `key` wait for the end of the write; `false` if none is running.
    pub fn wait(&mut self, claim: &Text, key: Key) -> bool {
        let busy = self.busy.get_mut(claim);
        busy.map(|waiting| waiting.push(key)).is_some()
    }

    /// Records the end of a write, whose outcome may be `unknown`. Returns the keys that waited for
    /// it.
    pub fn end(&mut self, claim: &Text, unknown: bool) -> Vec<Key> {
        if unknown {
            self.doubtful.insert(claim.clone());
        }
        self.busy.remove(claim).unwrap_or_default()
    }

    /// Records that the claim was read, or is gone.
    pub fn settle(&mut self, claim: &Text) {
        self.doubtful.remove(claim);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sidecar::snapshot::SNAPSHOT_AS_SOURCE;
    use sidecar_testkit::sim::rest::remembered;

    use super::*;
    use crate::model::{SnapshotStatus, Source};

    fn nothing(in_flight: &InFlightState) -> bool {
        remembered(in_flight, &InFlightState::default(), &[]).is_empty()
    }

    fn user(name: &str, claim: &str) -> Snapshot {
        Snapshot {
            namespace: "ns".into(),
            name: name.into(),
            finalizers: Arc::new([SNAPSHOT_AS_SOURCE.into()]),
            source: Source::Claim(claim.into()),
            ..Snapshot::default()
        }
    }

    #[test]
    fn claims_are_used_until_the_last_one_is_ready_or_gone() {
        let mut in_flight = InFlightState::default();
        let (one, other) = (user("s1", "p1"), user("s2", "p1"));
        let claim = Text::from("ns/p1");
        assert_eq!(in_flight.snapshot(None, Some(&one)), None);
        assert_eq!(in_flight.snapshot(None, Some(&other)), None);
        assert!(
            in_flight.is_used(&claim, None) && in_flight.is_used(&claim, Some(&"ns/s1".into()))
        );
        let ready = Snapshot {
            status: Some(Box::new(SnapshotStatus {
                ready: Some(true),
                ..SnapshotStatus::default()
            })),
            ..one.clone()
        };
        assert_eq!(
            in_flight.snapshot(Some(&one), Some(&ready)),
            Some(claim.clone())
        );
        assert!(!in_flight.is_used(&claim, Some(&"ns/s2".into())));
        assert_eq!(in_flight.snapshot(Some(&ready), None), None);
        assert_eq!(in_flight.snapshot(Some(&other), None), Some(claim));
        assert!(nothing(&in_flight));
    }

    #[test]
    fn w_74_the_part_about_a_claim_has_nothing_of_failures_with_others() {
        let mut in_flight = InFlightState::default();
        for (name, claim) in [("s1", "p1"), ("s2", "p2")] {
            let key = Key::Snapshot(format!("ns/{name}").into());
            let _ = in_flight.snapshot(None, Some(&user(name, claim)));
            in_flight.failed(&key, &[RequeueTrigger::AnyClass]);
            let _ = in_flight.claims.end(&format!("ns/{claim}").into(), true);
        }
        let about = in_flight.about(Some(&"ns/p1".into()));
        for (claim, known) in [("ns/p1", true), ("ns/p2", false)] {
            let claim = Text::from(claim);
            assert_eq!(about.is_used(&claim, None), known);
            assert_eq!(about.claims.is_doubtful(&claim), known);
        }
        assert!(about.waits.is_empty());
    }

    #[test]
    fn what_waits_is_found_until_it_is_forgotten() {
        let mut in_flight = InFlightState::default();
        let key = Key::Snapshot("ns/s1".into());
        let (one, other) = (RequeueTrigger::AnyClass, RequeueTrigger::Class("c1".into()));
        in_flight.failed(&key, &[one.clone(), other.clone()]);
        assert_eq!(in_flight.triggered(&other), std::slice::from_ref(&key));
        in_flight.failed(&key, std::slice::from_ref(&one));
        assert!(in_flight.triggered(&other).is_empty());
        in_flight.forget(&key);
        assert!(nothing(&in_flight));
    }
}
