//! What the process remembers beyond its caches: who needs a claim, who reads a snapshot, what failed
//! attempts wait for, and who writes to a claim.
//!
//! All of it can be had again from the caches and from what fails again; nothing is lost in a crash.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::complaint::Cure;
use crate::model::{Claim, Snapshot, Text};

/// What there is to work on, by its key in the API.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// VolumeSnapshot, `namespace/name`.
    Snapshot(Text),
    /// VolumeSnapshotContent.
    Content(Text),
    /// A claim that may be let go, `namespace/name`.
    Claim(Text),
}

/// See the module.
#[derive(Debug, Default)]
pub struct InFlightState {
    /// VolumeSnapshots that need a claim, by the claim's key.
    users: Relation,
    /// Claims that are restored from a VolumeSnapshot, by the VolumeSnapshot's key.
    restores: Relation,
    /// Keys that wait for something, by what that is.
    waiting: HashMap<Cure, BTreeSet<Key>>,
    /// What keys wait for.
    waits: HashMap<Key, Vec<Cure>>,
    /// UIDs of contents about which it was said that nothing deletes them.
    told: HashSet<Text>,
    /// Who writes to claims.
    pub claims: Claims,
}

impl InFlightState {
    /// A VolumeSnapshot is new, has changed, or is gone. The claim that it needs no longer.
    pub fn snapshot(&mut self, old: Option<&Snapshot>, new: Option<&Snapshot>) -> Option<Text> {
        let used = old.and_then(|old| Some((old.uses()?, old.key())));
        let uses = new.and_then(|new| Some((new.uses()?, new.key())));
        if used == uses {
            return None;
        }
        if let Some((claim, key)) = &used {
            self.users.remove(claim, key);
        }
        if let Some((claim, key)) = uses {
            self.users.insert(claim, key);
        }
        used.map(|(claim, _)| claim)
    }

    /// A claim is new, has changed, or is gone. The VolumeSnapshot that it reads no longer.
    pub fn claim(&mut self, key: &Text, old: Option<&Claim>, new: Option<&Claim>) -> Option<Text> {
        let read = old.and_then(|old| old.restores.clone());
        let reads = new.and_then(|new| new.restores.clone());
        if read == reads {
            return None;
        }
        if let Some(snapshot) = &read {
            self.restores.remove(snapshot, key);
        }
        if let Some(snapshot) = reads {
            self.restores.insert(snapshot, key.clone());
        }
        read
    }

    /// Whether a VolumeSnapshot other than `but` needs the claim.
    #[must_use]
    pub fn is_used(&self, claim: &Text, but: Option<&Text>) -> bool {
        let mut users = self.users.of(claim);
        users.any(|user| Some(user) != but)
    }

    /// Keys of the claims that are being restored from the VolumeSnapshot.
    #[must_use]
    pub fn restoring(&self, snapshot: &Text) -> Vec<Text> {
        self.restores.of(snapshot).cloned().collect()
    }

    /// An attempt on `key` failed, and waits for these.
    pub fn failed(&mut self, key: &Key, cures: &[Cure]) {
        self.forget(key);
        for cure in cures {
            let waiting = self.waiting.entry(cure.clone()).or_default();
            waiting.insert(key.clone());
        }
        if !cures.is_empty() {
            self.waits.insert(key.clone(), cures.to_vec());
        }
    }

    /// What `key` waited for does not matter any more.
    pub fn forget(&mut self, key: &Key) {
        for cure in self.waits.remove(key).unwrap_or_default() {
            if let Some(waiting) = self.waiting.get_mut(&cure) {
                waiting.remove(key);
                if waiting.is_empty() {
                    self.waiting.remove(&cure);
                }
            }
        }
    }

    /// Who waited for this.
    #[must_use]
    pub fn cured(&self, cure: &Cure) -> Vec<Key> {
        let waiting = self.waiting.get(cure).into_iter().flatten();
        waiting.cloned().collect()
    }

    /// Whether it was said of the content with this UID that nothing deletes it.
    #[must_use]
    pub fn is_told(&self, uid: &Text) -> bool {
        self.told.contains(uid)
    }

    /// It is said now.
    pub fn tell(&mut self, uid: &Text) {
        self.told.insert(uid.clone());
    }

    /// The content with this UID is gone.
    pub fn untell(&mut self, uid: &Text) {
        self.told.remove(uid);
    }

