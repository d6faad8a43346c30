//! Node deployment: takes claims with `Immediate` binding and without selected node.
//!
//! [`ownership`](crate::plan::ownership) has the delays and the capacity check. A claim that waits holds no worker: it
//! goes back to the queue with a delay.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sidecar::controller::CallError;
use sidecar::controller::reactor::Verdict;
use sidecar::controller::request::Body;

use super::claim::Open;
use super::{Failed, Informed, Notice, Provisioner, Reply, Step, Wakes};
use super::{after, retry, wake_claim};
use crate::keys::SELECTED_NODE;
use crate::model::{Claim, Pairs, Text};
use crate::plan::claim::{self, ClaimStep};
use crate::plan::edit;
use crate::plan::in_flight::{ClaimKey, Start};
use crate::plan::migrated;
use crate::plan::outcome::{ApiError, Refusal};
use crate::plan::ownership::{CapacityCheck, Turn, fits};
use crate::plan::request::{self, Call, Called, Object, Purpose, Request, Write};
use crate::plan::settings::NodeDeployment;

/// Progress of this process with a claim that no process has taken.
pub(super) enum OwnershipRace {
    /// Goes through an attempt as if this node were selected, without any effect.
    Rehearsal(Box<claim::Attempt>, Arc<Claim>),
    /// Sends GetCapacity, until one answer is enough.
    Asking(CapacityCheck, usize),
    /// Annotates the claim with the node.
    Taking,
    /// The race is over.
    Over(Outcome),
}

/// Result of the race for a claim.
pub(super) enum Outcome {
    /// The class does not allow this node.
    Elsewhere,
    /// The delay of this process is not over yet.
    Waits(Duration),
    /// Not enough capacity, or the claim would get no volume.
    NoCapacity,
    /// The claim was updated; `true` if it has this node now.
    Taken(bool),
    /// The claim could not be updated.
    Failed(ApiError),
    /// This process takes no claims.
    Nothing,
}

impl Provisioner {
    /// Starts with a claim that no process has taken.
    pub(super) fn start_race(
        &mut self,
        open: &Open,
        informers: Informed<'_>,
        now: Instant,
    ) -> OwnershipRace {
        let Some(own) = self.settings.node.clone() else {
            return OwnershipRace::Over(Outcome::Nothing);
        };
        if !self.fits(&open.claim, &own, informers) {
            return OwnershipRace::Over(Outcome::Elsewhere);
        }
        if let Some(wait) = self.turn(&open.key, now) {
            return OwnershipRace::Over(Outcome::Waits(wait));
        }
        let start = Start {
            pending: None,
            unsaved: None,
        };
        let attempt = Box::new(claim::Attempt::new(start, true));
        OwnershipRace::Rehearsal(attempt, Arc::new(as_selected(&open.claim, &own)))
    }

    fn fits(&self, claim: &Claim, own: &NodeDeployment, informers: Informed<'_>) -> bool {
        let Some(class) = informers.class(claim.class_name()) else {
            return false;
        };
        let driver = informers.driver();
        let Ok(class) = migrated::class(&class, &driver) else {
            // The process that takes the claim reports the error.
            return true;
        };
        let topology = self.settings.gates.topology && driver.abilities.topology;
        let topology = topology.then_some(&*self.topology);
        fits(claim, &class, own, &self.settings, topology)
    }

    /// The rest of the delay; `None` if it is over.
    fn turn(&mut self, key: &ClaimKey, now: Instant) -> Option<Duration> {
        let random = unit(&mut self.seed);
        match self.ownership_races.look(key, self.pace, now, random) {
            Turn::Now => None,
            Turn::Wait(wait) => Some(wait),
        }
    }

    pub(super) fn decide_race(&mut self, open: &mut Open, informers: Informed<'_>) -> Option<Step> {
        let mut race = open.race.take()?;
        if let OwnershipRace::Rehearsal(attempt, claim) = &mut race {
            match self.rehearse(attempt, claim, informers) {
                Ok(request) => {
                    open.race = Some(race);
                    return Some(Step::Ask(request));
                }
                Err(next) => race = next,
            }
        }
        let step = match &race {
            OwnershipRace::Asking(check, index) => match check.questions.get(*index) {
                Some(question) => {
                    let call = Call::GetCapacity(question.clone().into());
                    Some(Step::Ask(Request::Call(call)))
                }
                None => {
                    race = OwnershipRace::Over(Outcome::NoCapacity);
                    None
                }
            },
            OwnershipRace::Taking => {
                let own = self.settings.node.as_ref();
                let own = own.map_or_else(|| Text::from(""), |own| own.name.clone());
                Some(Step::Ask(edit::take(&open.claim, &own)))
            }
            OwnershipRace::Rehearsal(..) | OwnershipRace::Over(_) => None,
        };
        open.race = Some(race);
        step
    }

