//! Attempts advance: requests reach the server, calls reach the driver, answers come back, and every change
//! is held against the invariants.

use std::sync::Arc;

use sidecar::csi::Migrated;
use sidecar_testkit::sim::fate::Fate;
use sidecar_testkit::sim::watch::key as key_of;
use tonic::Code;

use super::mutant::Mutant;
use super::process::{Running, State, Waiting, Written};
use super::run::{Faults, World, lost, refused, rpc};
use super::scene::zone;
use super::server::refusal;
use crate::plan::claim as claims;
use crate::plan::edit::{Edit, Kind};
use crate::plan::outcome::{ApiError, Refusal};
use crate::plan::reactor::{Answer, Attempt, Reply, Step};
use crate::plan::request::{self, ContentSource, PinnedRequest, Purpose, Request};

impl World {
    /// Something in the process advances.
    pub(super) fn work(&mut self) {
        if self.process.fenced {
            return self.end_process();
        }
        let waits = self.journals() && !self.process.is_open();
        // While it cannot be opened, the rest goes on.
        let idles = waits && self.mutant == Mutant::WaitsForJournal;
        if self.journals() && (idles || self.dice.one_in(if waits { 2 } else { 4 })) {
            match self.process.filling.is_empty() || self.dice.one_in(2) {
                true => return self.advance_journal(),
                false => return self.fill_caches(),
            }
        }
        if !self.process.may_work() {
            return self.fill_caches();
        }
        let attempts = self.process.attempts.running.len();
        let choice = self.dice.below(attempts + 2);
        match choice < attempts {
            true => self.advance(choice),
            false => self.begin(),
        }
    }

    /// A queued key gets a worker.
    fn begin(&mut self) {
        if let Some(key) = self.process.attempts.choose(&mut self.dice, usize::MAX) {
            self.process.begin(&key, self.clock);
        }
    }

    pub(super) fn advance(&mut self, index: usize) {
        match self.process.attempts.leave(index) {
            State::Deciding => {
                if let Some(step) = self.process.decide(index, self.clock) {
                    self.take_step(index, step);
                }
            }
            State::Sent(step) if self.version_to_edit(&step).is_some() => {
                let version = self.version_to_edit(&step).unwrap_or_default();
                if let (true, Some(edit)) = (
                    self.faulty() && self.dice.one_in(4) && !matches!(step, Step::Release(_)),
                    edit_of(&step),
                ) {
                    let name = format!("{}/{}", edit.namespace, edit.name);
                    self.touch_claim(&name);
                }
                self.process
                    .attempts
                    .enter(index, State::Waiting(step, Waiting::Update(version)));
            }
            State::Waiting(step, Waiting::Update(version))
                if { self.version_to_edit(&step) }.is_none_or(|now| now != version) =>
            {
                let error = refusal(match self.version_to_edit(&step) {
                    Some(_) => Refusal::Conflict,
                    None => Refusal::NotFound,
                });
                let reply = self.mutant.hears_refusal(step, error);
                self.process
                    .attempts
                    .enter(index, State::Answered(reply, None));
            }
            State::Sent(step) | State::Waiting(step, Waiting::Update(_)) => self.send(index, step),
            State::Waiting(step, Waiting::Journal(ticket)) => {
                self.await_journal(index, step, ticket)
            }
            State::Calling(step, id) => self.end_call(index, step, id),
            State::Answered(reply, written) => {
                self.absorb(&reply, written);
                self.process.answer(index, reply);
            }
            State::Fenced => unreachable!("answered without being sent"),
        }
    }

    /// GET and PUT of a claim are two requests, and others write in between. Without faults they are
    /// taken for one: an attempt that ends with a conflict may cost a call more.
    pub(super) fn version_to_edit(&self, step: &Step) -> Option<u64> {
        let edit = edit_of(step)?;
        let name = format!("{}/{}", edit.namespace, edit.name);
        let claim = self.server.claims.get(&*name);
        let claim = claim.filter(|_| self.case.faults != Faults::None);
        claim.map(|(version, _)| *version)
    }

