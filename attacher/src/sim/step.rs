//! Attempts advance: requests reach the server, calls reach the driver, replies come back, and
//! every change is checked against the invariants.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a model that meets anything else has failed"
)]

use serde_json::Value;
use sidecar::controller::request::Body;
use sidecar_testkit::sim::fate::Fate;
use sidecar_testkit::sim::watch::Versioned;

use super::call::{answered, rpc};
use super::driver::{Kind, key};
use super::process::{State, Written};
use super::run::{Faults, World, target};
use super::server::not_found;
use crate::model::{Attachment, Text, Volume};
use crate::plan::in_flight::Key;
use crate::plan::outcome::{ApiError, Refusal};
use crate::plan::request::{Call, Object, Reply, Request, Write};
use crate::testing::F;

impl World {
    pub(super) fn faulty(&self) -> bool {
        self.has_faults() && !self.settling
    }

    /// Advances something in the process.
    pub(super) fn work(&mut self) {
        let attempts = self.process.attempts.running.len();
        let choice = self.dice.below(attempts + 2);
        if choice < attempts {
            self.advance(choice);
        } else {
            self.begin();
        }
    }

    /// Begins an attempt on a queued key.
    fn begin(&mut self) {
        if !self.process.synced {
            return self.deliver();
        }
        if let Some(key) = self.process.attempts.choose(&mut self.dice, 6) {
            self.process.begin(&key);
        }
    }

    fn fate(&mut self) -> Fate {
        if self.faulty() {
            Fate::draw(&mut self.dice, 5, &Fate::FAULTS)
        } else {
            Fate::Applied
        }
    }

    fn advance(&mut self, index: usize) {
        match self.process.attempts.leave(index) {
            State::Deciding => {
                if let Some(request) = self.process.decide(index) {
                    self.send(index, request);
                }
            }
            State::Sent(request) => {
                let (reply, written) = self.reach_server(request);
                let state = State::Answered(reply, written);
                self.process.attempts.enter(index, state);
            }
            State::Calling(Request::Call(call), id) => self.call(index, call, id),
            State::Answered(reply, written) => {
                let reply = self.process.absorb(reply, written);
                self.process.answer(index, reply);
            }
            State::Calling(..) | State::Fenced => unreachable!("it calls, and its lease goes on"),
        }
    }

    fn send(&mut self, index: usize, request: Request) {
        let state = match request {
            Request::Call(call) => self.take_off(index, call),
            request => {
                self.process.announce(&request);
                State::Sent(request)
            }
        };
        self.process.attempts.enter(index, state);
    }

    fn take_off(&mut self, index: usize, call: Call) -> State {
        let target = call.target();
        let others = self.process.attempts.running.iter().enumerate();
        let calling: Vec<u64> = others
            .filter_map(|(other, running)| match &running.state {
                State::Calling(_, id) if other != index => Some(*id),
                State::Deciding
                | State::Sent(_)
                | State::Waiting(..)
                | State::Calling(..)
                | State::Answered(..)
                | State::Fenced => None,
            })
            .collect();
        let mut held = self.driver.running.iter();
        if held.any(|call| calling.contains(&call.id) && call.target == target) {
            self.complain(format!("two calls at once for {target:?}"));
        }
        let whom = match &self.process.attempts.running[index].key {
            Key::Attachment(name) => {
                let known = self.process.informers.attachments.get(name);
                let uid = known.map(|known| known.uid.clone()).unwrap_or_default();
                format!("{name} {uid}")
            }
            key @ (Key::Orphan(_) | Key::Volume(_)) => format!("{key:?}"),
        };
        self.asks(whom);
        let kind = match &call {
            Call::Publish(_) => Kind::Publish,
            Call::Unpublish(_) => Kind::Unpublish,
        };
        match self.driver.begin(&target, kind) {
            Ok(id) => State::Calling(Request::Call(call), id),
            Err(code) => State::Answered(answered(call, Err(rpc(code))), None),
        }
    }

