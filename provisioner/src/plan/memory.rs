//! What the process remembers beyond its caches.
//!
//! Separate and free of locks and clocks, so that the crash simulation keeps exactly these books. A
//! crash loses them. What must not be lost with them, that a volume may exist of which the API does
//! not know, is in the provisioning [`journal`](super::journal) as well.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use sidecar::slow_set::{self, SlowSet};

use super::outcome::Cure;
use crate::model::{Claim, ClaimPhase, Source, Text, VolumeDetail};

/// A claim: which object, and which one of that name. A claim that is gone while a call for it is in
/// doubt and another one that has taken its name are worked on at the same time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimKey {
    /// `namespace/name`
    pub name: Text,
    /// `metadata.uid`
    pub uid: Text,
}

impl ClaimKey {
    /// The key of `claim`.
    #[must_use]
    pub fn of(claim: &Claim) -> Self {
        Self {
            name: claim.key(),
            uid: claim.uid.clone(),
        }
    }

    /// The claim's namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }
}

/// A call that may still be running, or whose volume could not be saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt<P> {
    /// The claim as it was last seen; it may be gone.
    pub claim: Arc<Claim>,
    /// What the call is repeated with until there is a final answer.
    pub prepared: Arc<P>,
    /// Since when.
    pub since: Instant,
}

/// A volume whose PersistentVolume could not be saved yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsaved {
    /// Its name.
    pub name: Text,
    /// The object.
    pub object: Arc<Value>,
}

impl Unsaved {
    /// The driver's id of the volume.
    #[must_use]
    pub fn handle(&self) -> &str {
        self.text("/spec/csi/volumeHandle")
    }

    /// Whether `volume` is the PersistentVolume of this volume.
    #[must_use]
    pub fn is(&self, volume: &VolumeDetail) -> bool {
        match &volume.source {
            Source::Csi(csi) => {
                *csi.driver == *self.text("/spec/csi/driver") && *csi.handle == *self.handle()
            }
            Source::InTree(_) | Source::Other => false,
        }
    }

    fn text(&self, place: &str) -> &str {
        let text = self.object.pointer(place).and_then(Value::as_str);
        text.unwrap_or_default()
    }
}

/// What an attempt leaves behind in the books.
#[derive(Clone, Debug)]
pub enum Outcome<P> {
    /// The claim has its volume, is somebody else's, or needs none.
    Over,
    /// The driver certainly works on it no longer.
    Final {
        /// The driver called the request impossible: it is repeated after a long time only, unless
        /// the class of this UID is replaced.
        infeasible: Option<Text>,
    },
    /// The driver may still be working on it.
    InDoubt(Arc<P>),
    /// There is a volume, and this object could not be saved.
    Unsaved(Arc<P>, Unsaved),
    /// Nothing was learnt about what the driver does.
    Unchanged,
}

/// What an attempt begins with.
#[derive(Clone, Debug)]
pub struct Start<P> {
    /// The call in doubt.
    pub doubt: Option<Doubt<P>>,
    /// The object that is to be saved before anything else.
    pub unsaved: Option<Unsaved>,
}

/// The books of one process.
#[derive(Debug)]
pub struct Memory<P> {
    doubts: HashMap<ClaimKey, Doubt<P>>,
    unsaved: HashMap<ClaimKey, Unsaved>,
    slow: SlowSet<ClaimKey>,
    /// What would cure the last failure of a claim, and the claims by it.
    waits: HashMap<ClaimKey, Cure>,
    cures: HashMap<Cure, HashSet<ClaimKey>>,
    /// Claims for which calls are running.
    calls: HashMap<ClaimKey, Arc<Claim>>,
    /// PersistentVolumes that this process removed, by name with their UID.
    removed: HashMap<Text, Text>,
}

impl<P> Memory<P> {
    /// Empty books. An infeasible request is repeated after `retention` only.
    #[must_use]
    pub fn new(retention: Duration) -> Self {
        Self {
            doubts: HashMap::new(),
            unsaved: HashMap::new(),
            slow: SlowSet::new(retention),
            waits: HashMap::new(),
            cures: HashMap::new(),
            calls: HashMap::new(),
            removed: HashMap::new(),
        }
    }

