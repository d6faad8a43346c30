//! What the process remembers beyond its caches.
//!
//! Separate and free of locks and clocks, so that the crash simulation keeps exactly these books. A
//! crash loses them. What must not be lost with them, that a volume may exist of which the API does
//! not know, is in the provisioning [`journal`](super::journal) as well.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sidecar::slow_set::{self, SlowSet};
use sidecar::waits::Waits;

use super::outcome::RequeueTrigger;
use crate::model::{Claim, ClaimPhase, Text};

mod others;
mod pending_create;

pub use pending_create::{Outcome, PendingCreate, Start, Unsaved};

/// So often at least is asked what is owed for claims that are gone.
const LONGEST_PAUSE: Duration = Duration::from_secs(60 * 60);

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

/// What the driver was asked, as the books compare it.
pub trait Asked {
    /// Whether a driver sees no difference between the two.
    fn asks_the_same(&self, other: &Self) -> bool;
}

fn is_among<P: Asked>(asked: &Arc<P>, these: &[Arc<P>]) -> bool {
    these.iter().any(|other| other.asks_the_same(asked))
}

/// The books of one process.
#[derive(Debug)]
pub struct InFlightState<P> {
    doubts: HashMap<ClaimKey, PendingCreate<P>>,
    unsaved: HashMap<ClaimKey, Unsaved>,
    /// Of these it was said that they are owed for a claim that needs no volume any more.
    told: HashMap<ClaimKey, Vec<Arc<P>>>,
    slow: SlowSet<ClaimKey>,
    /// Up to here claims back off.
    longest: Duration,
    /// Claims whose last attempt ended with what may pass by itself.
    hindered: HashSet<ClaimKey>,
    /// What somebody took out of the journal while a call for the claim was running.
    revoked: HashMap<ClaimKey, Vec<Arc<P>>>,
    /// What another process asked and came to light since an attempt for the claim began last: it knows nothing
    /// of it.
    adopted: HashMap<ClaimKey, Vec<Arc<P>>>,
    /// Claims that are tried again as soon as something appears, after their last failure.
    waits: Waits<ClaimKey, RequeueTrigger>,
    /// Claims for which calls are running, and those that are about to be cloned.
    calls: HashMap<ClaimKey, Arc<Claim>>,
    /// PersistentVolumes that this process removed, by name with their UID.
    removed: HashMap<Text, Text>,
}

impl<P: Asked> InFlightState<P> {
    /// Empty books. An infeasible request is repeated after `retention` only, which is the longest back-off.
    #[must_use]
    pub fn new(retention: Duration) -> Self {
        Self {
            doubts: HashMap::new(),
            unsaved: HashMap::new(),
            told: HashMap::new(),
            hindered: HashSet::new(),
            revoked: HashMap::new(),
            adopted: HashMap::new(),
            slow: SlowSet::new(retention),
            longest: retention,
            waits: Waits::default(),
            calls: HashMap::new(),
            removed: HashMap::new(),
        }
    }

    /// An attempt begins, with all that is known.
    pub fn begin(&mut self, key: &ClaimKey) -> Start<P> {
        self.adopted.remove(key);
        self.known(key)
    }

