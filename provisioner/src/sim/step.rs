//! Attempts advance: requests reach the server, calls reach the driver, replies come back, and every change is checked
//! against the invariants.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "most questions are about one kind of step"
)]

use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi::GetCapacityResponse;
use sidecar::controller::CallError;
use sidecar::controller::request::SecretError;
use sidecar_testkit::sim::fate::Fate;
use sidecar_testkit::sim::watch::key as key_of;
use tonic::Code;

use super::mutant::Mutant;
use super::process::{Running, State, Waiting, Written};
use super::run::{Faults, World, lost, refused, rpc};
use super::scene::zone;
use super::server::refusal;
use crate::model::Text;
use crate::plan::claim::{ClaimReply, ClaimStep};
use crate::plan::edit;
use crate::plan::outcome::{ApiError, Refusal};
use crate::plan::reactor::{Attempt, Reply, Step};
use crate::plan::request::{
    self, Call, Called, ContentSource, Object, PinnedRequest, Purpose, Request,
};

impl World {
    /// Something in the process advances.
    pub(super) fn work(&mut self) {
        if self.process.fenced {
            return self.end_process();
        }
        let waits = self.journals() && !self.process.is_open();
        // While the journal cannot be opened, other work goes on.
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
                if self.faulty()
                    && self.dice.one_in(4)
                    && let Some(name) = edited(&step)
                    && !is_release(&step)
                {
                    self.touch_claim(name);
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
            State::Waiting(
                Step::Claim(ClaimStep::Intend(prepared, intent)),
                Waiting::Journal(ticket),
            ) => self.await_journal(index, (prepared, intent), ticket),
            State::Calling(Step::Ask(Request::Call(call)), id) => self.end_call(index, call, id),
            State::Answered(reply, written) => {
                self.absorb(&reply, written);
                self.process.answer(index, reply);
            }
            State::Waiting(_, Waiting::Journal(_)) | State::Calling(..) | State::Fenced => {
                unreachable!("no intent, no call, or answered without being sent")
            }
        }
    }

    /// GET and PUT of a claim are two requests, and others write in between. Without faults they count as one: an
    /// attempt that ends with a conflict may cost another call.
    pub(super) fn version_to_edit(&self, step: &Step) -> Option<u64> {
        let claim = self.server.claims.get(edited(step)?);
        let claim = claim.filter(|_| self.case.faults != Faults::None);
        claim.map(|(version, _)| *version)
    }

