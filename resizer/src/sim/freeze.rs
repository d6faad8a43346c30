//! A leader that is stopped for so long that another one leads, and then goes on for a moment.
//!
//! It sends no call any more: its lease is over, and the connection to the driver sends nothing from
//! then on. What it asks of the API server is not held back.

use tonic::Code;

use super::mutant::Mutant;
use super::process::{Object, State};
use super::run::World;
use super::server::{Event, error};
use super::step::rpc;
use crate::plan::outcome::Refusal;
use crate::plan::step::{Answer, Step};

/// Fewer steps than this an ended leader takes before it notices.
const MOMENT: usize = 4;

impl World {
    /// The process stops anywhere and another one leads, or the one that was stopped goes on.
    pub(super) fn freeze_or_thaw(&mut self) {
        match self.frozen.is_some() {
            true => self.thaw(),
            false => self.freeze(),
        }
    }

    fn freeze(&mut self) {
        for index in 0..self.process.running.len() {
            self.overtake(index);
        }
        self.frozen = Some(Box::new(self.take_over()));
        self.fill();
    }

    /// Answers of the driver come while the process stands still, or its deadline passes. A patch of
    /// a volume arrives before the successor lists, or never.
    fn overtake(&mut self, index: usize) {
        let running = &mut self.process.running[index];
        let claim = running.task.claim.clone();
        let state = std::mem::replace(&mut running.state, State::Deciding);
        let in_time = self.dice.one_in(2);
        let state = match state {
            State::Calling(step, id) if in_time => return self.call(index, step, id),
            State::Calling(step, id) => {
                self.driver.abandon(id);
                State::Answered(step, Answer::Failed(rpc(Code::DeadlineExceeded)), None)
            }
            State::Sent(step @ Step::PatchVolume(..)) => {
                let result = in_time.then(|| self.apply(&claim, &step));
                let (answer, object): (_, Option<Object>) = match result {
                    Some(Ok(object)) => (Answer::Done, Some(object)),
                    Some(Err(error)) => (Answer::Refused(error), None),
                    None => (Answer::Refused(error(Refusal::Unknown)), None),
                };
                State::Answered(step, answer, object)
            }
            state @ (State::Deciding | State::Sent(_) | State::Answered(..)) => state,
        };
        self.process.running[index].state = state;
    }

    /// The process goes on until it notices that its lease is over.
    pub(super) fn thaw(&mut self) {
        let Some(mut frozen) = self.frozen.take() else {
            return;
        };
        std::mem::swap(&mut self.process, &mut frozen);
        self.thawed = true;
        let before = self.server.log.len();
        for _ in 0..self.dice.below(MOMENT) {
            let attempts = self.process.running.len();
            if attempts == 0 {
                break;
            }
            let index = self.dice.below(attempts);
            self.advance(index);
        }
        self.stop();
        let written = self.server.log.iter().skip(before);
        let written: Vec<_> = written.map(|(_, event)| event.clone()).collect();
        for event in written {
            if let Event::Claim(_, Some(claim)) = event {
                self.overwritten_by_another(&claim);
            }
        }
        self.thawed = false;
        self.process = *frozen;
    }

    /// Whether a process that goes on after its lease does not come to send this.
    pub(super) fn is_fenced(&self, step: &Step) -> bool {
        let calls = matches!(step, Step::Expand(..) | Step::Modify(..));
        let fenced = calls && self.process.mutant != Mutant::AsksWithoutLease;
        self.thawed && (fenced || matches!(step, Step::PatchVolume(..)))
    }
}
