//! How a process ends: killed anywhere, or asked to stop.
//!
//! Separate, because it also says which volumes may be lost without a journal.

use super::freeze::Late;
use super::process::{Deleting, Running};
use super::run::{Faults, World};
use super::source::Freeing;
use super::{claim, volume};
use crate::plan::claim::Step;
use crate::plan::journal::Request;

impl World {
    pub(super) fn end_process(&mut self) {
        let stops = match self.case.faults {
            Faults::Stops => true,
            Faults::Kills | Faults::None => false,
            Faults::All => self.dice.one_in(2),
        };
        match stops && !self.process.fenced {
            true => self.stop(),
            false => self.cut_off(),
        }
        self.asked.clear();
        self.process = self.successor();
        // One that was frozen while it took over has taken over once more.
        if self.settling {
            self.settle_driver();
        }
    }

    /// Everything that is under way is cut off.
    pub(super) fn cut_off(&mut self) {
        let unknown = self.unknown();
        for running in std::mem::take(&mut self.process.running) {
            match running.state {
                claim::State::Sent(step) => self.outlive(step),
                claim::State::Writing(step, version) => {
                    if self.version_to_edit(&step) == Some(version) {
                        self.outlive(step);
                    }
                }
                claim::State::Taking if self.dice.one_in(2) => {
                    let own = self.process.node.as_ref().map(|(own, _)| own.name.clone());
                    let Running { key, current, .. } = &running;
                    let force = self.mutant.takes_everything();
                    let own = own.unwrap_or_default();
                    self.server.select(&key.name, &current.uid, &own, force);
                }
                claim::State::Calling(_, id) => self.driver.abandon(id),
                claim::State::Deciding
                | claim::State::Taking
                | claim::State::Intending(..)
                | claim::State::Answered(..) => {}
            }
        }
        if let Some((Request::Write(write), _)) = self.process.asking.take() {
            match self.dice.below(3) {
                0 => drop(self.write_journal(&write)),
                1 => self.late.push(Late::Journal(write)),
                _ => {}
            }
        }
        self.leave_volumes();
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

    /// The same of what is done about volumes and sources: what was sent is applied now or never.
    pub(super) fn leave_volumes(&mut self) {
        for Deleting { name, state, .. } in std::mem::take(&mut self.process.deleting) {
            match state {
                volume::State::Sent(step) if self.dice.one_in(2) => {
                    self.apply_volume(&name, &step);
                }
                volume::State::Calling(_, id) => self.driver.abandon(id),
                volume::State::Deciding | volume::State::Sent(_) | volume::State::Answered(..) => {}
            }
        }
        for Freeing { name, edit, read } in std::mem::take(&mut self.process.freeing) {
            let now = { self.server.claims.get(&name) }.map(|(version, _)| *version);
            if (read.is_none() || read == now) && self.dice.one_in(2) {
                self.free(&edit);
            }
        }
    }

    /// The process is asked to stop: what runs may end for a while, then what is settled leaves the
    /// journal.
    fn stop(&mut self) {
        self.process.ready.clear();
        self.process.ready_volumes.clear();
        self.process.ready_sources.clear();
        for _ in 0..self.dice.below(8) {
            let attempts = self.process.running.len();
            if attempts > 0 {
                let index = self.dice.below(attempts);
                self.advance_claim(index);
            }
        }
        self.cut_off();
        if self.journals() && self.process.is_open() {
            self.flush_journal();
        }
    }

    /// Volumes that may be made, and of which only this process knows if there is no journal.
    fn unknown(&self) -> Vec<String> {
        let process = &self.process;
        let running = process
            .running
            .iter()
            .filter_map(|running| match &running.state {
                claim::State::Calling(Step::Create(prepared, _), _)
                | claim::State::Answered(Step::Create(prepared, _), ..) => Some(prepared),
                claim::State::Deciding
                | claim::State::Sent(_)
                | claim::State::Writing(..)
                | claim::State::Intending(..)
                | claim::State::Calling(..)
                | claim::State::Answered(..)
                | claim::State::Taking => running.attempt.prepared(),
            });
        let doubts = { process.memory.doubts() }.flat_map(|(_, doubt)| doubt.requests());
        running
            .chain(doubts)
            .map(|prepared| prepared.name.clone())
            .collect()
    }

    /// This volume may be lost, and asked for anew in another way.
    pub(super) fn excuse(&mut self, name: String) {
        self.forget(&name);
        self.excused.insert(name);
    }

    /// This volume may be asked for anew in another way.
    fn forget(&mut self, name: &str) {
        self.driver.forget(name);
        if let Some(other) = &mut self.other {
            other.driver.forget(name);
        }
    }
}
