//! The end of a process: killed anywhere, or asked to stop.
//!
//! Also determines which volumes may be lost without a journal.

use super::freeze::Late;
use super::process::{Running, State, Waiting};
use super::run::{Faults, World};
use super::step::prepared;
use crate::plan::journal::Request;

impl World {
    pub(super) fn end_process(&mut self) {
        let stops = match self.case.faults {
            Faults::Stops => true,
            Faults::Kills | Faults::None => false,
            Faults::All => self.dice.one_in(2),
        };
        if stops && !self.process.fenced {
            self.stop()
        } else {
            self.cut_off()
        }
        self.asked.clear();
        self.outwait();
        self.process = self.successor();
        // A process that was frozen while it took over has taken over once more.
        if self.settling {
            self.settle_driver();
        }
    }

    /// Cuts off everything that is under way.
    pub(super) fn cut_off(&mut self) {
        let unknown = self.unknown();
        for running in std::mem::take(&mut self.process.attempts.running) {
            self.leave(running);
        }
        if let Some((Request::Write(write), _)) = self.process.asking.take() {
            match self.dice.below(3) {
                0 => drop(self.write_journal(&write)),
                1 => self.late.push(Late::Journal(write)),
                _ => {}
            }
        }
        if self.journals() {
            return;
        }
        for name in unknown {
            // A successor's caches may be older than the PersistentVolume.
            self.forget(&name);
            if !self.server.volumes.contains_key(&*name) {
                self.excused.insert(name);
            }
        }
    }

    /// Ends an attempt with its process: a request that was sent is applied, or never.
    pub(super) fn leave(&mut self, running: Running) {
        match running.state {
            State::Sent(step) => self.outlive(step),
            State::Waiting(step, Waiting::Update(version)) => {
                if self.version_to_edit(&step) == Some(version) {
                    self.outlive(step);
                }
            }
            State::Calling(_, id) => self.driver.abandon(id),
            State::Deciding | State::Waiting(..) | State::Answered(..) | State::Fenced => {}
        }
    }

    /// The process is asked to stop: running attempts may end for a while, then settled entries leave the journal.
    fn stop(&mut self) {
        self.process.attempts.ready.clear();
        for _ in 0..self.dice.below(8) {
            let attempts = self.process.attempts.running.len();
            if attempts > 0 {
                let index = self.dice.below(attempts);
                self.advance(index);
            }
        }
        self.cut_off();
        if self.journals() && self.process.is_open() {
            self.flush_journal();
        }
    }

    /// Volumes that may be made, and that only this process knows of if there is no journal.
    fn unknown(&self) -> Vec<String> {
        let process = &self.process;
        let running = process.attempts.running.iter().filter_map(prepared);
        let pending_creates = process
            .in_flight()
            .pending_creates()
            .flat_map(|(_, pending)| pending.requests());
        running
            .chain(pending_creates)
            .map(|prepared| prepared.name.clone())
            .collect()
    }

    /// This volume may be lost, and requested anew in another way.
    pub(super) fn excuse(&mut self, name: String) {
        self.forget(&name);
        self.excused.insert(name);
    }

    /// This volume may be requested anew in another way.
    fn forget(&mut self, name: &str) {
        self.driver.forget(name);
        if let Some(other) = &mut self.other {
            other.driver.forget(name);
        }
    }
}