    fn send(&mut self, index: usize, step: Step) {
        if let Some(name) = released(&step) {
            self.check_freed(&name);
        }
        // The known attachments are older than the reply to this write.
        if self.faulty() && is_upkeep(&step) && self.dice.one_in(4) {
            self.attach_and_leave();
        }
        let taken = purpose(&step).is_some_and(|purpose| matches!(purpose, Purpose::Take));
        let (reply, written) = match self.fate() {
            Fate::Applied => self.apply(step),
            Fate::Unheard => {
                let (reply, _) = self.apply(step);
                (unheard(reply), None)
            }
            Fate::Lost | Fate::Late => {
                if let Step::Ask(Request::Write(write)) = &step
                    && is_release(&step)
                    && self.dice.one_in(2)
                {
                    self.removals.push(write.clone());
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
        match step {
            Step::Ask(request) => {
                let (reply, written) = self.apply_request(request);
                (Reply::Ask(reply), written)
            }
            Step::Claim(step) => {
                let (reply, written) = self.apply_claim(step);
                (Reply::Claim(reply), written)
            }
        }
    }

    fn take_step(&mut self, index: usize, step: Step) {
        match step {
            Step::Ask(request) => self.ask(index, request),
            Step::Claim(step) => self.take_claim_step(index, step),
        }
    }

    fn ask(&mut self, index: usize, request: Request) {
        match request {
            Request::Call(Call::Create(call)) => {
                let early = self.mutant == Mutant::CallsEarly;
                if early || self.may_call(&call.about) {
                    return self.begin_create_call(index, call);
                }
                let refused = CallError::Unreachable(rpc(Code::Unavailable));
                let called = Called::Create(call, Err(refused));
                self.reply(index, request::Reply::Call(called, Duration::ZERO));
            }
            Request::Call(Call::Discard(call)) => {
                let result = self.discard(&call);
                let called = Called::Discard(call, result);
                self.reply(index, request::Reply::Call(called, Duration::ZERO));
            }
            Request::Call(Call::Delete(call)) => self.begin_delete_call(index, call),
            Request::Call(Call::GetCapacity(call)) => {
                let own = self.process.node.as_ref().map(|own| zone(&own.name));
                let full = own.is_some_and(|own| self.driver.full.contains(&own));
                let response = GetCapacityResponse {
                    available_capacity: if full { 0 } else { 1 << 40 },
                    ..GetCapacityResponse::default()
                };
                let called = Called::GetCapacity(call, Ok(response));
                self.reply(index, request::Reply::Call(called, Duration::ZERO));
            }
            // The mutant acts as if there were nothing to do.
            Request::Write(write)
                if self.mutant == Mutant::IgnoresFinalizerAction
                    && matches!(write.purpose, Purpose::Upkeep) =>
            {
                let error = refusal(Refusal::NotFound);
                self.reply(index, request::Reply::Write(write, Err(error)));
            }
            Request::Event(event) => self.reply(index, request::Reply::Event(event)),
            request => {
                if let Request::Write(write) = &request {
                    let informers = &mut self.process.informers;
                    match &write.object {
                        Object::Claim(key) => informers.claims.slots.begin_write(&key_of(key)),
                        Object::Volume(name) => informers.volumes.slots.begin_write(&key_of(name)),
                        _ => {}
                    }
                }
                let state = State::Sent(Step::Ask(request));
                self.process.attempts.enter(index, state);
            }
        }
    }

    /// Whether the journal allows the call.
    pub(super) fn may_call(&self, prepared: &PinnedRequest) -> bool {
        let uid = &prepared.pv_template.claim.uid;
        let leads = self.leads();
        { &self.process.attempts.reactor }.may_call(uid, self.clock, leads)
    }

    /// Sends the reply to attempt `index`.
    pub(super) fn reply(&mut self, index: usize, reply: request::Reply) {
        let state = State::Answered(Reply::Ask(reply), None);
        self.process.attempts.enter(index, state);
    }

    fn take_claim_step(&mut self, index: usize, step: ClaimStep) {
        match step {
            ClaimStep::Intend(prepared, intent) => {
                let copies = matches!(prepared.source, Some(ContentSource::Volume(_)));
                self.intend(index, prepared, intent);
                // The process checks whether the source is still needed while the call is about to be made.
                if copies && self.faulty() && self.dice.one_in(4) {
                    self.give_up_source();
                }
            }
            step => {
                if let ClaimStep::LoadExistingPv(name, _) = &step {
                    let slots = &mut self.process.informers.volumes.slots;
                    slots.begin_write(&key_of(name));
                }
                let state = State::Sent(Step::Claim(step));
                self.process.attempts.enter(index, state);
            }
        }
    }

    /// The driver answers, or the deadline expires.
    pub(super) fn end_call(&mut self, index: usize, call: Call, id: u64) {
        let called = match call {
            Call::Create(call) => {
                let result = self.end_create_call(&call.about, id);
                Called::Create(call, result.map_err(CallError::Failed))
            }
            Call::Delete(call) => {
                let result = self.end_delete_call(id);
                Called::Delete(call, result.map_err(CallError::Failed))
            }
            Call::Discard(_) | Call::GetCapacity(_) => unreachable!("it takes no time"),
        };
        self.reply(index, request::Reply::Call(called, Duration::ZERO));
    }
}

/// Purpose of the step's write.
fn purpose(step: &Step) -> Option<&Purpose> {
    match step {
        Step::Ask(Request::Write(write)) => Some(&write.purpose),
        _ => None,
    }
}

/// The claim whose update may meet a conflict.
pub(super) fn edited(step: &Step) -> Option<&Text> {
    match step {
        Step::Ask(Request::Write(write)) => match (&write.object, &write.purpose) {
            (_, Purpose::Take) => None,
            (Object::Claim(key), _) => Some(key),
            (_, _) => None,
        },
        _ => None,
    }
}

/// Whether the step releases a claim that was cloned.
fn is_release(step: &Step) -> bool {
    edited(step).is_some() && matches!(purpose(step), Some(Purpose::ReleaseSource))
}

/// Whether the step adds or removes the finalizer of a volume that is not deleted.
fn is_upkeep(step: &Step) -> bool {
    matches!(purpose(step), Some(Purpose::Upkeep))
}

/// Name of the snapshot that the step releases.
pub(super) fn released(step: &Step) -> Option<Text> {
    match step {
        Step::Ask(request) => edit::released_snapshot(request).map(|key| name_of(key).into()),
        Step::Claim(_) => None,
    }
}

/// The name in a key.
pub(super) fn name_of(key: &str) -> &str {
    key.split_once('/').map_or(key, |(_, name)| name)
}

/// The reply to a request that failed.
pub(super) fn not_done(step: Step, error: ApiError) -> Reply {
    match step {
        Step::Ask(request) => Reply::Ask(request.refused(error)),
        Step::Claim(step) => Reply::Claim(step.refused(error)),
    }
}

/// The reply as the process gets it when the real one is lost.
fn unheard(reply: Reply) -> Reply {
    match reply {
        Reply::Ask(reply) => Reply::Ask(match reply {
            request::Reply::Get(object, _) => request::Reply::Get(object, Err(lost())),
            request::Reply::Write(write, _) => request::Reply::Write(write, Err(lost())),
            request::Reply::Secret(secret, _) => {
                request::Reply::Secret(secret, Err(SecretError::Unread(lost())))
            }
            reply => reply,
        }),
        Reply::Claim(reply) => Reply::Claim(match reply {
            ClaimReply::ExistingPv(name, _) => ClaimReply::ExistingPv(name, Err(lost())),
            reply => reply,
        }),
    }
}

/// The pinned request of an attempt on a claim.
pub(super) fn prepared(running: &Running) -> Option<&Arc<PinnedRequest>> {
    match (&running.state, &running.attempt) {
        (
            State::Calling(Step::Ask(Request::Call(Call::Create(call))), _)
            | State::Answered(Reply::Ask(request::Reply::Call(Called::Create(call, _), _)), ..),
            _,
        ) => Some(&call.about),
        (_, Attempt::Claim(run)) => run.attempt()?.prepared(),
        (_, _) => None,
    }
}
