//! A leader that is stopped for so long that another one leads, and then goes on.
//!
//! Its lease is over, and the connections to driver and API server send nothing from then on, however
//! far it comes. What it had sent before may arrive at any time: meanwhile, later or never.

use tonic::Code;

use super::mutant::Mutant;
use super::process::State;
use super::step::rpc;
use super::world::World;
use crate::plan::outcome::Refusal;
use crate::plan::step::{Answer, Step};
use crate::testing::refused;

/// Fewer steps than this an ended leader takes; with nothing that it sends it comes no further.
const STEPS: usize = 30;

impl World {
    /// The process stops anywhere and another one leads, or the one that was stopped goes on.
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

    /// Answers come while the process stands still, or its deadline passes. What it has sent arrives
    /// before its successor lists, later or never.
    fn overtake(&mut self, index: usize) {
        let name = self.process.attempts.running[index].key.clone();
        let state = self.process.attempts.leave(index);
        let in_time = self.dice.one_in(2);
        let state = match state {
            State::Calling(request, id) if in_time => self.call(&name, request, id),
            State::Calling(request, id) => {
                self.driver.abandon(id);
                let late = Answer::Failed(rpc(Code::DeadlineExceeded));
                State::Answered(request, late, None)
            }
            State::Sent(request) if matches!(request.step, Step::List(_) | Step::GetGroup(_)) => {
                let late = Answer::Failed(rpc(Code::DeadlineExceeded));
                State::Answered(request, late, None)
            }
            State::Sent(request) => {
                let patch = matches!(request.step, Step::Patch(..) | Step::PatchStatus(..));
                if patch && in_time {
                    match self.apply(&name, &request.step) {
                        Ok(object) => State::Answered(request, Answer::Done, Some(object)),
                        Err(error) => State::Answered(request, Answer::Refused(error), None),
                    }
                } else {
                    let unknown = Answer::Refused(refused(Refusal::Unknown));
                    State::Answered(request, unknown, None)
                }
            }
            state @ (State::Deciding | State::Answered(..) | State::Fenced) => state,
        };
        self.process.attempts.enter(index, state);
    }

    /// The process goes on until it notices that its lease is over.
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

    /// Whether a process that goes on after its lease does not come to send this.
    pub(super) fn is_fenced(&self, step: &Step) -> bool {
        let holds = match step {
            Step::Create(_)
            | Step::Delete(_)
            | Step::List(_)
            | Step::Get(_)
            | Step::CreateGroup(_)
            | Step::GetGroup(_)
            | Step::DeleteGroup(_) => self.mutant != Mutant::AsksWithoutLease,
            Step::Read | Step::Patch(..) | Step::PatchStatus(..) | Step::LoadSecret(..) => true,
            Step::Announce(_) => false,
        };
        self.thawed && holds
    }
}
