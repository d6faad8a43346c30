//! Faults of mutants around the controller: objects that they do not see, state that they forget, keys that they skip.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each mutant differs in one point"
)]

use std::collections::BTreeSet;

use sidecar::controller::reactor::Verdict;

use super::Mutant;
use crate::model::Volume;
use crate::plan::Provisioner;
use crate::plan::claim::Failure;
use crate::plan::in_flight::{ClaimKey, PendingCreate};
use crate::plan::reactor::{Failed, Key, Notice, Reply};
use crate::plan::request::{self, Called, PinnedRequest};
use crate::sim::informers::Hidden;
use crate::sim::process::{Due, Process};
use crate::sim::scene::CLASS;

impl Mutant {
    /// The kinds of objects that a mutant does not see while it decides on `key`.
    pub(in crate::sim) fn hides(self, key: &Key, resumed: &BTreeSet<ClaimKey>) -> Hidden {
        Hidden {
            claims: match key {
                Key::Claim(_) => self == Self::FreesShared,
                Key::Source(_) => self == Self::FreesSources,
                Key::Volume(_) => false,
            },
            volumes: match key {
                Key::Claim(key) => self == Self::RecoversEarly && resumed.contains(key),
                Key::Volume(_) | Key::Source(_) => false,
            },
        }
    }

    /// Whether a mutant skips `key`.
    pub(in crate::sim) fn leaves(self, key: &Key, process: &Process) -> bool {
        match key {
            Key::Claim(key) => {
                let cached = process.informers.claims.get(&key.name);
                let gone = cached.is_none_or(|claim| claim.uid != key.uid);
                self == Self::ForgetsDeletedClaims && gone
            }
            Key::Source(_) => self == Self::KeepsSources,
            Key::Volume(_) => false,
        }
    }

    /// The state that a mutant hides from an attempt.
    pub(in crate::sim) fn hides_pending(
        self,
        key: &Key,
        provisioner: &mut Provisioner,
    ) -> Option<PendingCreate<PinnedRequest>> {
        match key {
            Key::Claim(key) if self == Self::AsksAnew => {
                provisioner.in_flight_mut().hide_pending(key)
            }
            _ => None,
        }
    }

    /// The effect of an event, as a mutant has it.
    pub(in crate::sim) fn observes(self, due: Due) -> Due {
        match self {
            Self::LeavesSources => without(due, |key| matches!(key, Key::Source(_))),
            _ => due,
        }
    }

    /// Settles the entry that a mutant removes from the journal after the driver's answer.
    pub(in crate::sim) fn settles(self, reply: &Reply, provisioner: &mut Provisioner) {
        if self == Self::SettlesEarly
            && let Reply::Ask(request::Reply::Call(Called::Create(call, Ok(_)), _)) = reply
            && let Some(journal) = provisioner.journal()
        {
            journal.settle(&call.about.pv_template.claim.uid);
        }
    }

    /// The effect of the end of an attempt, as a mutant has it.
    pub(in crate::sim) fn ends(
        self,
        key: &Key,
        verdict: &Verdict<Failed>,
        due: Due,
        process: &mut Process,
    ) -> Due {
        if self == Self::RemembersRemoved {
            for notice in &due.notices {
                if let Notice::Deleted(name, volume, _) = notice
                    && let Volume::Deletable(detail) = &**volume
                {
                    let in_flight = process.attempts.reactor.in_flight_mut();
                    in_flight.removed(name, &detail.uid);
                }
            }
        }
        let Key::Claim(key) = key else { return due };
        let failure = match verdict {
            Verdict::Retry {
                failure: Failed::Claim(failure, _),
                ..
            } => Some(failure),
            _ => None,
        };
        let cached = process.informers.claims.get(&key.name);
        let cached = cached.filter(|claim| claim.uid == key.uid);
        let gone = cached.is_none();
        let in_flight = process.attempts.reactor.in_flight_mut();
        match (self, failure) {
            (Self::ForgetsPending, Some(_)) => in_flight.drop_pinned(key),
            (Self::BelievesRefusals, Some(Failure::Call(_) | Failure::Full(_))) => {
                in_flight.drop_unsettled(key, false);
            }
            (Self::ForgetsMoved, Some(Failure::Full(_))) => in_flight.drop_unsettled(key, true),
            (Self::ForgetsUnsettled, None) => in_flight.drop_unsettled(key, false),
            (Self::RemembersClaims, Some(failure)) => {
                if gone && let Some(cure) = failure.cure(CLASS) {
                    in_flight.wait_for(cure, key);
                }
                return due;
            }
            (Self::LeavesUnsettled, None) => {
                return without(due, |woken| *woken == Key::Claim(key.clone()));
            }
            _ => return due,
        }
        process.attempts.reactor.settle_again(key);
        due
    }

    /// Whether a mutant retries at once.
    pub(in crate::sim) fn spins(self, failure: &Failed) -> bool {
        match failure {
            Failed::Claim(_, true) => self == Self::Spins,
            Failed::Follows => self == Self::FollowsAtOnce,
            Failed::Claim(_, false)
            | Failed::NotTaken(_)
            | Failed::Volume(_)
            | Failed::Source(_) => false,
        }
    }
}

fn without(due: Due, drop: impl Fn(&Key) -> bool) -> Due {
    let wakes = due.wakes.into_iter().filter(|wake| !drop(&wake.key));
    Due {
        wakes: wakes.collect(),
        notices: due.notices,
    }
}
