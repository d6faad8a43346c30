//! Attempts advance: requests reach the server, calls reach the driver, answers come back.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a model that meets anything else has failed"
)]

use std::time::Duration;

use sidecar::controller::request::SecretError;
use sidecar::controller::{CallError, Calls as _};
use sidecar_testkit::sim::fate::Fate;
use sidecar_testkit::sim::storage::{Wish, plain};
use tonic::Code;

use super::process::{Running, State};
use super::world::World;
use crate::model::{Content, Text};
use crate::plan::outcome::{ApiError, Refusal, RpcError};
use crate::plan::request::{Call, Called, Purpose, Reply, Request, Write};
use crate::testing::{Versioned, refused};

impl World {
    pub(super) fn faulty(&self) -> bool {
        self.has_all_faults() && !self.settling
    }

    /// Advances something in the process.
    pub(super) fn work(&mut self) {
        let attempts = self.process.attempts.running.len();
        let choice = self.dice.below(attempts + 2);
        if choice < attempts {
            return self.advance(choice);
        }
        let process = &mut self.process;
        if !process.is_open() {
            return;
        }
        if let Some(name) = process.attempts.choose(&mut self.dice, 3) {
            // It may have been woken meanwhile, even by news that the last attempt had seen.
            if !process.begin(&name) {
                self.truth(&name).impossible = None;
            }
        }
    }

    fn fate(&mut self) -> Fate {
        let rare = if self.stormy { 3 } else { 6 };
        if self.faulty() {
            Fate::draw(&mut self.dice, rare, &Fate::FAULTS)
        } else {
            Fate::Applied
        }
    }

    pub(super) fn advance(&mut self, index: usize) {
        let name = self.process.attempts.running[index].key.clone();
        let state = match self.process.attempts.leave(index) {
            State::Deciding => return self.decide(index),
            State::Sent(Request::Call(call)) => State::Answered(self.look_up(call), None),
            State::Sent(request) => self.arrive(request),
            State::Calling(Request::Call(call), id) => self.call(&name, call, id),
            State::Answered(reply, object) => {
                if matches!(reply, Reply::Get(..) | Reply::Write(..)) {
                    self.process.absorb(&name, object);
                    // The answer shows the changes of others.
                    self.begin_anew();
                }
                if !self.thawed && shows(&reply) {
                    self.truth(&name).found = true;
                }
                let untold = &mut self.process.attempts.running[index].note.untold;
                match &reply {
                    Reply::Call(Called::Create(_, Ok(_)), _) => *untold = true,
                    Reply::Write(write, Ok(())) if matches!(write.purpose, Purpose::Status(_)) => {
                        *untold = false;
                    }
                    _ => {}
                }
                return self.process.answer(index, reply);
            }
            state => state,
        };
        self.process.attempts.enter(index, state);
    }

    fn decide(&mut self, index: usize) {
        let Running { key, note, .. } = &self.process.attempts.running[index];
        let (name, untold) = (key.clone(), note.untold);
        let Some(request) = self.process.decide(index) else {
            if untold && self.is_unwanted(&name) {
                self.truth(&name).unwanted += 1;
            }
            return;
        };
        if self.is_fenced(&request) {
            self.process.attempts.enter(index, State::Fenced);
            return;
        }
        self.count_effort(&name);
        let state = match request {
            Request::Event(event) => {
                self.check_event(&name, &event.announcement);
                State::Answered(Reply::Event(event), None)
            }
            Request::Get(_) | Request::Write(_) => {
                self.process.announce(&name);
                State::Sent(request)
            }
            Request::Secret(_) => State::Sent(request),
            Request::Call(call) if self.driver.away => {
                let away = CallError::Unreachable(rpc(Code::Unavailable));
                State::Answered(failed(call, away), None)
            }
            Request::Call(call) => self.ask(&name, call),
        };
        self.process.attempts.enter(index, state);
    }

    fn ask(&mut self, name: &Text, call: Call) -> State {
        let wish = match &call {
            Call::List(_) | Call::Get(_) | Call::GetGroup(_) => {
                self.check_list(name, &call);
                return State::Sent(Request::Call(call));
            }
            Call::Create(call) => {
                self.check_create(name, (&call.name, &call.secrets));
                Wish::Create(call.name.clone())
            }
            Call::Delete(call) => {
                self.check_delete(name, (&call.snapshot_id, &call.secrets));
                Wish::Delete(plain(&call.snapshot_id).into())
            }
            Call::CreateGroup(call) => {
                self.check_create(name, (&call.name, &call.secrets));
                Wish::Create(call.name.clone())
            }
            Call::DeleteGroup(call) => {
                let group = &call.group_snapshot_id;
                self.check_delete(name, (group, &call.secrets));
                self.check_members(group, &call.snapshot_ids);
                Wish::Delete(plain(group).into())
            }
        };
        match self.driver.begin(wish) {
            Ok(id) => State::Calling(Request::Call(call), id),
            Err(code) => {
                if code == Code::InvalidArgument {
                    self.truth(name).impossible = Some(self.process.attempts.now.instant);
                }
                State::Answered(failed(call, CallError::Failed(rpc(code))), None)
            }
        }
    }

