//! Attempts advance: requests reach the server, calls reach the driver, answers come back, and
//! every change is held against the invariants.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a model that meets anything else has failed, and mutants differ in one point"
)]

use csi_proto::csi::ControllerExpandVolumeResponse;
use serde_json::Value;
use sidecar_testkit::sim::fate::Fate;
use sidecar_testkit::sim::watch::Versioned;
use tonic::Code;

use super::attempt::{Object, State, learnt};
use super::check::targets;
use super::driver::Wish;
use super::mutant::Mutant;
use super::run::{Faults, World};
use super::server::error;
use super::users::UNIT;
use crate::model::{ClaimDetail, ResizeStatus, Text, Volume};
use crate::plan::outcome::{ApiError, Refusal, RpcError};
use crate::plan::reactor::Request;
use crate::plan::step::{Answer, ClaimWrite, Step};

impl World {
    fn faulty(&self) -> bool {
        self.has_all_faults() && !self.settling
    }

    /// Something in the process advances.
    pub(super) fn work(&mut self) {
        let attempts = self.process.attempts.running.len();
        let choice = self.dice.below(attempts + 2);
        if choice < attempts {
            return self.advance(choice);
        }
        if let Some(task) = self.process.attempts.choose(&mut self.dice, 3) {
            self.process.begin(&task);
        }
    }

    fn fate(&mut self) -> Fate {
        if self.faulty() {
            Fate::draw(&mut self.dice, 6, &Fate::FAULTS)
        } else {
            Fate::Applied
        }
    }

    pub(super) fn advance(&mut self, index: usize) {
        let claim = self.process.attempts.running[index].key.claim.clone();
        let state = match self.process.attempts.leave(index) {
            State::Deciding => return self.decide(index),
            State::Sent(request) => self.arrive(&claim, request),
            State::Calling(request, id) => self.call(index, request, id),
            State::Answered(request, answer, object) => {
                if !matches!(
                    request.step,
                    Step::Expand(..) | Step::Modify(..) | Step::LoadSecret(_)
                ) {
                    self.process.absorb(&claim, &request.step, object);
                }
                return self.process.answer(index, request, answer);
            }
            State::Fenced => State::Fenced,
        };
        self.process.attempts.enter(index, state);
    }

    /// A request reaches the API server.
    fn arrive(&mut self, claim: &Text, request: Request) -> State {
        let fate = self.fate();
        if let Step::LoadSecret(reference) = &request.step {
            let answer = match fate {
                Fate::Applied => self.server.secret(&reference.name),
                Fate::Unheard | Fate::Lost | Fate::Late => Answer::Refused(error(Refusal::Unknown)),
                Fate::Refused => Answer::Refused(error(Refusal::Other)),
            };
            return State::Answered(request, answer, None);
        }
        let result = match fate {
            Fate::Applied => self.apply(claim, &request.step),
            Fate::Unheard => {
                drop(self.apply(claim, &request.step));
                Err(error(Refusal::Unknown))
            }
            Fate::Late => {
                self.leave_behind(claim, &request.step);
                Err(error(Refusal::Unknown))
            }
            Fate::Lost => Err(error(Refusal::Unknown)),
            Fate::Refused => Err(error(Refusal::Other)),
        };
        match result {
            Ok(object) => State::Answered(request, Answer::Done, Some(object)),
            Err(error) => State::Answered(request, Answer::Refused(error), None),
        }
    }

    fn decide(&mut self, index: usize) {
        let Some(request) = self.process.decide(index) else {
            return;
        };
        let step = &request.step;
        if self.is_fenced(step) {
            return self.process.attempts.enter(index, State::Fenced);
        }
        if let Step::PatchClaim(ClaimWrite::MarkModifying, patch) = step {
            self.check_own_class(patch);
        }
        let state = match step {
            Step::End(_) => unreachable!("the controller ends attempts"),
            Step::Announce(announcement) => {
                if !self.thawed {
                    self.check_told(index, announcement);
                }
                return self.process.answer(index, request, Answer::Done);
            }
            Step::LoadSecret(_) => {
                self.count_effort(index);
                State::Sent(request)
            }
            Step::ReadClaim
            | Step::ReadVolume(_)
            | Step::PatchClaim(..)
            | Step::PatchVolume(..) => {
                self.count_effort(index);
                self.process.announce(&request.task.claim, step);
                State::Sent(request)
            }
            Step::Expand(asked, _) => {
                self.check_secret(index, asked.secrets.is_empty());
                let bytes = asked.capacity_range.as_ref().unwrap().required_bytes;
                let handle = asked.volume_id.clone();
                self.ask(index, request, &handle, Wish::Size(bytes))
            }
            Step::Modify(target, asked) => {
                self.check_secret(index, asked.secrets.is_empty());
                let wish = Wish::Class(target.to_string());
                let handle = asked.volume_id.clone();
                self.ask(index, request, &handle, wish)
            }
        };
        self.process.attempts.enter(index, state);
    }

