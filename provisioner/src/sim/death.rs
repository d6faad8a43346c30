//! How a process ends: killed anywhere, or asked to stop.
//!
//! Separate, because it also says which volumes the chosen protection allows to be lost.

use super::process::{Deleting, Process, Running};
use super::run::{Faults, World};
use super::source::Freeing;
use super::{claim, volume};
use crate::model::Text;
use crate::plan::doubt;
use crate::plan::edit::Edit;
use crate::plan::settings::Protection;

impl World {
    pub(super) fn end_process(&mut self) {
        let stops = match self.case.faults {
            Faults::Stops => true,
            Faults::Kills | Faults::None => false,
            Faults::All => self.dice.one_in(2),
        };
        match stops {
            true => self.stop(),
            false => self.kill(),
        }
        let (site, strict) = (self.process.site, self.strict);
        self.process = Process::start(&self.server, self.case, self.mutant, site, strict);
    }

    /// Everything that is under way is cut off: what was sent is applied now or never.
    fn cut_off(&mut self) {
        for running in std::mem::take(&mut self.process.running) {
            let applied = self.dice.one_in(2);
            match running.state {
                claim::State::Sent(step) if applied => {
                    self.apply_claim(&step);
                }
                claim::State::Taking if applied => {
                    let own = self.process.node.as_ref().map(|(own, _)| own.name.clone());
                    let Running { key, current, .. } = &running;
                    let force = self.mutant.takes_everything();
                    let own = own.unwrap_or_default();
                    self.server.select(&key.name, &current.uid, &own, force);
                }
                claim::State::Calling(_, id) => self.driver.abandon(id),
                claim::State::Deciding
                | claim::State::Taking
                | claim::State::Sent(_)
                | claim::State::Answered(..) => {}
            }
        }
        for Deleting { name, state, .. } in std::mem::take(&mut self.process.deleting) {
            match state {
                volume::State::Sent(step) if self.dice.one_in(2) => {
                    self.apply_volume(&name, &step);
                }
                volume::State::Calling(_, id) => self.driver.abandon(id),
                volume::State::Deciding | volume::State::Sent(_) | volume::State::Answered(..) => {}
            }
        }
        for Freeing { edit, .. } in std::mem::take(&mut self.process.freeing) {
            if self.dice.one_in(2) {
                self.free(&edit);
            }
        }
    }

    fn kill(&mut self) {
        self.cut_off();
        for (_, name) in self.unrecorded() {
            if self.case.protection != Protection::Always {
                self.excuse(name);
            }
        }
    }

    /// The process is asked to stop: what runs may end for a while, then what is in doubt is
    /// recorded.
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
        let doubts = self.unrecorded();
        let edits: Vec<(String, Edit)> = { self.process.memory.running() }
            .chain(
                { self.process.memory.doubts() }
                    .map(|(key, doubt)| (key, &doubt.claim, &doubt.prepared)),
            )
            .filter(|(key, ..)| doubts.iter().any(|(uid, _)| *uid == key.uid))
            .map(|(_, claim, prepared)| {
                let record = doubt::write(&self.process.driver.name, prepared);
                (prepared.name.clone(), Edit::guard(claim, record))
            })
            .collect();
        let settings = &self.process.settings;
        let records = settings.protection != Protection::Off && !self.mutant.drops_doubts();
        for (name, edit) in edits {
            // A claim that is gone or going takes no record.
            let refused = self.case.protection == Protection::Off || self.cannot_record(&edit);
            if records {
                self.server.edit_claim(&edit).ok();
            }
            if refused {
                self.excuse(name);
            }
        }
    }

    fn cannot_record(&self, edit: &Edit) -> bool {
        let name = format!("{}/{}", edit.namespace, edit.name);
        let claim = self.server.claims.get(&*name).map(|(_, claim)| claim);
        claim.is_none_or(|claim| claim.uid != edit.uid || claim.deleting)
    }

    /// Calls whose outcome only this process knows: UID of the claim, name of the volume.
    fn unrecorded(&self) -> Vec<(Text, String)> {
        let memory = &self.process.memory;
        let running = memory.running().map(|(key, _, prepared)| (key, prepared));
        let doubts = memory.doubts().map(|(key, doubt)| (key, &doubt.prepared));
        let known = |name: &str| self.server.volumes.contains_key(name);
        running
            .chain(doubts)
            .filter(|(key, prepared)| !self.server.is_recorded(&key.uid) && !known(&prepared.name))
            .map(|(key, prepared)| (key.uid.clone(), prepared.name.clone()))
            .collect()
    }

    /// This volume may be lost, and asked for anew in another way.
    pub(super) fn excuse(&mut self, name: String) {
        self.driver.open.remove(&name);
        if let Some(other) = &mut self.other {
            other.driver.open.remove(&name);
        }
        self.excused.insert(name);
    }
}
