//! Calls reach the driver and are answered, or not.

use tonic::Code;

use super::driver::{Call, Kind};
use super::process::State;
use super::run::{Faults, VOLUMES, World, target};
use crate::model::Attachment;
use crate::plan::attachment::Answer;
use crate::plan::outcome::RpcError;
use crate::plan::reactor::Step;
use crate::testing::F;

impl World {
    /// The driver answers, or the deadline expires.
    pub(super) fn call(&mut self, index: usize, step: Step, id: u64) {
        let answer = self.answer(id);
        let state = State::Answered(step, answer.into(), None);
        self.process.attempts.enter(index, state);
    }

    fn answer(&mut self, id: u64) -> Answer {
        if self.faults == Faults::Lasts && self.driver.refuses(id, &format!("h-{}", VOLUMES[0])) {
            self.end_call(id, false);
            return Answer::Failed(rpc(Code::Internal));
        }
        if self.faulty() && self.dice.one_in(4) {
            match self.dice.below(3) {
                0 => {
                    self.driver.abandon(id);
                    Answer::Failed(rpc(Code::DeadlineExceeded))
                }
                1 => {
                    self.end_call(id, true);
                    Answer::Failed(rpc(Code::Unavailable))
                }
                _ => {
                    // A driver says that something does not exist only if it does not hold it.
                    let ended = self.end_call(id, false);
                    let held = ended.is_some_and(|call| self.driver.may_hold(&call.target));
                    let codes = if held && self.faults == Faults::Strips {
                        [Code::Internal, Code::Unknown]
                    } else {
                        [Code::Internal, Code::NotFound]
                    };
                    Answer::Failed(rpc(codes[self.dice.below(2)]))
                }
            }
        } else {
            match self.end_call(id, true).map(|call| call.kind) {
                Some(Kind::Publish) => Answer::Published(Default::default()),
                Some(Kind::Unpublish) => Answer::Unpublished,
                None => unreachable!("calls end once"),
            }
        }
    }

    /// A call ends, with effect or without.
    pub(super) fn end_call(&mut self, id: u64, effect: bool) -> Option<Call> {
        let call = self.driver.end(id, effect)?;
        let live = |object: &Attachment| {
            let held = object.attached && object.has_finalizer(F);
            held && !object.deleting && target(object) == call.target
        };
        let mut objects = self.server.attachments.values();
        if effect
            && call.kind == Kind::Unpublish
            && self.faults != Faults::Aliases
            && objects.any(|(_, object)| live(object))
        {
            self.complain(format!("{:?} is detached under an attachment", call.target));
        }
        Some(call)
    }
}

pub(super) fn rpc(code: Code) -> RpcError {
    let message = "simulated".into();
    RpcError { code, message }
}