    /// What an attempt begins with.
    #[must_use]
    pub fn begin(&self, key: &ClaimKey) -> Start<P> {
        Start {
            doubt: self.doubts.get(key).map(|doubt| Doubt {
                claim: Arc::clone(&doubt.claim),
                prepared: Arc::clone(&doubt.prepared),
                since: doubt.since,
            }),
            unsaved: self.unsaved.get(key).cloned(),
        }
    }

    /// The claim as it was last seen, while a call for it is in doubt: what is worked on when the
    /// claim is gone from the API.
    #[must_use]
    pub fn doubtful_claim(&self, key: &ClaimKey) -> Option<&Arc<Claim>> {
        self.doubts.get(key).map(|doubt| &doubt.claim)
    }

    /// How long the claim still has to wait because its request was called impossible; zero if it
    /// need not. `class` is the UID of its class as it is now: a class made anew lifts the wait.
    pub fn slow(&mut self, key: &ClaimKey, class: Option<&str>, now: Instant) -> Duration {
        let replaced = |entry: &slow_set::Entry| class.is_some_and(|uid| *uid != *entry.class_uid);
        if self.slow.get(key).is_some_and(replaced) {
            self.slow.remove(key);
        }
        let wait = self.slow.time_remaining(key, now);
        if wait.is_zero() {
            // What is about to be tried is not to be found with the time of its last refusal.
            self.slow.remove(key);
        }
        wait
    }

    /// Forgets waits that are over. To be called every [`slow_set::SWEEP_INTERVAL`].
    pub fn sweep(&mut self, now: Instant) {
        self.slow.sweep(now);
    }

    /// CreateVolume is about to be called.
    pub fn calling(&mut self, claim: &Arc<Claim>) {
        self.calls.insert(ClaimKey::of(claim), Arc::clone(claim));
    }

    /// The attempt is over; `claim` is the claim as it was last seen.
    pub fn end(&mut self, claim: &Arc<Claim>, outcome: Outcome<P>, now: Instant) {
        let key = ClaimKey::of(claim);
        self.calls.remove(&key);
        self.wait_no_more(&key);
        match outcome {
            Outcome::Unchanged => {}
            Outcome::Over => self.settle(&key),
            Outcome::Final { infeasible } => {
                self.settle(&key);
                if let Some(class_uid) = infeasible {
                    let class_uid = class_uid.to_string();
                    let entry = slow_set::Entry {
                        added: now,
                        class_uid,
                    };
                    self.slow.add(key, entry);
                }
            }
            Outcome::InDoubt(prepared) => {
                self.doubt(key, claim, prepared, now);
            }
            Outcome::Unsaved(prepared, unsaved) => {
                self.unsaved.insert(key.clone(), unsaved);
                self.doubt(key, claim, prepared, now);
            }
        }
    }

    /// A call of another process: it is in doubt from the start.
    pub fn doubt(&mut self, key: ClaimKey, claim: &Arc<Claim>, prepared: Arc<P>, now: Instant) {
        let since = self.doubts.get(&key).map_or(now, |doubt| doubt.since);
        // Whatever the claim was bound to meanwhile: what it is filled from is still needed.
        let claim = match claim.phase.is_open() {
            true => Arc::clone(claim),
            false => Arc::new(Claim {
                phase: ClaimPhase::Pending,
                ..(**claim).clone()
            }),
        };
        self.doubts.insert(
            key,
            Doubt {
                claim,
                prepared,
                since,
            },
        );
    }

    fn settle(&mut self, key: &ClaimKey) {
        self.doubts.remove(key);
        self.unsaved.remove(key);
    }

    /// Whether a call for the claim is running or in doubt: what must stay in the journal.
    #[must_use]
    pub fn is_busy(&self, key: &ClaimKey) -> bool {
        self.doubts.contains_key(key) || self.calls.contains_key(key)
    }

