//! In-flight state: what the process keeps beyond its caches.
//!
//! Free of locks and clocks, so that the crash simulation uses exactly this state. A crash loses it. The part that must
//! survive, requests whose volume may exist without the API knowing it, is in the provisioning
//! [`journal`](super::journal) as well.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sidecar::slow_set::{self, SlowSet};
use sidecar::waits::Waits;

use super::outcome::RequeueTrigger;
use crate::model::{Claim, ClaimPhase, Text};

mod others;
mod part;
mod pending_create;

pub use pending_create::{Outcome, PendingCreate, Start, Unsaved};

/// Longest pause between repetitions of unsettled requests for deleted claims.
const LONGEST_PAUSE: Duration = Duration::from_secs(60 * 60);

/// Identifies a claim by name and UID. A deleted claim with a call of unknown outcome, and a new one of the same name,
/// are worked on at the same time.
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

/// A request, as the in-flight state compares it.
pub trait Asked {
    /// Whether a driver sees no difference between the two.
    fn asks_the_same(&self, other: &Self) -> bool;
}

fn is_among<P: Asked>(asked: &Arc<P>, these: &[Arc<P>]) -> bool {
    these.iter().any(|other| other.asks_the_same(asked))
}

/// The in-flight state of one process.
#[derive(Clone, Debug)]
pub struct InFlightState<P> {
    pending_creates: HashMap<ClaimKey, PendingCreate<P>>,
    unsaved: HashMap<ClaimKey, Unsaved>,
    /// Unsettled requests of claims that need no volume any more, and that were logged.
    reported: HashMap<ClaimKey, Vec<Arc<P>>>,
    slow: SlowSet<ClaimKey>,
    /// The longest back-off of claims.
    longest: Duration,
    /// Claims whose last failure may pass by itself.
    transient: HashSet<ClaimKey>,
    /// Requests that somebody removed from the journal while a call for the claim was running.
    revoked: HashMap<ClaimKey, Vec<Arc<P>>>,
    /// Requests of another process that turned up since the last attempt for the claim began, which knows nothing of
    /// them.
    adopted: HashMap<ClaimKey, Vec<Arc<P>>>,
    /// Claims that are retried as soon as an object appears, after their last failure.
    waits: Waits<ClaimKey, RequeueTrigger>,
    /// Claims with running calls, and those whose source is about to be read.
    calls: HashMap<ClaimKey, Arc<Claim>>,
    /// PersistentVolumes that this process removed: name and UID.
    removed: HashMap<Text, Text>,
}

impl<P: Asked> InFlightState<P> {
    /// Empty state. An infeasible request is repeated after `retention` only, which is also the longest back-off.
    #[must_use]
    pub fn new(retention: Duration) -> Self {
        Self {
            pending_creates: HashMap::new(),
            unsaved: HashMap::new(),
            reported: HashMap::new(),
            transient: HashSet::new(),
            revoked: HashMap::new(),
            adopted: HashMap::new(),
            slow: SlowSet::new(retention),
            longest: retention,
            waits: Waits::default(),
            calls: HashMap::new(),
            removed: HashMap::new(),
        }
    }

    /// Starts an attempt with the known state.
    pub fn begin(&mut self, key: &ClaimKey) -> Start<P> {
        self.adopted.remove(key);
        self.known(key)
    }

    /// The state that an attempt would start with.
    #[must_use]
    pub fn known(&self, key: &ClaimKey) -> Start<P> {
        Start {
            pending: self.pending_creates.get(key).map(|pending| PendingCreate {
                claim: Arc::clone(&pending.claim),
                pinned: pending.pinned.clone(),
                unsettled: pending.unsettled.clone(),
                sent_earlier: pending.sent_earlier.clone(),
                ..*pending
            }),
            unsaved: self.unsaved.get(key).cloned(),
        }
    }

    /// The last known state of a claim with a call of unknown outcome, for work on a claim that is gone.
    #[must_use]
    pub fn pending_claim(&self, key: &ClaimKey) -> Option<&Arc<Claim>> {
        self.pending_creates.get(key).map(|pending| &pending.claim)
    }

