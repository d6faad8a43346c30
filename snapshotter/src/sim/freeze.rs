//! A leader that stands still until another one leads, and then goes on.
//!
//! Its lease has expired: its connections to driver and API server send nothing any more, however far it
//! gets. What it sent before may arrive at any time: meanwhile, later or never.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a model that meets anything else has failed"
)]

use sidecar::controller::CallError;
use tonic::Code;

use super::mutant::Mutant;
use super::process::State;
use super::step::{answered, failed, rpc};
use super::world::World;
use crate::plan::outcome::Refusal;
use crate::plan::request::Request;
use crate::testing::refused;

/// Most steps of a former leader; since it can send nothing, it gets no further.
const STEPS: usize = 30;

impl World {
    /// Freezes the process and starts a successor, or lets the frozen one go on.
    pub(super) fn freeze_or_thaw(&mut self) {
        if self.frozen.is_some() {
            self.thaw()
        } else {
            self.freeze()
        }
    }

    fn freeze(&mut self) {
        self.send();
        for index in 0..self.process.attempts.running.len() {
            self.overtake(index);
        }
        self.frozen = Some(Box::new(self.take_over()));
        self.fill();
    }

    /// Answers arrive while the process stands still, or its deadline passes. Its requests arrive before its
    /// successor lists, later or never.
    fn overtake(&mut self, index: usize) {
        let name = self.process.attempts.running[index].key.clone();
        let state = self.process.attempts.leave(index);
        let in_time = self.dice.one_in(2);
        let state = match state {
            State::Calling(Request::Call(call), id) if in_time => self.call(&name, call, id),
            State::Calling(Request::Call(call), id) => {
                self.driver.abandon(id);
                State::Answered(failed(call, late()), None)
            }
            State::Sent(Request::Call(call)) => State::Answered(failed(call, late()), None),
            State::Sent(Request::Write(write)) if in_time => {
                let result = self.write(&write);
                answered(Request::Write(write), result)
            }
            State::Sent(request) => answered(request, Err(refused(Refusal::Unknown))),
            state => state,
        };
        self.process.attempts.enter(index, state);
    }

    /// The process goes on until it notices that its lease has expired.
    pub(super) fn thaw(&mut self) {
        let Some(mut frozen) = self.frozen.take() else {
            return;
        };
        std::mem::swap(&mut self.process, &mut frozen);
        self.thawed = true;
        for _ in 0..self.dice.below(STEPS) {
            self.work();
        }
        self.stop();
        self.thawed = false;
        self.process = *frozen;
    }

    /// Whether the connections of a process without lease hold this request back.
    pub(super) fn is_fenced(&self, request: &Request) -> bool {
        let holds = match request {
            Request::Call(_) => self.mutant != Mutant::AsksWithoutLease,
            Request::Get(_) | Request::Write(_) | Request::Secret(_) => true,
            Request::Event(_) => false,
        };
        self.thawed && holds
    }
}

fn late() -> CallError {
    CallError::Failed(rpc(Code::DeadlineExceeded))
}