    /// Nobody is to find out what came of the call in doubt: somebody took it out of the journal.
    pub fn forget(&mut self, uid: &str) {
        let is_it = |key: &&ClaimKey| *key.uid == *uid && !self.calls.contains_key(*key);
        if let Some(key) = self.doubts.keys().find(is_it).cloned() {
            self.settle(&key);
        }
    }

    /// Calls in doubt.
    pub fn doubts(&self) -> impl Iterator<Item = (&ClaimKey, &Doubt<P>)> {
        self.doubts.iter()
    }

    /// Claims that may be gone from the API while a volume is made for them: their sources are
    /// still needed.
    pub fn busy_claims(&self) -> impl Iterator<Item = &Claim> {
        let doubts = self.doubts.values().map(|doubt| &*doubt.claim);
        doubts.chain(self.calls.values().map(|claim| &**claim))
    }

    /// The claim is gone from the API. Nothing needs to be known of it, unless a call for it is
    /// running or in doubt. Whether that is so: work goes on then.
    pub fn gone(&mut self, key: &ClaimKey) -> bool {
        self.slow.remove(key);
        self.wait_no_more(key);
        let busy = self.is_busy(key);
        if !busy {
            self.settle(key);
        }
        busy
    }

    /// The claim is tried again as soon as `cure` is there. To be called after [`end`](Self::end),
    /// with which whatever it has waited for before is over.
    pub fn wait_for(&mut self, cure: Cure, key: &ClaimKey) {
        self.wait_no_more(key);
        self.waits.insert(key.clone(), cure.clone());
        self.cures.entry(cure).or_default().insert(key.clone());
    }

    fn wait_no_more(&mut self, key: &ClaimKey) {
        if let Some(cure) = self.waits.remove(key)
            && let Some(keys) = self.cures.get_mut(&cure)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.cures.remove(&cure);
            }
        }
    }

    /// Names of the VolumeAttributesClasses that claims wait for.
    pub fn awaited_attributes_classes(&self) -> impl Iterator<Item = &Text> {
        self.cures.keys().filter_map(|cure| match cure {
            Cure::AttributesClass(name) => Some(name),
            Cure::Class(_)
            | Cure::SourceClaim(_)
            | Cure::CsiNode(_)
            | Cure::Node(_)
            | Cure::AnyNode
            | Cure::Grant(_) => None,
        })
    }

    /// What was missing has appeared: these claims need not wait for their retry.
    #[must_use]
    pub fn cured(&mut self, cure: &Cure) -> HashSet<ClaimKey> {
        let keys = self.cures.remove(cure).unwrap_or_default();
        for key in &keys {
            self.waits.remove(key);
        }
        keys
    }

    /// This process has removed the PersistentVolume of this name and UID.
    pub fn removed(&mut self, name: &Text, uid: &Text) {
        self.removed.insert(name.clone(), uid.clone());
    }

    /// Whether this process has removed the PersistentVolume, so that what the cache shows is
    /// behind.
    #[must_use]
    pub fn has_removed(&self, name: &str, uid: &str) -> bool {
        self.removed
            .get(name)
            .is_some_and(|removed| **removed == *uid)
    }

    /// The cache has the PersistentVolume no longer.
    pub fn volume_gone(&mut self, name: &str) {
        self.removed.remove(name);
    }

    /// What is in the books: nothing, once all claims and volumes are as they should be.
    #[cfg(test)]
    pub(crate) fn left(&self) -> Vec<&'static str> {
        let books = [
            ("doubts", self.doubts.len()),
            ("unsaved", self.unsaved.len()),
            ("waits", self.waits.len()),
            ("cures", self.cures.len()),
            ("calls", self.calls.len()),
            ("removed", self.removed.len()),
        ];
        let left = { books.into_iter() }.filter(|(_, entries)| *entries > 0);
        left.map(|(book, _)| book).collect()
    }
}

#[cfg(test)]
mod tests;