    fn ask(&mut self, index: usize, request: Request, handle: &str, wish: Wish) -> State {
        let calls = self.driver.running.iter();
        if { calls }.any(|call| call.handle == handle && call.awaited) {
            self.complain(format!("two calls at once for {handle}"));
        }
        if self.driver.away {
            let answer = Answer::Unreachable(rpc(Code::Unavailable));
            return State::Answered(request, answer, None);
        }
        self.count_effort(index);
        self.check_asked(index, &wish);
        let used = self.server.is_used(&request.task.claim);
        match self.driver.begin(handle, wish, used) {
            Ok(id) => State::Calling(request, id),
            Err(code) => {
                self.heard(index, &request.step, Some(code));
                State::Answered(request, Answer::Failed(rpc(code)), None)
            }
        }
    }

    /// The driver's answer has arrived; a final one ends all doubt.
    fn heard(&mut self, index: usize, step: &Step, code: Option<Code>) {
        use crate::plan::outcome::{Finality, classify};
        let running = &self.process.attempts.running[index];
        let kind = running.key.kind;
        if code.is_some_and(|code| classify(kind, code) == Finality::InDoubt) {
            return;
        }
        let uid = learnt(running).uid().clone();
        let now = self.process.attempts.now.instant;
        let impossible = code.is_some_and(|code| classify(kind, code) == Finality::Infeasible);
        let truth = self.truth(&uid);
        match step {
            Step::Expand(request, _) => {
                let bytes = request.capacity_range.as_ref().unwrap().required_bytes;
                truth.impossible = impossible.then_some((bytes, now));
                truth.size = None;
                // What was reached is recorded before anything else is asked for.
                truth.left_size = code.is_none();
            }
            _ => {
                let reached = truth.class.take();
                truth.left_class = reached.filter(|_| code.is_none());
            }
        }
    }

    /// The driver answers, or the deadline expires.
    pub(super) fn call(&mut self, index: usize, request: Request, id: u64) -> State {
        let call = self.driver.running.iter().find(|call| call.id == id);
        let call = call.unwrap().clone();
        let (answer, code) = if self.faulty() && self.dice.one_in(4) {
            self.fail(id, &call.handle, &call.wish)
        } else {
            (self.succeed(id), None)
        };
        self.heard(index, &request.step, code);
        State::Answered(request, answer, None)
    }

    fn succeed(&mut self, id: u64) -> Answer {
        let other = self.faulty() && self.dice.one_in(4);
        let more = if other {
            [UNIT, -UNIT][self.dice.below(2)]
        } else {
            0
        };
        let call = self.driver.end(id, true, more).unwrap();
        let Wish::Size(asked) = call.wish else {
            return Answer::Modified;
        };
        let as_asked = self.dice.one_in(2);
        let silent = self.faulty() && self.dice.one_in(6);
        let disk = self.driver.disks.get_mut(&call.handle).unwrap();
        let bytes = if as_asked && disk.size >= asked {
            asked
        } else {
            disk.size
        };
        let silent = silent && disk.size >= asked;
        disk.confirmed = disk.confirmed.max(if silent { asked } else { bytes });
        Answer::Expanded(ControllerExpandVolumeResponse {
            capacity_bytes: if silent { 0 } else { bytes },
            node_expansion_required: self.dice.one_in(2),
        })
    }

    fn fail(&mut self, id: u64, handle: &str, wish: &Wish) -> (Answer, Option<Code>) {
        // A driver that has done it before says so.
        let done = match wish {
            Wish::Size(bytes) => self.driver.disks[handle].size >= *bytes,
            Wish::Class(class) => self.driver.disks[handle].class == *class,
        };
        let code = match self.dice.below(4) {
            0 => {
                self.driver.abandon(id);
                Code::DeadlineExceeded
            }
            1 => {
                self.driver.end(id, true, 0);
                Code::Unavailable
            }
            _ if done => {
                self.driver.end(id, false, 0);
                Code::ResourceExhausted
            }
            _ => {
                self.driver.end(id, false, 0);
                [Code::Internal, Code::NotFound, Code::InvalidArgument][self.dice.below(3)]
            }
        };
        (Answer::Failed(rpc(code)), Some(code))
    }

