//! A leader that freezes for so long that another one leads, and then goes on.
//!
//! Its lease has expired, so the connections to driver and API server send nothing more, whatever it
//! attempts. Whatever it has sent before may arrive at any time: meanwhile, later or never.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a model that meets anything else has failed"
)]

use sidecar::controller::CallError;
use tonic::Code;

use super::attempt::State;
use super::mutant::Mutant;
use super::run::World;
use super::server::error;
use super::step::{answered, failed, rpc};
use crate::plan::outcome::Refusal;
use crate::plan::request::Request;

/// Upper bound of the steps of a former leader; as it sends nothing, more steps lead nowhere.
const STEPS: usize = 30;

impl World {
    /// The process freezes at any point and another one leads, or the frozen one goes on.
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

    /// The response arrives while the process is frozen, or the deadline passes. What it has sent
    /// arrives before its successor lists, later or never.
    fn overtake(&mut self, index: usize) {
        let state = self.process.attempts.leave(index);
        let in_time = self.dice.one_in(2);
        let state = match state {
            State::Calling(Request::Call(call), id) if in_time => self.call(index, call, id),
            State::Calling(Request::Call(call), id) => {
                self.driver.abandon(id);
                let late = CallError::Failed(rpc(Code::DeadlineExceeded));
                State::Answered(failed(call, late), None)
            }
            State::Sent(Request::Write(write)) => {
                let result = if in_time {
                    self.write(&write)
                } else {
                    Err(error(Refusal::Unknown))
                };
                if !in_time && self.dice.one_in(2) {
                    self.late.push(write.clone());
                }
                answered(Request::Write(write), result)
            }
            State::Sent(request) => answered(request, Err(error(Refusal::Unknown))),
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

    /// Whether the fence stops this request of a process without a lease.
    pub(super) fn is_fenced(&self, request: &Request) -> bool {
        let sends = match request {
            Request::Call(_) => self.process.mutant != Mutant::AsksWithoutLease,
            Request::Get(_) | Request::Write(_) | Request::Secret(_) => {
                self.process.mutant != Mutant::WritesWithoutLease
            }
            Request::Event(_) => false,
        };
        self.thawed && sends
    }
}
