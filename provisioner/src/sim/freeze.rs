//! Processes that freeze until another one leads, and go on; requests of dead ones that are applied late.

use std::time::Duration;

use sidecar::controller::{CallError, Calls as _};
use tonic::Code;

use super::process::{Process, State, Waiting};
use super::run::{Faults, World, refused, rpc};
use super::step::{not_done, released};
use crate::plan::in_flight::Unsaved;
use crate::plan::journal;
use crate::plan::reactor::{Key, Step};
use crate::plan::request::{Purpose, Reply, Request, Write};

/// Longer than a lease.
const FROZEN: Duration = Duration::from_secs(20);

/// A request that outlives its process.
pub(super) enum Late {
    Journal(journal::Write),
    Save(Unsaved),
}

impl World {
    /// Whether another process can lead while this one is frozen.
    pub(super) fn may_freeze(&self) -> bool {
        let can = matches!(self.case.faults, Faults::All | Faults::Kills);
        can && self.journals() && self.other.is_none() && self.frozen.is_none()
    }

    /// The process freezes anywhere, and another one leads.
    pub(super) fn freeze(&mut self) {
        // Of the frozen process's attempts, only those on claims go on.
        for running in std::mem::take(&mut self.process.attempts.running) {
            if matches!(running.key, Key::Claim(_)) {
                self.process.attempts.running.push(running)
            } else {
                self.leave(running)
            }
        }
        for index in 0..self.process.attempts.running.len() {
            match self.process.attempts.leave(index) {
                State::Calling(Step::Ask(Request::Call(call)), id) => {
                    if self.dice.one_in(2) {
                        self.end_call(index, call, id);
                    } else {
                        self.driver.abandon(id);
                        let expired = CallError::Failed(rpc(Code::DeadlineExceeded));
                        self.reply(index, Reply::Call(call.failed(expired), Duration::ZERO));
                    }
                }
                // The server has applied it, or never will.
                State::Sent(step) if released(&step).is_some() => {
                    let state = State::Answered(not_done(step, refused()), None);
                    self.process.attempts.enter(index, state);
                }
                state @ (State::Deciding
                | State::Sent(_)
                | State::Waiting(..)
                | State::Calling(..)
                | State::Answered(..)
                | State::Fenced) => self.process.attempts.enter(index, state),
            }
        }
        self.asked.clear();
        let successor = self.successor();
        let frozen = std::mem::replace(&mut self.process, successor);
        self.frozen = Some(Box::new(frozen));
        self.clock += FROZEN;
    }

    /// A process of the same site that has just started.
    pub(super) fn successor(&mut self) -> Process {
        self.uids += 1;
        let site = self.process.site;
        let number = (self.strict, self.uids);
        Process::start(&self.server, self.case, self.mutant, site, number)
    }

    /// The frozen process goes on for a moment, until it notices.
    pub(super) fn thaw(&mut self) {
        let Some(mut frozen) = self.frozen.take() else {
            return;
        };
        std::mem::swap(&mut self.process, &mut frozen);
        self.thawed = true;
        for _ in 0..self.dice.below(16) {
            let attempts = self.process.attempts.running.len();
            if self.process.fenced {
                break;
            }
            if attempts == 0 || self.dice.one_in(3) {
                self.advance_journal()
            } else {
                let index = self.dice.below(attempts);
                let key = self.process.attempts.running[index].key.clone();
                self.advance(index);
                self.send_nothing(index, &key);
            }
        }
        self.thawed = false;
        if self.process.fenced {
            self.lose();
        }
        self.cut_off();
        std::mem::swap(&mut self.process, &mut frozen);
    }

    /// The lease is too old for a request that the process had not sent before: see findings FS-9. The process does not
    /// write what it has read.
    fn send_nothing(&mut self, index: usize, key: &Key) {
        let running = self.process.attempts.running.get_mut(index);
        let Some(running) = running.filter(|running| running.key == *key) else {
            return;
        };
        running.state = match std::mem::replace(&mut running.state, State::Deciding) {
            State::Sent(step) | State::Waiting(step, Waiting::Update(_)) => {
                State::Answered(not_done(step, refused()), None)
            }
            state @ (State::Deciding
            | State::Waiting(..)
            | State::Calling(..)
            | State::Answered(..)
            | State::Fenced) => state,
        };
    }

    /// A request of a dead process reaches the API server.
    pub(super) fn apply_late(&mut self) {
        if self.late.is_empty() {
            return;
        }
        let index = self.dice.below(self.late.len());
        match self.late.remove(index) {
            Late::Journal(write) => drop(self.write_journal(&write)),
            Late::Save(unsaved) => drop(self.server.create_volume(&unsaved.object)),
        }
    }

    /// A request that is under way when its process ends is applied now, later, or never.
    pub(super) fn outlive(&mut self, step: Step) {
        match (self.dice.below(3), step) {
            (0, step) => drop(self.apply(step)),
            (
                1,
                Step::Ask(Request::Write(Write {
                    purpose: Purpose::Save(unsaved),
                    ..
                })),
            ) if self.journals() => self.late.push(Late::Save(unsaved)),
            _ => {}
        }
    }
}