    fn send(&mut self, index: usize, step: Step) {
        if let Some(snapshot) = released(&step) {
            let name = snapshot.name.clone();
            self.check_freed(&name);
        }
        // What is known of attachments is older than the answer to this one.
        if self.faulty() && is_upkeep(&step) && self.dice.one_in(4) {
            self.attach_and_leave();
        }
        let taken = matches!(step, Step::Take(..));
        let (reply, written) = match self.fate() {
            Fate::Applied => self.apply(step),
            Fate::Unheard => {
                let (reply, _) = self.apply(step);
                (unheard(reply), None)
            }
            Fate::Lost | Fate::Late => {
                if let Step::Release(edit) = &step
                    && self.dice.one_in(2)
                {
                    self.removals.push(edit.clone());
                }
                (not_done(step, lost()), None)
            }
            Fate::Refused => (not_done(step, refused()), None),
        };
        self.process
            .attempts
            .enter(index, State::Answered(reply, written));
        if taken && self.faulty() && self.dice.one_in(4) {
            self.race();
        }
    }

    /// The server applies what `step` asks for, or answers it.
    pub(super) fn apply(&mut self, step: Step) -> (Reply, Option<Written>) {
        let (answer, written) = match step {
            Step::Volume(request) => {
                let (reply, written) = self.apply_volume(request);
                return (Reply::Volume(reply), written);
            }
            Step::Claim { ref step, .. } => {
                let (answer, written) = self.apply_claim(step);
                (Answer::Claim(answer), written)
            }
            Step::Take(ref claim, ref node) => {
                let force = self.mutant.takes_everything();
                let (key, uid) = (claim.key(), &claim.uid);
                let (selection, written) = self.server.select(&key, uid, node, force);
                (Answer::Taken(Ok(selection)), written.map(Written::Claim))
            }
            Step::Release(ref edit) => {
                let (result, written) = self.free(edit);
                (Answer::Released(result), written.map(Written::Claim))
            }
            Step::AskForRoom(_) => unreachable!("no request"),
        };
        (Reply::Other(step, answer), written)
    }

    fn take_step(&mut self, index: usize, step: Step) {
        match step {
            Step::Volume(request) => self.ask_for_volume(index, request),
            Step::Claim { .. } => self.take_claim_step(index, step),
            Step::AskForRoom(_) => {
                let own = self.process.node.as_ref().map(|own| zone(&own.name));
                let full = own.is_some_and(|own| self.driver.full.contains(&own));
                let room = Answer::Room(Ok(if full { 0 } else { 1 << 40 }));
                self.answer(index, step, room);
            }
            Step::Take(ref claim, _) => {
                let key = key_of(&claim.key());
                self.process.informers.claims.slots.begin_write(&key);
                self.process.attempts.enter(index, State::Sent(step));
            }
            Step::Release(ref edit) => {
                let key = key_of(&format!("{}/{}", edit.namespace, edit.name));
                self.process.informers.claims.slots.begin_write(&key);
                self.process.attempts.enter(index, State::Sent(step));
            }
        }
    }

    fn take_claim_step(&mut self, index: usize, step: Step) {
        let Step::Claim {
            step: asked,
            claim,
            intent,
        } = &step
        else {
            return;
        };
        match asked {
            claims::Step::Announce(_) | claims::Step::Done(_) | claims::Step::Fail(_) => {
                self.answer(index, step, Answer::Claim(claims::Answer::Done));
            }
            claims::Step::Unselect(edit, _)
            | claims::Step::ProtectSource(edit)
            | claims::Step::ReleaseSource(edit) => {
                if edit.kind == Kind::Claim {
                    let key = key_of(&format!("{}/{}", edit.namespace, edit.name));
                    self.process.informers.claims.slots.begin_write(&key);
                }
                self.process.attempts.enter(index, State::Sent(step));
            }
            claims::Step::Save(unsaved) => {
                let slots = &mut self.process.informers.volumes.slots;
                slots.begin_write(&key_of(&unsaved.name));
                self.process.attempts.enter(index, State::Sent(step));
            }
            claims::Step::Create(_, request) => {
                let early = self.mutant == Mutant::CallsEarly;
                let leads = self.leads();
                if !early && !{ &self.process.attempts.reactor }.may_call(claim, self.clock, leads)
                {
                    let answer = claims::Answer::Unreachable(rpc(Code::Unavailable));
                    return self.answer(index, step, Answer::Claim(answer));
                }
                let (request, claim) = (request.clone(), Arc::clone(claim));
                self.begin_create_call(index, step, &claim, &request);
            }
            claims::Step::Intend(prepared) => {
                let copies = matches!(prepared.source, Some(ContentSource::Volume(_)));
                let intent = intent.clone();
                self.intend(index, step, intent);
                // Whether the source is still needed is looked at while the call is about to be made.
                if copies && self.faulty() && self.dice.one_in(4) {
                    self.give_up_source();
                }
            }
            claims::Step::Discard(_, Migrated(true)) if self.mutant == Mutant::LeavesUnsayable => {
                self.answer(index, step, Answer::Claim(claims::Answer::Done));
            }
            claims::Step::Discard(request, _) => {
                let leads = self.leads();
                if !{ &self.process.attempts.reactor }.may_call(claim, self.clock, leads) {
                    let answer = claims::Answer::Unreachable(rpc(Code::Unavailable));
                    return self.answer(index, step, Answer::Claim(answer));
                }
                let id = request.volume_id.clone();
                self.discard(index, step, &id);
            }
            claims::Step::LoadNamesake(name, _) => {
                let slots = &mut self.process.informers.volumes.slots;
                slots.begin_write(&key_of(name));
                self.process.attempts.enter(index, State::Sent(step));
            }
            claims::Step::LoadSnapshot(..)
            | claims::Step::LoadContent(_)
            | claims::Step::LoadSourceClaim(..)
            | claims::Step::LoadSourceVolume(_)
            | claims::Step::LoadOwner(..)
            | claims::Step::LoadSecret(_) => self.process.attempts.enter(index, State::Sent(step)),
            claims::Step::LoadAttributesClass(_) => unreachable!("no attributes class"),
        }
    }