    /// Whether nothing is remembered.
    #[cfg(any(test, feature = "simulation"))]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.users.0.is_empty()
            && self.restores.0.is_empty()
            && self.waiting.is_empty()
            && self.waits.is_empty()
            && self.told.is_empty()
            && self.claims.busy.is_empty()
    }
}

/// Keys that belong to a key.
#[derive(Debug, Default)]
struct Relation(HashMap<Text, BTreeSet<Text>>);

impl Relation {
    fn insert(&mut self, of: Text, key: Text) {
        self.0.entry(of).or_default().insert(key);
    }

    fn remove(&mut self, of: &Text, key: &Text) {
        if let Some(keys) = self.0.get_mut(of) {
            keys.remove(key);
            if keys.is_empty() {
                self.0.remove(of);
            }
        }
    }

    fn of(&self, of: &Text) -> impl Iterator<Item = &Text> {
        self.0.get(of).into_iter().flatten()
    }
}

/// Writes to claims: one at a time, since what one attempt takes away another may rely on.
#[derive(Debug, Default)]
pub struct Claims {
    /// Claims that are being written, with who waits for the end of that.
    busy: HashMap<Text, Vec<Key>>,
    /// Claims of which it is not known whether the last write was applied.
    doubtful: HashSet<Text>,
}

impl Claims {
    /// Whether somebody writes to the claim.
    #[must_use]
    pub fn is_busy(&self, claim: &Text) -> bool {
        self.busy.contains_key(claim)
    }

    /// Whether the claim has to be read before it can be relied on.
    #[must_use]
    pub fn is_doubtful(&self, claim: &Text) -> bool {
        self.doubtful.contains(claim)
    }

    /// A write begins.
    pub fn begin(&mut self, claim: &Text) {
        self.busy.entry(claim.clone()).or_default();
    }

    /// `key` waits for the end of the write; `false` if there is none any more.
    pub fn wait(&mut self, claim: &Text, key: Key) -> bool {
        let busy = self.busy.get_mut(claim);
        busy.map(|waiting| waiting.push(key)).is_some()
    }

    /// The write has come to an end, perhaps without anybody knowing how. Who waited for that.
    pub fn end(&mut self, claim: &Text, unknown: bool) -> Vec<Key> {
        if unknown {
            self.doubtful.insert(claim.clone());
        }
        self.busy.remove(claim).unwrap_or_default()
    }

    #[cfg(test)]
    pub(crate) fn forget_all(&mut self) {
        self.busy.clear();
    }

    /// The claim was read, or is gone.
    pub fn settle(&mut self, claim: &Text) {
        self.doubtful.remove(claim);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sidecar::snapshot::SNAPSHOT_AS_SOURCE;

    use super::*;
    use crate::model::{SnapshotStatus, Source};

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
        let mut memory = InFlightState::default();
        let (one, other) = (user("s1", "p1"), user("s2", "p1"));
        let claim = Text::from("ns/p1");
        assert_eq!(memory.snapshot(None, Some(&one)), None);
        assert_eq!(memory.snapshot(None, Some(&other)), None);
        assert!(memory.is_used(&claim, None) && memory.is_used(&claim, Some(&"ns/s1".into())));
        let ready = Snapshot {
            status: Some(Box::new(SnapshotStatus {
                ready: Some(true),
                ..SnapshotStatus::default()
            })),
            ..one.clone()
        };
        assert_eq!(
            memory.snapshot(Some(&one), Some(&ready)),
            Some(claim.clone())
        );
        assert!(!memory.is_used(&claim, Some(&"ns/s2".into())));
        assert_eq!(memory.snapshot(Some(&ready), None), None);
        assert_eq!(memory.snapshot(Some(&other), None), Some(claim));
        assert!(memory.is_empty());
    }

    #[test]
    fn what_waits_is_found_until_it_is_forgotten() {
        let mut memory = InFlightState::default();
        let key = Key::Snapshot("ns/s1".into());
        let (one, other) = (Cure::AnyClass, Cure::Class("c1".into()));
        memory.failed(&key, &[one.clone(), other.clone()]);
        assert_eq!(memory.cured(&other), std::slice::from_ref(&key));
        memory.failed(&key, std::slice::from_ref(&one));
        assert!(memory.cured(&other).is_empty());
        memory.forget(&key);
        assert!(memory.is_empty());
    }
}
