//! Attempts on claims advance, from the queue, step by step, back to the queue.

use std::sync::Arc;

use sidecar::csi::Migrated;
use tonic::Code;

use super::mutant::Mutant;
use super::process::Running;
use super::request::Written;
use super::run::{Fate, Faults, World, lost, refused, rpc};
use super::server::refusal;
use super::watch::key as key_of;
use crate::model::Claim;
use crate::plan::claim::{Answer, Attempt, Effect, End, Failure, Step};
use crate::plan::edit::{Edit, Kind};
use crate::plan::journal::Ticket;
use crate::plan::memory::ClaimKey;
use crate::plan::outcome::Refusal;
use crate::plan::protection::is_shared;
use crate::plan::settings::Protection;
use crate::plan::view::View;

#[expect(clippy::large_enum_variant, reason = "a handful at a time, in a test")]
pub(super) enum State {
    Deciding,
    /// Sent to the API server, not yet applied.
    Sent(Step),
    /// The claim was read in this version; the update is not yet applied.
    Writing(Step, u64),
    /// It waits for the journal.
    Intending(Step, Ticket),
    /// The driver works on it.
    Calling(Step, u64),
    /// The answer is on its way; with the object if a write was applied and heard of.
    Answered(Step, Answer, Option<Written>),
    /// Node deployment: the node is about to be written on the claim.
    Taking,
}

impl World {
    /// A queued claim gets a worker.
    pub(super) fn begin_claim(&mut self, key: &ClaimKey) {
        let process = &mut self.process;
        process.ready.remove(key);
        let cached = { process.claims.get(&key.name) }.filter(|claim| claim.uid == key.uid);
        let doubtful = process.memory.doubtful_claim(key);
        let doubtful = doubtful.filter(|_| process.mutant != Mutant::ForgetsDeletedClaims);
        let gone = cached.is_none();
        let Some(current) = cached.or(doubtful).cloned() else {
            return;
        };
        let class = { process.classes.get(current.class_name()) }.map(|class| class.uid.clone());
        let wait = process.memory.slow(key, class.as_deref(), self.clock);
        if !wait.is_zero() {
            process.later.insert(key.clone());
            return;
        }
        process.later.remove(key);
        let start = process.mutant.begins(process.memory.begin(key));
        process.running.push(Running {
            key: key.clone(),
            attempt: Attempt::new(start, !gone && current.volume.is_empty()),
            current,
            gone,
            state: State::Deciding,
        });
    }

    pub(super) fn advance_claim(&mut self, index: usize) {
        let running = &mut self.process.running[index];
        match std::mem::replace(&mut running.state, State::Deciding) {
            State::Deciding => self.decide_claim(index),
            State::Sent(Step::ReleaseSource(edit)) if self.is_shared(index, &edit) => {
                let step = Step::ReleaseSource(edit);
                self.process.running[index].state = State::Answered(step, Answer::Done, None);
            }
            State::Sent(step) if self.version_to_edit(&step).is_some() => {
                let version = self.version_to_edit(&step).unwrap_or_default();
                if let (Step::Unselect(edit, _) | Step::ProtectSource(edit), true) =
                    (&step, self.faulty() && self.dice.one_in(4))
                {
                    let name = format!("{}/{}", edit.namespace, edit.name);
                    self.touch_claim(&name);
                }
                self.process.running[index].state = State::Writing(step, version);
            }
            State::Writing(step, version)
                if { self.version_to_edit(&step) }.is_some_and(|now| now != version) =>
            {
                let answer = self.mutant.hears_conflict(refusal(Refusal::Conflict));
                self.process.running[index].state = State::Answered(step, answer, None);
            }
            State::Sent(step) | State::Writing(step, _) => {
                if let Step::ReleaseSource(snapshot) = &step {
                    self.check_freed(&snapshot.name);
                }
                let (answer, written) = match self.fate() {
                    Fate::Applied => self.apply_claim(&step),
                    Fate::Unheard => {
                        self.apply_claim(&step);
                        (Answer::Refused(lost()), None)
                    }
                    Fate::Lost => (Answer::Refused(lost()), None),
                    Fate::Refused => (Answer::Refused(refused()), None),
                };
                let answer = self.mutant.reads(&step, answer);
                self.process.running[index].state = State::Answered(step, answer, written);
            }
            State::Intending(step, ticket) => self.await_journal(index, step, ticket),
            State::Calling(step, id) => self.end_create_call(index, step, id),
            State::Answered(step, answer, written) => {
                self.fold_claim(index, &step, answer, written);
            }
            State::Taking => self.take_claim(index),
        }
    }