    /// What an attempt would begin with.
    #[must_use]
    pub fn known(&self, key: &ClaimKey) -> Start<P> {
        Start {
            doubt: self.doubts.get(key).map(|doubt| PendingCreate {
                claim: Arc::clone(&doubt.claim),
                pinned: doubt.pinned.clone(),
                owed: doubt.owed.clone(),
                inherited: doubt.inherited.clone(),
                ..*doubt
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

    /// CreateVolume is about to be called, or what a claim is to be cloned from is about to be read.
    pub fn calling(&mut self, claim: &Arc<Claim>) {
        self.calls.insert(ClaimKey::of(claim), Arc::clone(claim));
    }

    /// The attempt is over; `claim` is the claim as it was last seen, `owed` is what stays in doubt
    /// beside what `outcome` says.
    pub fn end(
        &mut self,
        claim: &Arc<Claim>,
        outcome: Outcome<P>,
        mut owed: Vec<Arc<P>>,
        now: Instant,
    ) {
        let key = ClaimKey::of(claim);
        self.calls.remove(&key);
        self.waits.forget(&key);
        self.add_others(&key, outcome.asked(), &mut owed);
        let recalled = matches!(outcome, Outcome::Recalled(_));
        let keeps_object = matches!(outcome, Outcome::Unsaved(..));
        let pinned = match outcome {
            Outcome::Unchanged => return,
            Outcome::Over => None,
            // Whoever deleted the entry could not know the outcome of this call.
            Outcome::Owed(prepared) => {
                owed.push(prepared);
                None
            }
            Outcome::Final { infeasible } => {
                if let Some(class_uid) = infeasible {
                    let class_uid = class_uid.to_string();
                    let entry = slow_set::Entry {
                        added: now,
                        class_uid,
                    };
                    self.slow.add(key.clone(), entry);
                }
                None
            }
            Outcome::InDoubt(prepared) | Outcome::Recalled(prepared) => Some(prepared),
            Outcome::Unsaved(prepared, unsaved) => {
                self.unsaved.insert(key.clone(), unsaved);
                Some(prepared)
            }
        };
        if !keeps_object {
            self.unsaved.remove(&key);
        }
        let known = self.doubts.get_mut(&key);
        let (since, inherited) = known.map_or((now, Vec::new()), |doubt| {
            (doubt.since, std::mem::take(&mut doubt.inherited))
        });
        let doubt = PendingCreate {
            claim: Arc::clone(claim),
            pinned,
            owed,
            since,
            inherited,
            recalled,
        };
        self.remember(key, doubt);
    }

    fn remember(&mut self, key: ClaimKey, doubt: PendingCreate<P>) {
        if doubt.requests().next().is_none() {
            return self.settle(&key);
        }
        // Whatever the claim was bound to meanwhile: what it is filled from is still needed.
        let claim = if doubt.claim.phase.is_open() {
            doubt.claim
        } else {
            Arc::new(Claim {
                phase: ClaimPhase::Pending,
                ..(*doubt.claim).clone()
            })
        };
        self.doubts.insert(key, PendingCreate { claim, ..doubt });
    }

    fn settle(&mut self, key: &ClaimKey) {
        self.doubts.remove(key);
        self.unsaved.remove(key);
        self.told.remove(key);
        self.hindered.remove(key);
        self.adopted.remove(key);
    }

    /// An attempt has failed; `may` says whether with what may pass by itself. Whether it is the first of them
    /// in a row. To be called before [`end`](Self::end).
    pub fn passes(&mut self, key: &ClaimKey, may: bool) -> bool {
        if may {
            self.hindered.insert(key.clone())
        } else {
            self.hindered.remove(key);
            false
        }
    }

    /// Whether nobody was told yet that this is owed for a claim that needs no volume any more; who asks
    /// tells it.
    pub fn tells(&mut self, key: &ClaimKey, asked: &Arc<P>) -> bool {
        let doubt = self.doubts.get(key);
        if !doubt.is_some_and(|doubt| doubt.requests().any(|held| held.asks_the_same(asked))) {
            return false;
        }
        let told = self.told.entry(key.clone()).or_default();
        let new = !is_among(asked, told);
        if new {
            told.push(Arc::clone(asked));
        }
        new
    }

    /// Whether a call for the claim is running or in doubt: what must stay in the journal.
    #[must_use]
    pub fn is_busy(&self, key: &ClaimKey) -> bool {
        self.doubts.contains_key(key) || self.calls.contains_key(key)
    }

    /// How long what is owed for a claim that is gone is left alone, once it has had no answer for so long that
    /// this is more than the longest back-off: nobody waits for it, and it may never have one.
    #[must_use]
    pub fn pause(&self, key: &ClaimKey, now: Instant) -> Option<Duration> {
        let since = self.doubts.get(key)?.since;
        let pause = LONGEST_PAUSE.min(now.saturating_duration_since(since) / 10);
        (pause > self.longest).then_some(pause)
    }

    /// Whether something is in doubt for the claim of this UID.
    #[must_use]
    pub fn owes(&self, uid: &str) -> bool {
        self.doubts.keys().any(|key| *key.uid == *uid)
    }

    /// What is in doubt.
    pub fn doubts(&self) -> impl Iterator<Item = (&ClaimKey, &PendingCreate<P>)> {
        self.doubts.iter()
    }

    /// Claims that may be gone from the API while a volume is made for them: their sources are
    /// still needed. Not where the driver has refused: nothing of the user's waits for that.
    pub fn busy_claims(&self) -> impl Iterator<Item = &Claim> {
        let pinned = self.doubts.values().filter(|doubt| doubt.pinned.is_some());
        let doubts = pinned.map(|doubt| &*doubt.claim);
        doubts.chain(self.calls.values().map(|claim| &**claim))
    }

    /// Whether the claim's call had no answer when it was made last.
    #[must_use]
    pub fn is_pinned(&self, key: &ClaimKey) -> bool {
        self.doubts
            .get(key)
            .is_some_and(|doubt| doubt.pinned.is_some())
    }

    /// The claim is gone from the API. Nothing needs to be known of it, unless a call for it is
    /// running or in doubt. Whether that is so: work goes on then.
    pub fn gone(&mut self, key: &ClaimKey) -> bool {
        self.slow.remove(key);
        self.waits.forget(key);
        let busy = self.is_busy(key);
        if !busy {
            self.settle(key);
        }
        busy
    }

    /// The claim is tried again as soon as `trigger` is there. To be called after [`end`](Self::end),
    /// with which whatever it has waited for before is over.
    pub fn wait_for(&mut self, trigger: RequeueTrigger, key: &ClaimKey) {
        self.waits.forget(key);
        self.waits.wait(key, trigger);
    }

    /// Names of the VolumeAttributesClasses that claims wait for.
    pub fn awaited_attributes_classes(&self) -> impl Iterator<Item = &Text> {
        self.waits.triggers().filter_map(|trigger| match trigger {
            RequeueTrigger::AttributesClass(name) => Some(name),
            RequeueTrigger::Class(_)
            | RequeueTrigger::SourceClaim(_)
            | RequeueTrigger::CsiNode(_)
            | RequeueTrigger::Node(_)
            | RequeueTrigger::AnyNode
            | RequeueTrigger::Grant(_) => None,
        })
    }

    /// What was missing has appeared: these claims need not wait for their retry.
    #[must_use]
    pub fn triggered(&mut self, trigger: &RequeueTrigger) -> BTreeSet<ClaimKey> {
        self.waits.triggered(trigger)
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
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