    /// The answer is on its way.
    pub(super) fn answer(&mut self, index: usize, step: Step, answer: Answer) {
        self.process
            .attempts
            .enter(index, State::Answered(Reply::Other(step, answer), None));
    }

    /// The driver answers, or the deadline expires.
    pub(super) fn end_call(&mut self, index: usize, step: Step, id: u64) {
        match step {
            Step::Volume(Request::Call(call)) => self.end_delete_call(index, call, id),
            step => self.end_create_call(index, step, id),
        }
    }
}

/// The claim that the step reads and writes.
pub(super) fn edit_of(step: &Step) -> Option<&Edit> {
    let edit = match step {
        Step::Claim {
            step: claims::Step::Unselect(edit, _) | claims::Step::ProtectSource(edit),
            ..
        }
        | Step::Release(edit) => edit,
        Step::Claim { .. } | Step::AskForRoom(_) | Step::Take(..) | Step::Volume(_) => {
            return None;
        }
    };
    (edit.kind == Kind::Claim).then_some(edit)
}

/// Whether the step adds or removes the finalizer of a volume that stays.
fn is_upkeep(step: &Step) -> bool {
    matches!(step, Step::Volume(Request::Write(write)) if write.purpose == Purpose::Upkeep)
}

/// The snapshot that the step frees.
pub(super) fn released(step: &Step) -> Option<&Edit> {
    match step {
        Step::Claim {
            step: claims::Step::ReleaseSource(edit),
            ..
        } => Some(edit),
        Step::Claim { .. }
        | Step::AskForRoom(_)
        | Step::Take(..)
        | Step::Volume(_)
        | Step::Release(_) => None,
    }
}

/// The request failed.
pub(super) fn not_done(step: Step, error: ApiError) -> Reply {
    let answer = match step {
        Step::Volume(request) => return Reply::Volume(request.refused(error)),
        Step::Claim { .. } => Answer::Claim(claims::Answer::Refused(error)),
        Step::AskForRoom(_) => Answer::Room(Err(rpc(Code::Unavailable))),
        Step::Take(..) => Answer::Taken(Err(error)),
        Step::Release(_) => Answer::Released(Err(error)),
    };
    Reply::Other(step, answer)
}

/// The reply is lost on its way.
fn unheard(reply: Reply) -> Reply {
    match reply {
        Reply::Volume(request::Reply::Write(write, _)) => {
            not_done(Step::Volume(Request::Write(write)), lost())
        }
        Reply::Other(step, _) => not_done(step, lost()),
        reply @ Reply::Volume(_) => reply,
    }
}

/// What the driver was or is to be asked for the claim.
pub(super) fn prepared(running: &Running) -> Option<&Arc<PinnedRequest>> {
    match (&running.state, &running.attempt) {
        (
            State::Calling(
                Step::Claim {
                    step: claims::Step::Create(prepared, _),
                    ..
                },
                _,
            )
            | State::Answered(
                Reply::Other(
                    Step::Claim {
                        step: claims::Step::Create(prepared, _),
                        ..
                    },
                    _,
                ),
                ..,
            ),
            _,
        ) => Some(prepared),
        (_, Attempt::Claim(run)) => run.attempt()?.prepared(),
        (_, _) => None,
    }
}