    /// GET and PUT of a claim are two requests, and others write in between. Without faults they are
    /// taken for one: an attempt that ends with a conflict may cost a call more.
    pub(super) fn version_to_edit(&self, step: &Step) -> Option<u64> {
        let (Step::Unselect(edit, _) | Step::ProtectSource(edit)) = step else {
            return None;
        };
        let name = format!("{}/{}", edit.namespace, edit.name);
        let claim = self.server.claims.get(&*name);
        let claim = claim.filter(|_| edit.kind == Kind::Claim && self.case.faults != Faults::None);
        claim.map(|(version, _)| *version)
    }

    /// Whether another claim is made from the snapshot.
    fn is_shared(&self, index: usize, snapshot: &Edit) -> bool {
        let known = self.known_claims();
        let known = known.iter().map(|claim| &**claim);
        let claim = &self.process.running[index].current;
        let has_volume = |claim: &Claim| self.process.has_volume(claim);
        let place = (&*snapshot.namespace, &*snapshot.name);
        let shared = is_shared(place, claim, known, has_volume);
        shared && self.mutant != Mutant::FreesShared
    }

    fn decide_claim(&mut self, index: usize) {
        let running = &mut self.process.running[index];
        let cached = { self.process.claims.get(&running.key.name) }
            .filter(|claim| claim.uid == running.key.uid);
        if let Some(cached) = cached
            && cached.version > running.current.version
        {
            running.current = Arc::clone(cached);
        }
        let running = &self.process.running[index];
        let step = self.decide(&running.attempt, &running.current, running.gone);
        self.take_step(index, step);
    }

    /// What is decided on what the process knows.
    pub(super) fn decide(&self, attempt: &Attempt, claim: &Claim, gone: bool) -> Step {
        let process = &self.process;
        let name = attempt.volume_name(claim, &process.settings);
        let class = process.classes.get(claim.class_name());
        let volume = name.ok().and_then(|name| process.volumes.get(&name));
        let volume = volume.filter(|_| !process.is_blind(&ClaimKey::of(claim)));
        let view = View {
            driver: &process.driver,
            settings: &process.settings,
            claim,
            gone,
            class: class.map(|class| &**class),
            volume_exists: volume.is_some(),
            volume_leaves: volume.is_some_and(|volume| volume.is_leaving()),
            grants: &[],
            places: &process.places,
        };
        process.mutant.decides(attempt.decide(&view), &view)
    }