    /// A request arrives at the API server.
    fn arrive(&mut self, request: Request) -> State {
        let fate = self.fate();
        if let (Request::Secret(secret), Fate::Applied) = (&request, fate) {
            let values = match self.server.secrets.get(secret) {
                Some(Some(values)) => Ok(values.clone()),
                Some(None) => Err(SecretError::NotText),
                None => Err(SecretError::Unread(refused(Refusal::NotFound))),
            };
            return State::Answered(Reply::Secret(secret.clone(), values), None);
        }
        let result = match fate {
            Fate::Applied => self.apply(&request),
            Fate::Unheard => {
                if matches!(request, Request::Write(_)) {
                    drop(self.apply(&request));
                }
                Err(refused(Refusal::Unknown))
            }
            Fate::Lost => Err(refused(Refusal::Unknown)),
            Fate::Late => {
                if let Request::Write(write) = &request {
                    self.late.push(write.clone());
                }
                Err(refused(Refusal::Unknown))
            }
            Fate::Refused => Err(refused(Refusal::Other)),
        };
        answered(request, result)
    }

    /// A request for the driver's list arrives.
    fn look_up(&mut self, call: Call) -> Reply {
        let result = match self.fate() {
            Fate::Applied => Ok(()),
            Fate::Unheard | Fate::Lost => Err(Code::DeadlineExceeded),
            Fate::Late | Fate::Refused => Err(Code::Internal),
        };
        let called = match call {
            Call::List(call) => {
                let page = result.map(|()| self.list(&call.snapshot_id, &call.starting_token));
                Called::List(call, page.map_err(code))
            }
            Call::GetGroup(call) => {
                let group = result.and_then(|()| self.get_group(&call.group_snapshot_id));
                Called::GetGroup(call, group.map_err(code))
            }
            _ => unreachable!("the driver lists"),
        };
        Reply::Call(called, Duration::ZERO)
    }

    /// Ends the driver's call, with one result or another.
    pub(super) fn call(&mut self, name: &Text, call: Call, id: u64) -> State {
        let rare = if self.stormy { 2 } else { 4 };
        if self.faulty() && self.dice.one_in(rare) {
            let failure = self.fail(id);
            return State::Answered(failed(call, code(failure)), None);
        }
        let taken = self.taken();
        self.driver.end(id, true, taken);
        let called = match call {
            Call::Create(call) => {
                let result = self.created(name, &call.name);
                Called::Create(call, result.map_err(code))
            }
            Call::CreateGroup(call) => {
                let result = self.group_created(name, &call.name);
                Called::CreateGroup(call, result.map_err(code))
            }
            Call::Delete(call) => Called::Delete(call, Ok(Default::default())),
            Call::DeleteGroup(call) => Called::DeleteGroup(call, Ok(Default::default())),
            _ => unreachable!("nothing goes on"),
        };
        State::Answered(Reply::Call(called, Duration::ZERO), None)
    }

    fn fail(&mut self, id: u64) -> Code {
        let taken = self.taken();
        match self.dice.below(5) {
            0 => {
                self.driver.abandon(id);
                Code::DeadlineExceeded
            }
            1 => {
                self.driver.end(id, true, taken);
                Code::Unavailable
            }
            2 => {
                self.driver.end(id, false, taken);
                Code::ResourceExhausted
            }
            _ => {
                let call = self.driver.end(id, false, taken);
                // A driver that has the snapshot does not deny it.
                if call.found.is_some() {
                    Code::Aborted
                } else {
                    [Code::Internal, Code::NotFound][self.dice.below(2)]
                }
            }
        }
    }

    /// The server executes a request.
    pub(super) fn apply(&mut self, request: &Request) -> Result<Versioned<Content>, ApiError> {
        match request {
            Request::Get(name) => {
                let found = self.server.contents.get(name).cloned();
                found.ok_or(refused(Refusal::NotFound))
            }
            Request::Write(write) => self.write(write),
            _ => unreachable!("no request about a content"),
        }
    }

    pub(super) fn write(&mut self, write: &Write) -> Result<Versioned<Content>, ApiError> {
        let name = &write.object;
        let status = matches!(write.purpose, Purpose::Status(_));
        let before = self.server.contents.get(name).cloned();
        let (version, after) = self.server.patch(name, (status, write.body.patch()))?;
        if let Some((_, before)) = before {
            self.check_patch(name, (&before, &after), write);
        }
        self.check_gone(name, &after);
        self.check_storage();
        Ok((version, after))
    }
}

/// The state of an attempt after a request to the API server.
pub(super) fn answered(request: Request, result: Result<Versioned<Content>, ApiError>) -> State {
    match (request, result) {
        (Request::Get(name), Ok(object)) => State::Answered(Reply::Get(name, Ok(())), Some(object)),
        (Request::Write(write), Ok(object)) => {
            State::Answered(Reply::Write(write, Ok(())), Some(object))
        }
        (request, Err(error)) => State::Answered(request.refused(error), None),
        (_, Ok(_)) => unreachable!("no request about a content"),
    }
}

/// The reply to a failed call.
pub(super) fn failed(call: Call, error: CallError) -> Reply {
    Reply::Call(call.failed(error), Duration::ZERO)
}

/// Whether a reply shows a snapshot that was looked up.
fn shows(reply: &Reply) -> bool {
    match reply {
        Reply::Call(Called::GetGroup(_, result), _) => result.is_ok(),
        Reply::Call(Called::List(call, Ok(page)), _) => {
            let snapshots = page.entries.iter().filter_map(|one| one.snapshot.as_ref());
            let mut ids = snapshots.map(|one| plain(&one.snapshot_id));
            ids.any(|id| id == plain(&call.snapshot_id))
        }
        _ => false,
    }
}

fn code(code: Code) -> CallError {
    CallError::Failed(rpc(code))
}

pub(super) fn rpc(code: Code) -> RpcError {
    let message = "simulated".into();
    RpcError { code, message }
}
