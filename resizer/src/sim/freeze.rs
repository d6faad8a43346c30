//! A leader that is stopped for so long that another one leads, and then goes on.
//!
//! Its lease is over, and the connections to driver and API server send nothing from then on, however
//! far it comes. What it had sent before may arrive at any time: meanwhile, later or never.

use tonic::Code;

use super::attempt::{Object, State};
use super::mutant::Mutant;
use super::run::World;
use super::server::error;
use super::step::{is_patch, rpc};
use crate::model::Text;
use crate::plan::outcome::Refusal;
use crate::plan::step::{Answer, Step};

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
        let claim = self.process.attempts.running[index].key.claim.clone();
        let state = self.process.attempts.leave(index);
        let in_time = self.dice.one_in(2);
        let state = match state {
            State::Calling(request, id) if in_time => self.call(index, request, id),
            State::Calling(request, id) => {
                self.driver.abandon(id);
                State::Answered(request, Answer::Failed(rpc(Code::DeadlineExceeded)), None)
            }
            State::Sent(request) if is_patch(&request.step) => {
                let step = &request.step;
                let result = in_time.then(|| self.apply(&claim, step));
                let (answer, object): (_, Option<Object>) = match result {
                    Some(Ok(object)) => (Answer::Done, Some(object)),
                    Some(Err(error)) => (Answer::Refused(error), None),
                    None => (Answer::Refused(error(Refusal::Unknown)), None),
                };
                if !in_time && self.dice.one_in(2) {
                    self.leave_behind(&claim, step);
                }
                State::Answered(request, answer, object)
            }
            State::Sent(request) => {
                State::Answered(request, Answer::Refused(error(Refusal::Unknown)), None)
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
        let sends = match step {
            Step::Expand(..) | Step::Modify(..) => self.process.mutant != Mutant::AsksWithoutLease,
            Step::PatchClaim(..)
            | Step::PatchVolume(..)
            | Step::ReadClaim
            | Step::ReadVolume(_)
            | Step::LoadSecret(_) => self.process.mutant != Mutant::WritesWithoutLease,
            Step::Announce(_) | Step::End(_) => false,
        };
        self.thawed && sends
    }

    /// Nobody waits for the answer to a patch any longer, which arrives at any later time.
    pub(super) fn leave_behind(&mut self, claim: &Text, step: &Step) {
        let step = if let Step::PatchClaim(write, patch) = step {
            Step::PatchClaim(*write, patch.clone())
        } else if let Step::PatchVolume(name, write, patch) = step {
            Step::PatchVolume(name.clone(), *write, patch.clone())
        } else {
            return;
        };
        self.late.push((claim.clone(), step));
    }
}