    fn take_step(&mut self, index: usize, step: Step) {
        let process = &mut self.process;
        let running = &mut process.running[index];
        match step {
            Step::Done(End::Contend) => self.contend(index),
            Step::Done(end) => self.finish_claim(index, Ok(end)),
            Step::Fail(failure) => self.finish_claim(index, Err(failure)),
            Step::Announce(_) => running.state = State::Answered(step, Answer::Done, None),
            Step::Unselect(ref edit, _)
            | Step::ProtectSource(ref edit)
            | Step::ReleaseSource(ref edit) => {
                if edit.kind == Kind::Claim {
                    let name = format!("{}/{}", edit.namespace, edit.name);
                    process.claims.slots.begin_write(&key_of(&name));
                }
                running.state = State::Sent(step);
            }
            Step::Save(ref unsaved) => {
                process.volumes.slots.begin_write(&key_of(&unsaved.name));
                running.state = State::Sent(step);
            }
            Step::Create(_, ref request) => {
                let request = request.clone();
                let uid = &running.key.uid;
                let protected = process.settings.protection == Protection::Journal;
                if protected
                    && process.mutant != Mutant::CallsEarly
                    && !process.journal.may_call(uid, self.clock)
                {
                    let answer = Answer::Unsent(rpc(Code::Unavailable));
                    running.state = State::Answered(step, answer, None);
                    return;
                }
                process.memory.calling(&running.current);
                self.begin_create_call(index, step, &request);
            }
            Step::Intend(ref prepared) => {
                let intent = running.attempt.intent(&running.current, prepared);
                running.state = match process.journal.intend(intent, self.clock) {
                    Ok(_) if process.mutant == Mutant::CallsEarly => {
                        State::Answered(step, Answer::Done, None)
                    }
                    Ok(ticket) => State::Intending(step, ticket),
                    Err(error) => State::Answered(step, Answer::Unwritable(error), None),
                };
            }
            Step::Discard(_, Migrated(true)) if process.mutant == Mutant::LeavesUnsayable => {
                running.state = State::Answered(step, Answer::Done, None);
            }
            Step::Discard(ref request, _) => {
                if !self.may_discard(index) {
                    let answer = Answer::Unsent(rpc(Code::Unavailable));
                    self.process.running[index].state = State::Answered(step, answer, None);
                    return;
                }
                let id = request.volume_id.clone();
                self.discard(index, step, &id);
            }
            Step::LoadSnapshot(..)
            | Step::LoadContent(_)
            | Step::LoadSourceClaim(..)
            | Step::LoadSourceVolume(_)
            | Step::LoadNamesake(..)
            | Step::LoadOwner(..)
            | Step::LoadSecret(_) => running.state = State::Sent(step),
            Step::LoadAttributesClass(_) => unreachable!("no attributes class"),
        }
    }

    fn fold_claim(&mut self, index: usize, step: &Step, answer: Answer, written: Option<Written>) {
        self.process.absorb_claim(index, step, written);
        let process = &mut self.process;
        let running = &mut process.running[index];
        if process.mutant == Mutant::SettlesEarly && matches!(answer, Answer::Created(_)) {
            process.journal.settle(&running.key.uid);
        }
        if let Err(failure) = running.attempt.fold(step, answer) {
            self.finish_claim(index, Err(failure));
        }
    }

    fn await_journal(&mut self, index: usize, step: Step, ticket: Ticket) {
        let clock = self.clock;
        let state = match self.process.journal.state(ticket, clock) {
            Some(Ok(())) => State::Answered(step, Answer::Done, None),
            Some(Err(error)) => State::Answered(step, Answer::Unwritable(error), None),
            None => State::Intending(step, ticket),
        };
        self.process.running[index].state = state;
        self.advance_journal();
    }

    fn may_discard(&self, index: usize) -> bool {
        let uid = &self.process.running[index].key.uid;
        !self.journals() || self.process.journal.may_call(uid, self.clock)
    }

    fn finish_claim(&mut self, index: usize, over: Result<End, Failure>) {
        let Running {
            key,
            attempt,
            current,
            gone,
            ..
        } = self.process.running.remove(index);
        let process = &mut self.process;
        let mutant = process.mutant;
        if over.is_ok() {
            process.contests.end(&key);
        }
        let ended = attempt.outcome(over.as_ref().map(|end| *end));
        let (outcome, owed) = mutant.remembers(ended, over.as_ref().err());
        process.memory.end(&current, outcome, owed, self.clock);
        if mutant != Mutant::KeepsIntents {
            process.settle(&key);
        }
        let failure = match over {
            Ok(_) => {
                let needed = !gone && current.volume.is_empty();
                if !needed && process.memory.owes(&key.uid) {
                    process.ready.insert(key);
                }
                return;
            }
            Err(failure) => failure,
        };
        if let Some(cure) = failure.cure(current.class_name()) {
            process.memory.wait_for(cure, &key);
        }
        let cached = { process.claims.get(&key.name) }.filter(|claim| claim.uid == key.uid);
        if cached.is_none()
            && process.memory.doubtful_claim(&key).is_none()
            && mutant != Mutant::RemembersClaims
        {
            process.memory.gone(&key);
        }
        if mutant == Mutant::Spins && attempt.effect(&failure) == Effect::Reschedule {
            process.ready.insert(key);
        } else if !mutant.forgets_retries() {
            process.later.insert(key);
        }
    }
}