    /// Sends a request to the API server, which may not arrive.
    fn reach_server(&mut self, request: Request) -> (Reply, Option<Written>) {
        let result = match self.fate() {
            Fate::Applied => self.apply(&request),
            Fate::Unheard => {
                drop(self.apply(&request));
                Err(lost())
            }
            Fate::Late => {
                if let Request::Write(write) = &request {
                    self.late.push(write.clone());
                }
                Err(lost())
            }
            Fate::Lost => Err(lost()),
            Fate::Refused => Err(refused()),
        };
        match (request, result) {
            (Request::Get(object), Ok(found)) => (Reply::Get(object, Ok(None)), Some(found)),
            (Request::Write(write), Ok(written)) => (Reply::Write(write, Ok(None)), Some(written)),
            (request, Err(error)) => (request.refused(error), None),
            (_, Ok(_)) => unreachable!("no request that the model has"),
        }
    }

    /// Applies a request on the server.
    fn apply(&mut self, request: &Request) -> Result<Written, ApiError> {
        match request {
            Request::Get(Object::Attachment(name)) => {
                let held = self.server.attachments.get(name).cloned();
                held.map(Written::Attachment).ok_or_else(not_found)
            }
            Request::Get(Object::Volume(name)) => {
                let held = self.server.volumes.get(name).cloned();
                held.map(Written::Volume).ok_or_else(not_found)
            }
            Request::Write(write) => self.write(write),
            Request::Secret(_) | Request::Call(_) | Request::Event(_) => {
                unreachable!("no request that the model has")
            }
        }
    }

    pub(super) fn write(&mut self, write: &Write) -> Result<Written, ApiError> {
        let Body::Patch(_, patch) = &write.body else {
            unreachable!("it only patches")
        };
        match &write.object {
            Object::Attachment(name) => {
                let patched = self.patch_attachment(name, write.uid.as_ref(), patch.body());
                patched.map(Written::Attachment)
            }
            Object::Volume(name) => self.patch_volume(name, patch.body()).map(Written::Volume),
        }
    }

    fn patch_attachment(
        &mut self,
        name: &Text,
        uid: Option<&Text>,
        patch: &Value,
    ) -> Result<Versioned<Attachment>, ApiError> {
        let before = self
            .server
            .attachments
            .get(name)
            .map(|(_, object)| object.clone());
        let result = self.server.patch_attachment(name, uid, patch);
        if let (Some(before), Ok((_, after))) = (before, &result)
            && self.faults != Faults::Aliases
        {
            let target = target(&before);
            let released = before.has_finalizer(F) && !after.has_finalizer(F);
            if released && self.driver.may_hold(&target) {
                self.complain(format!(
                    "finalizer removed while {target:?} may be attached"
                ));
            }
            // A late report about an attachment that is being deleted is harmless: it disappears
            // anyway.
            let late = self.arriving && before.deleting;
            let reported = !before.attached && after.attached && !late;
            if reported && self.driver.last.get(&key(&target)) != Some(&Kind::Publish) {
                self.complain(format!("{target:?} reported attached without publish"));
            }
        }
        result
    }

    fn patch_volume(&mut self, name: &Text, patch: &Value) -> Result<Versioned<Volume>, ApiError> {
        let held = |volume: Option<&Versioned<Volume>>| {
            volume.is_some_and(|(_, volume)| volume.has_finalizer(F))
        };
        let before = held(self.server.volumes.get(name));
        let result = self.server.patch_volume(name, patch);
        if before && !held(self.server.volumes.get(name)) {
            let handle = format!("h-{name}");
            let mut attached = self.driver.attached.iter();
            let attached = attached.any(|(volume, _)| *volume == handle);
            let calls = self.driver.running.iter();
            let calling =
                { calls }.any(|call| *call.target.volume == *handle && call.kind == Kind::Publish);
            let stripped = self.stripped.iter().any(|(volume, _)| *volume == handle);
            if (attached || calling) && !stripped {
                self.complain(format!(
                    "volume finalizer removed while {name} may be attached"
                ));
            }
        }
        result
    }
}

pub(super) fn refused() -> ApiError {
    ApiError {
        message: "simulated".into(),
        refusal: Refusal::Other,
    }
}

fn lost() -> ApiError {
    ApiError {
        refusal: Refusal::Unknown,
        ..refused()
    }
}