    /// The server does what `step` asks for.
    pub(super) fn apply(&mut self, claim: &Text, step: &Step) -> Result<Object, ApiError> {
        let gone = || error(Refusal::NotFound);
        match step {
            Step::ReadClaim => {
                let found = self.server.claims.get(claim);
                found.cloned().map(claim_object).ok_or_else(gone)
            }
            Step::ReadVolume(name) => {
                let found = self.server.volumes.get(name);
                found.cloned().map(volume_object).ok_or_else(gone)
            }
            Step::PatchClaim(_, patch) => self.patch_claim(claim, patch).map(claim_object),
            Step::PatchVolume(name, _, patch) => self.patch_volume(name, patch).map(volume_object),
            _ => unreachable!("no request to the API server"),
        }
    }

    fn patch_claim(
        &mut self,
        name: &Text,
        patch: &Value,
    ) -> Result<Versioned<ClaimDetail>, ApiError> {
        let before = self.server.claims.get(name).map(|(_, claim)| claim.clone());
        let (version, after) = self.server.patch_claim(name, patch)?;
        let before = before.unwrap();
        let volume = self.server.volumes.get(&before.volume);
        let name = &self.process.informers.driver.name;
        if volume.is_some_and(|(_, volume)| !volume.is_served_by(name)) {
            self.complain(format!("a volume of another driver: {patch}"));
        }
        let same = ClaimDetail {
            version: after.version.clone(),
            ..before.clone()
        };
        if same == after && self.process.mutant != Mutant::LeavesInfeasible {
            self.complain(format!("a patch that changes nothing: {patch}"));
        }
        self.check_capacity(&after);
        let truth = self.truth(&after.uid);
        let size = truth.size;
        let doubt = truth.class.clone();
        let allocated = after.allocated.map(|size| size.value());
        if allocated < size {
            self.complain(format!(
                "{allocated:?} allocated while {size:?} is in doubt: {patch}"
            ));
        }
        if let Some(class) = doubt
            && !(after.is_changing() && targets(&after, &class))
        {
            self.complain(format!("{class} given up while it is in doubt: {patch}"));
        }
        let truth = self.truth(&after.uid);
        if after.modify.is_none() {
            truth.told.clear();
            truth.left_class = None;
        }
        truth.left_size &= after.resize == Some(ResizeStatus::ControllerInProgress);
        if before.current_class != after.current_class {
            self.check_class(&after, &after.current_class);
        }
        Ok((version, after))
    }

    fn patch_volume(&mut self, name: &Text, patch: &Value) -> Result<Versioned<Volume>, ApiError> {
        let before = self
            .server
            .volumes
            .get(name)
            .and_then(|(_, volume)| volume.capacity);
        let (version, after) = self.server.patch_volume(name, patch)?;
        if self.faults == Faults::NodeOnly {
            // What the node has not reached is nothing but a plan.
            let held = self.disk(name).map(|disk| disk.confirmed);
            if after.capacity.map(|size| size.value()) < held {
                self.complain(format!("volume lowered below {held:?}: {patch}"));
            }
            return Ok((version, after));
        }
        if after.capacity < before {
            self.complain(format!("volume lowered from {before:?}: {patch}"));
        }
        let confirmed = self.disk(name).map(|disk| disk.confirmed);
        if after.capacity.map(|size| size.value()) > confirmed {
            self.complain(format!("volume above the confirmed {confirmed:?}: {patch}"));
        }
        Ok((version, after))
    }
}

fn claim_object(found: Versioned<ClaimDetail>) -> Object {
    Object::Claim(Box::new(found))
}

fn volume_object(found: Versioned<Volume>) -> Object {
    Object::Volume(Box::new(found))
}

/// Whether a step changes an object.
pub(super) fn is_patch(step: &Step) -> bool {
    matches!(step, Step::PatchClaim(..) | Step::PatchVolume(..))
}

pub(super) fn rpc(code: Code) -> RpcError {
    let message = "simulated".into();
    RpcError { code, message }
}