    /// How long the claim still has to wait because the driver called its request infeasible; zero if it need not.
    /// `class` is the UID of its present class: a class made anew ends the wait.
    pub fn slow(&mut self, key: &ClaimKey, class: Option<&str>, now: Instant) -> Duration {
        let replaced = |entry: &slow_set::Entry| class.is_some_and(|uid| *uid != *entry.class_uid);
        if self.slow.get(key).is_some_and(replaced) {
            self.slow.remove(key);
        }
        let wait = self.slow.time_remaining(key, now);
        if wait.is_zero() {
            // The next attempt must not find the time of the last refusal.
            self.slow.remove(key);
        }
        wait
    }

    /// Forgets waits that are over. Call it every [`slow_set::SWEEP_INTERVAL`].
    pub fn sweep(&mut self, now: Instant) {
        self.slow.sweep(now);
    }

    /// CreateVolume is about to be called, or the source of a clone is about to be read.
    pub fn calling(&mut self, claim: &Arc<Claim>) {
        self.calls.insert(ClaimKey::of(claim), Arc::clone(claim));
    }

    /// Ends an attempt; `claim` is the last known state of the claim, `unsettled` the unsettled requests beside the one
    /// in `outcome`.
    pub fn end(
        &mut self,
        claim: &Arc<Claim>,
        outcome: Outcome<P>,
        mut unsettled: Vec<Arc<P>>,
        now: Instant,
    ) {
        let key = ClaimKey::of(claim);
        self.calls.remove(&key);
        self.waits.forget(&key);
        self.add_others(&key, outcome.asked(), &mut unsettled);
        let was_unsettled = matches!(outcome, Outcome::RepeatUnsettled(_));
        let keeps_object = matches!(outcome, Outcome::Unsaved(..));
        let pinned = match outcome {
            Outcome::Unchanged => return,
            Outcome::Over => None,
            // Whoever deleted the entry could not know the outcome of this call.
            Outcome::Unsettled(prepared) => {
                unsettled.push(prepared);
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
            Outcome::Unknown(prepared) | Outcome::RepeatUnsettled(prepared) => Some(prepared),
            Outcome::Unsaved(prepared, unsaved) => {
                self.unsaved.insert(key.clone(), unsaved);
                Some(prepared)
            }
        };
        if !keeps_object {
            self.unsaved.remove(&key);
        }
        let known = self.pending_creates.get_mut(&key);
        let (since, sent_earlier) = known.map_or((now, Vec::new()), |pending| {
            (pending.since, std::mem::take(&mut pending.sent_earlier))
        });
        let pending = PendingCreate {
            claim: Arc::clone(claim),
            pinned,
            unsettled,
            since,
            sent_earlier,
            was_unsettled,
        };
        self.remember(key, pending);
    }

    fn remember(&mut self, key: ClaimKey, pending: PendingCreate<P>) {
        if pending.requests().next().is_none() {
            return self.settle(&key);
        }
        // Even if the claim was bound meanwhile, its data source is still needed.
        let claim = if pending.claim.phase.is_open() {
            pending.claim
        } else {
            Arc::new(Claim {
                phase: ClaimPhase::Pending,
                ..(*pending.claim).clone()
            })
        };
        self.pending_creates
            .insert(key, PendingCreate { claim, ..pending });
    }

    fn settle(&mut self, key: &ClaimKey) {
        self.pending_creates.remove(key);
        self.unsaved.remove(key);
        self.reported.remove(key);
        self.transient.remove(key);
        self.adopted.remove(key);
    }

    /// Records whether a failure may pass by itself (`may`). Returns whether it is the first such failure in a row.
    /// Call it before [`end`](Self::end).
    pub fn is_first_transient(&mut self, key: &ClaimKey, may: bool) -> bool {
        if may {
            self.transient.insert(key.clone())
        } else {
            self.transient.remove(key);
            false
        }
    }

    /// Whether this unsettled request of a claim that needs no volume any more was not logged yet; marks it as logged.
    pub fn is_first_report(&mut self, key: &ClaimKey, asked: &Arc<P>) -> bool {
        let pending = self.pending_creates.get(key);
        if !pending.is_some_and(|pending| pending.requests().any(|held| held.asks_the_same(asked)))
        {
            return false;
        }
        let reported = self.reported.entry(key.clone()).or_default();
        let new = !is_among(asked, reported);
        if new {
            reported.push(Arc::clone(asked));
        }
        new
    }

    /// Whether a call for the claim is running or has an unknown outcome, so that its entry must stay in the journal.
    #[must_use]
    pub fn is_busy(&self, key: &ClaimKey) -> bool {
        self.pending_creates.contains_key(key) || self.calls.contains_key(key)
    }

    /// The pause before unsettled requests of a deleted claim are repeated, once they had no answer for so long that it
    /// exceeds the longest back-off: nobody waits for the answer, and it may never come.
    #[must_use]
    pub fn pause(&self, key: &ClaimKey, now: Instant) -> Option<Duration> {
        let since = self.pending_creates.get(key)?.since;
        let pause = LONGEST_PAUSE.min(now.saturating_duration_since(since) / 10);
        (pause > self.longest).then_some(pause)
    }

    /// Whether the claim of this UID has requests with unknown outcome.
    #[must_use]
    pub fn has_unknown_outcome(&self, uid: &str) -> bool {
        self.pending_creates.keys().any(|key| *key.uid == *uid)
    }

    /// All requests with unknown outcome, by claim.
    pub fn pending_creates(&self) -> impl Iterator<Item = (&ClaimKey, &PendingCreate<P>)> {
        self.pending_creates.iter()
    }

    /// Claims that may be deleted while a volume is made for them: their sources are still needed. Without those whose
    /// request the driver has refused, since nothing of the user's waits for them.
    pub fn busy_claims(&self) -> impl Iterator<Item = &Claim> {
        let pinned = self
            .pending_creates
            .values()
            .filter(|pending| pending.pinned.is_some());
        let pending_creates = pinned.map(|pending| &*pending.claim);
        pending_creates.chain(self.calls.values().map(|claim| &**claim))
    }

    /// The claim's requests with unknown outcome.
    #[must_use]
    pub fn pending_create(&self, key: &ClaimKey) -> Option<&PendingCreate<P>> {
        self.pending_creates.get(key)
    }

    /// Whether the last call for the claim had no answer.
    #[must_use]
    pub fn is_pinned(&self, key: &ClaimKey) -> bool {
        self.pending_creates
            .get(key)
            .is_some_and(|pending| pending.pinned.is_some())
    }

    /// Forgets a claim that is gone, unless a call for it is running or has an unknown outcome. Returns whether that is
    /// so: then work on it continues.
    pub fn gone(&mut self, key: &ClaimKey) -> bool {
        self.slow.remove(key);
        self.waits.forget(key);
        let busy = self.is_busy(key);
        if !busy {
            self.settle(key);
        }
        busy
    }

    /// Lets the claim be retried as soon as `trigger` appears. Call it after [`end`](Self::end), which ends any earlier
    /// wait.
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

    /// The triggers that requeue the claim before its back-off ends.
    #[must_use]
    pub fn awaited(&self, key: &ClaimKey) -> &[RequeueTrigger] {
        self.waits.awaited_by(key)
    }

    /// How long the driver's refusal still keeps the claim's request from being repeated.
    #[must_use]
    pub fn refused_for(&self, key: &ClaimKey, now: Instant) -> Duration {
        self.slow.time_remaining(key, now)
    }

    /// The claims that wait for this trigger; their waits end.
    #[must_use]
    pub fn triggered(&mut self, trigger: &RequeueTrigger) -> BTreeSet<ClaimKey> {
        self.waits.triggered(trigger)
    }

    /// Records that this process has removed the PersistentVolume of this name and UID.
    pub fn removed(&mut self, name: &Text, uid: &Text) {
        self.removed.insert(name.clone(), uid.clone());
    }

    /// Whether this process has removed the PersistentVolume, so that the cache is behind.
    #[must_use]
    pub fn has_removed(&self, name: &str, uid: &str) -> bool {
        self.removed
            .get(name)
            .is_some_and(|removed| **removed == *uid)
    }

    /// The cache has dropped the PersistentVolume.
    pub fn volume_gone(&mut self, name: &str) {
        self.removed.remove(name);
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
