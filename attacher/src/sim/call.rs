//! Calls that reach the driver and get an answer or none.

use std::time::Duration;

use sidecar::controller::CallError;
use tonic::Code;

use super::driver;
use super::process::State;
use super::run::{Faults, VOLUMES, World, target};
use crate::model::Attachment;
use crate::plan::outcome::RpcError;
use crate::plan::request::{Call, Called, Reply};
use crate::testing::F;

impl World {
    /// The driver answers, or the deadline expires.
    pub(super) fn call(&mut self, index: usize, call: Call, id: u64) {
        let result = self.result(id).map_err(rpc);
        let state = State::Answered(answered(call, result), None);
        self.process.attempts.enter(index, state);
    }

    fn result(&mut self, id: u64) -> Result<(), Code> {
        if self.faults == Faults::Lasts && self.driver.refuses(id, &format!("h-{}", VOLUMES[0])) {
            self.end_call(id, false);
            return Err(Code::Internal);
        }
        if self.faulty() && self.dice.one_in(4) {
            return Err(match self.dice.below(3) {
                0 => {
                    self.driver.abandon(id);
                    Code::DeadlineExceeded
                }
                1 => {
                    self.end_call(id, true);
                    Code::Unavailable
                }
                _ => {
                    // A driver answers NotFound only for a volume and node that it does not hold.
                    let ended = self.end_call(id, false);
                    let held = ended.is_some_and(|call| self.driver.may_hold(&call.target));
                    let codes = if held && self.faults == Faults::Strips {
                        [Code::Internal, Code::Unknown]
                    } else {
                        [Code::Internal, Code::NotFound]
                    };
                    codes[self.dice.below(2)]
                }
            });
        }
        self.end_call(id, true).expect("calls end once");
        Ok(())
    }

    /// Ends a call, with or without effect.
    pub(super) fn end_call(&mut self, id: u64, effect: bool) -> Option<driver::Call> {
        let call = self.driver.end(id, effect)?;
        let live = |object: &Attachment| {
            let held = object.attached && object.has_finalizer(F);
            held && !object.deleting && target(object) == call.target
        };
        let mut objects = self.server.attachments.values();
        if effect
            && call.kind == driver::Kind::Unpublish
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

/// The reply to a call.
pub(super) fn answered(call: Call, result: Result<(), RpcError>) -> Reply {
    let result = result.map_err(CallError::Failed);
    let called = match call {
        Call::Publish(call) => Called::Publish(call, result.map(|()| Default::default())),
        Call::Unpublish(call) => Called::Unpublish(call, result.map(|()| Default::default())),
    };
    Reply::Call(called, Duration::ZERO)
}
