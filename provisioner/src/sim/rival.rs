//! A process without election whose journal another one has taken: it waits, and takes it back from a process that
//! writes no heartbeat, because it is dead or has nothing to do.

use std::time::Duration;

use super::run::World;
use crate::plan::journal::{HEARTBEAT, Rival};

/// Pause between two reads of the journal.
const LOOK: Duration = Duration::from_secs(5);
/// More reads than fit into a silence, even with late writes of dead processes.
const MOST_LOOKS: u32 = 100;

impl World {
    /// In some runs a process that was fenced waits.
    pub(super) fn lose(&mut self) {
        if self.journals() && self.dice.one_in(2) {
            self.waiting = Some(Rival::default());
        }
    }

    /// Time passes for the waiting process. The working one writes heartbeats, unless it is slow or refused; if it
    /// seems to be silent, it loses the journal without knowing.
    pub(super) fn wait_for_silence(&mut self) {
        for _ in 0..self.dice.below(16) {
            if !self.process.fenced && self.dice.one_in(3) {
                self.process.journal().heartbeat();
                self.advance_journal();
                self.advance_journal();
            }
            self.clock += HEARTBEAT;
            if self.rival_is_silent() {
                if self.may_freeze() {
                    self.waiting = None;
                    self.freeze();
                }
                return;
            }
        }
    }

    /// The working process is dead: the waiting one notices after a while, whatever the dead one has sent.
    pub(super) fn outwait(&mut self) {
        let mut looks = 0;
        while self.waiting.is_some() {
            looks += 1;
            if looks > MOST_LOOKS {
                return self.complain("a dead process is waited for".into());
            }
            if self.dice.one_in(8) {
                self.apply_late();
            }
            self.clock += LOOK;
            if self.rival_is_silent() {
                self.waiting = None;
            }
        }
    }

    fn rival_is_silent(&mut self) -> bool {
        let name = self.process.journal().name(0);
        let found = self.server.found(&name);
        let answered = !self.faulty() || !self.dice.one_in(8);
        let look = answered.then_some(found.as_ref());
        let waiting = self.waiting.as_mut();
        waiting.is_some_and(|rival| rival.is_silent(look, self.clock))
    }
}
