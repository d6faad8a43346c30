//! Attempts advance: requests reach the server, calls reach the driver, responses come back, and
//! every change is checked against the invariants.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a model that meets anything else has failed, and mutants differ in one point"
)]

use std::time::Duration;

use csi_proto::csi::{ControllerExpandVolumeRequest, ControllerExpandVolumeResponse};
use serde_json::Value;
use sidecar::controller::{CallError, Calls as _};
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
use crate::plan::request::{self, Call, Called, ClaimWrite, Purpose, Reply, Request, Write};

impl World {
    fn faulty(&self) -> bool {
        self.has_all_faults() && !self.settling
    }

    /// One part of the process advances.
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
        let state = match self.process.attempts.leave(index) {
            State::Deciding => return self.decide(index),
            State::Sent(request) => self.arrive(request),
            State::Calling(Request::Call(call), id) => self.call(index, call, id),
            State::Answered(reply, object) => {
                self.process.absorb(&reply, object);
                return self.process.answer(index, reply);
            }
            state => state,
        };
        self.process.attempts.enter(index, state);
    }

    /// A request reaches the API server.
    fn arrive(&mut self, request: Request) -> State {
        let fate = self.fate();
        if let (Request::Secret(reference), Fate::Applied) = (&request, fate) {
            let values = self.server.secret(&reference.name);
            return State::Answered(Reply::Secret(reference.clone(), values), None);
        }
        let result = match fate {
            Fate::Applied => self.apply(&request),
            Fate::Refused => Err(error(Refusal::Other)),
            Fate::Lost => Err(error(Refusal::Unknown)),
            Fate::Unheard | Fate::Late => {
                if let Request::Write(write) = &request {
                    match fate {
                        Fate::Unheard => drop(self.write(write)),
                        _ => self.late.push(write.clone()),
                    }
                }
                Err(error(Refusal::Unknown))
            }
        };
        answered(request, result)
    }

    fn decide(&mut self, index: usize) {
        let Some(request) = self.process.decide(index) else {
            return;
        };
        if self.is_fenced(&request) {
            return self.process.attempts.enter(index, State::Fenced);
        }
        let state = match request {
            Request::Event(event) => {
                if !self.thawed {
                    self.check_told(index, &event.announcement);
                }
                return self.process.answer(index, Reply::Event(event));
            }
            Request::Call(call) => {
                let none = match &call {
                    Call::Expand(call) => call.secrets.is_empty(),
                    Call::Modify(call) => call.secrets.is_empty(),
                };
                self.check_secret(index, none);
                self.ask(index, call)
            }
            request => {
                if let Request::Write(write) = &request
                    && write.purpose == Purpose::Claim(ClaimWrite::MarkModifying)
                {
                    self.check_own_class(write.body.patch());
                }
                self.count_effort(index);
                self.process.announce(&request);
                State::Sent(request)
            }
        };
        self.process.attempts.enter(index, state);
    }

    fn ask(&mut self, index: usize, call: Call) -> State {
        let handle = call.handle().to_owned();
        let mut calls = self.driver.running.iter();
        if calls.any(|call| call.handle == handle && call.awaited) {
            self.complain(format!("two calls at once for {handle}"));
        }
        if self.driver.away {
            let away = CallError::Unreachable(rpc(Code::Unavailable));
            return State::Answered(failed(call, away), None);
        }
        self.count_effort(index);
        let wish = match &call {
            Call::Expand(call) => Wish::Size(asked(call)),
            Call::Modify(call) => Wish::Class(call.about.to_string()),
        };
        self.check_asked(index, &wish);
        let used = self
            .server
            .is_used(&self.process.attempts.running[index].key.claim);
        match self.driver.begin(&handle, wish, used) {
            Ok(id) => State::Calling(Request::Call(call), id),
            Err(code) => {
                self.heard(index, &call, Some(code));
                State::Answered(failed(call, CallError::Failed(rpc(code))), None)
            }
        }
    }

    /// The driver's response has arrived; after a final one no outcome is unknown.
    fn heard(&mut self, index: usize, call: &Call, code: Option<Code>) {
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
        match call {
            Call::Expand(call) => {
                let bytes = asked(call);
                truth.impossible = impossible.then_some((bytes, now));
                truth.size = None;
                // A success still has to be recorded before anything else may be requested.
                truth.left_size = code.is_none();
            }
            Call::Modify(_) => {
                let reached = truth.class.take();
                truth.left_class = reached.filter(|_| code.is_none());
            }
        }
    }

    /// The driver responds, or the deadline expires.
    pub(super) fn call(&mut self, index: usize, call: Call, id: u64) -> State {
        let running = self.driver.running.iter().find(|call| call.id == id);
        let running = running.unwrap().clone();
        let result = if self.faulty() && self.dice.one_in(4) {
            Err(self.fail(id, &running.handle, &running.wish))
        } else {
            Ok(self.succeed(id))
        };
        self.heard(index, &call, result.as_ref().err().copied());
        let result = result.map_err(|code| CallError::Failed(rpc(code)));
        let called = match call {
            Call::Expand(call) => Called::Expand(call, result),
            Call::Modify(call) => Called::Modify(call, result.map(|_| Default::default())),
        };
        State::Answered(Reply::Call(called, Duration::ZERO), None)
    }

    fn succeed(&mut self, id: u64) -> ControllerExpandVolumeResponse {
        let other = self.faulty() && self.dice.one_in(4);
        let more = if other {
            [UNIT, -UNIT][self.dice.below(2)]
        } else {
            0
        };
        let call = self.driver.end(id, true, more).unwrap();
        let Wish::Size(asked) = call.wish else {
            return Default::default();
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
        ControllerExpandVolumeResponse {
            capacity_bytes: if silent { 0 } else { bytes },
            node_expansion_required: self.dice.one_in(2),
        }
    }

    fn fail(&mut self, id: u64, handle: &str, wish: &Wish) -> Code {
        // A driver that has done it before responds with success.
        let done = match wish {
            Wish::Size(bytes) => self.driver.disks[handle].size >= *bytes,
            Wish::Class(class) => self.driver.disks[handle].class == *class,
        };
        match self.dice.below(4) {
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
        }
    }

    /// The server carries out a request.
    fn apply(&mut self, request: &Request) -> Result<Object, ApiError> {
        let gone = || error(Refusal::NotFound);
        match request {
            Request::Get(request::Object::Claim(key)) => {
                let found = self.server.claims.get(key);
                found.cloned().map(claim_object).ok_or_else(gone)
            }
            Request::Get(request::Object::Volume(name)) => {
                let found = self.server.volumes.get(name);
                found.cloned().map(volume_object).ok_or_else(gone)
            }
            Request::Write(write) => self.write(write),
            _ => unreachable!("no request to the API server"),
        }
    }

    pub(super) fn write(&mut self, write: &Write) -> Result<Object, ApiError> {
        let patch = write.body.patch();
        match &write.object {
            request::Object::Claim(key) => self.patch_claim(key, patch).map(claim_object),
            request::Object::Volume(name) => self.patch_volume(name, patch).map(volume_object),
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
            // A capacity that the node has not reached is only a plan.
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

fn asked(request: &ControllerExpandVolumeRequest) -> i64 {
    request.capacity_range.as_ref().unwrap().required_bytes
}

/// The result of a request to the API server.
pub(super) fn answered(request: Request, result: Result<Object, ApiError>) -> State {
    match (request, result) {
        (Request::Get(of), Ok(object)) => State::Answered(Reply::Get(of, Ok(())), Some(object)),
        (Request::Write(write), Ok(object)) => {
            State::Answered(Reply::Write(write, Ok(())), Some(object))
        }
        (request, Err(error)) => State::Answered(request.refused(error), None),
        (_, Ok(_)) => unreachable!("no request about an object"),
    }
}

/// A failed call.
pub(super) fn failed(call: Call, error: CallError) -> Reply {
    Reply::Call(call.failed(error), Duration::ZERO)
}

pub(super) fn rpc(code: Code) -> RpcError {
    let message = "simulated".into();
    RpcError { code, message }
}