    /// The next object to read, or the state after the rehearsal. If the attempt would fail, the process takes the
    /// claim without a capacity check, so that the claim gets an event about the failure.
    fn rehearse(
        &self,
        attempt: &mut claim::Attempt,
        claim: &Claim,
        informers: Informed<'_>,
    ) -> Result<Request, OwnershipRace> {
        loop {
            let step = self.look(attempt, (claim, false), informers, |view| {
                attempt.decide(view)
            });
            let applied = match step {
                claim::Step::Ask(Request::Call(Call::Create(call))) => {
                    return Err(match CapacityCheck::new(&call) {
                        Some(check) => OwnershipRace::Asking(check, 0),
                        None => OwnershipRace::Taking,
                    });
                }
                claim::Step::Done(_) => return Err(OwnershipRace::Over(Outcome::NoCapacity)),
                claim::Step::Ask(Request::Get(Object::Owner(..))) => {
                    return Err(OwnershipRace::Taking);
                }
                claim::Step::Ask(request @ Request::Get(_)) => return Ok(request),
                // GetCapacity has no Secret.
                claim::Step::Ask(Request::Event(_) | Request::Secret(_))
                | claim::Step::Claim(ClaimStep::Intend(..)) => attempt.skip(step),
                claim::Step::Ask(Request::Write(write)) if is_of_source(&write) => {
                    attempt.skip(claim::Step::Ask(Request::Write(write)))
                }
                claim::Step::Ask(Request::Write(_) | Request::Call(_))
                | claim::Step::Claim(ClaimStep::LoadExistingPv(..))
                | claim::Step::Fail(_) => return Err(OwnershipRace::Taking),
            };
            if applied.is_err() {
                return Err(OwnershipRace::Taking);
            }
        }
    }

    pub(super) fn end_race(
        &mut self,
        open: &Open,
        race: OwnershipRace,
        now: Instant,
        due: &mut Wakes,
    ) -> Verdict<Failed> {
        let key = &open.key;
        let OwnershipRace::Over(outcome) = race else {
            return Verdict::Done;
        };
        match outcome {
            Outcome::Nothing => {}
            Outcome::Elsewhere => {
                self.ownership_races.end(key);
                due.notices.push(Notice::Elsewhere(key.clone()));
            }
            Outcome::Waits(wait) => return after(wait),
            Outcome::NoCapacity => due.notices.push(Notice::NoCapacity(key.clone())),
            Outcome::Taken(ours) => {
                self.ownership_races.end(key);
                if ours {
                    due.notices.push(Notice::Taken(key.clone()));
                    wake_claim(due, key.clone());
                }
            }
            Outcome::Failed(error) if error.is_not_found() => self.ownership_races.end(key),
            Outcome::Failed(error) if error.refusal == Refusal::Conflict => {
                if let Some(wait) = self.turn(key, now) {
                    return after(wait);
                }
            }
            Outcome::Failed(error) => {
                let own = self.settings.node.as_ref().map(|own| &*own.name);
                let own = own.unwrap_or_default();
                let text = format!("could not select node {own}: {error}");
                let claim = Arc::clone(&open.claim);
                due.notices.push(Notice::ClaimFailed(claim, text));
                return retry(Failed::NotTaken(error));
            }
        }
        Verdict::Done
    }
}

impl OwnershipRace {
    pub(super) fn answered(
        &mut self,
        key: &ClaimKey,
        reply: Reply,
        informers: Informed<'_>,
        due: &mut Wakes,
    ) {
        match (&mut *self, reply) {
            (Self::Rehearsal(attempt, _), Reply::Ask(reply)) => {
                if attempt.answered(reply).is_err() {
                    *self = Self::Taking;
                }
            }
            (
                Self::Asking(check, index),
                Reply::Ask(request::Reply::Call(Called::GetCapacity(_, result), _)),
            ) => match result {
                Ok(response) if !check.enough(response.available_capacity) => *index += 1,
                Ok(_) => *self = Self::Taking,
                Err(CallError::Unreachable(error) | CallError::Failed(error)) => {
                    due.notices
                        .push(Notice::CapacityUnknown(key.clone(), error));
                    *self = Self::Taking;
                }
            },
            (Self::Taking, Reply::Ask(request::Reply::Write(write, result))) => {
                *self = Self::Over(match (result, write.body) {
                    (Err(error), _) => Outcome::Failed(error),
                    (Ok(_), Body::Edit(edit)) => {
                        let node = edit.annotate.map(|(_, node)| node);
                        let claim = informers.claim(&key.name);
                        Outcome::Taken(claim.is_some_and(|claim| {
                            claim.uid == key.uid && Some(claim.selected_node()) == node.as_deref()
                        }))
                    }
                    (Ok(_), _) => Outcome::Nothing,
                });
            }
            // A race sends no other requests in this state.
            (_, _) => *self = Self::Over(Outcome::Nothing),
        }
    }
}

/// Whether the write changes the finalizers of a data source.
fn is_of_source(write: &Write) -> bool {
    matches!(
        write.purpose,
        Purpose::ProtectSource | Purpose::ReleaseSource
    )
}

/// The claim, as if this node were selected.
fn as_selected(claim: &Claim, own: &NodeDeployment) -> Claim {
    let others = claim.annotations.iter();
    let others = others.filter(|(key, _)| *key != SELECTED_NODE);
    let selected = [(SELECTED_NODE, &*own.name)];
    Claim {
        annotations: Pairs::from_iter(others.chain(selected)),
        ..claim.clone()
    }
}

/// SplitMix64, uniform in [0, 1).
fn unit(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *seed;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^= mixed >> 31;
    let high = u32::try_from(mixed >> 32).unwrap_or_default();
    f64::from(high) / (f64::from(u32::MAX) + 1.0)
}
