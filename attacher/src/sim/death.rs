//! The process stops with requests in flight, and another one takes its place.

use super::process::{Process, Running, State};
use super::run::World;
use crate::plan::Driver;
use crate::plan::request::{Request, Write};
use crate::testing::driver;

impl World {
    /// Stops the process; the requests it sent are applied now, later or never.
    pub(super) fn crash(&mut self) {
        let running = std::mem::take(&mut self.process.attempts.running);
        for Running { state, .. } in running {
            match state {
                State::Sent(Request::Write(write)) => self.leave_behind(write),
                State::Calling(_, id) => self.driver.abandon(id),
                State::Sent(_) | State::Deciding | State::Answered(..) | State::Fenced => {}
            }
        }
        self.comparison = None;
        let driver = self.driver_after_a_restart();
        self.process = Process::start(driver, self.mutant);
    }

    /// Decides the fate of a patch whose process stopped.
    fn leave_behind(&mut self, late: Write) {
        match self.dice.below(3) {
            0 => self.late.push(late),
            1 => self.arrive(&late),
            _ => {}
        }
    }

    /// Applies a patch of a stopped process after everything done since.
    pub(super) fn arrive_late(&mut self) {
        if !self.late.is_empty() {
            let place = self.dice.below(self.late.len());
            let late = self.late.swap_remove(place);
            self.arrive(&late);
        }
    }

    fn arrive(&mut self, late: &Write) {
        self.arriving = true;
        drop(self.write(late));
        self.arriving = false;
    }

    /// The driver after a restart, possibly with other flags and capabilities.
    fn driver_after_a_restart(&mut self) -> Driver {
        let mut driver = driver();
        driver.abilities.readonly = self.dice.one_in(2);
        driver.abilities.single_node_multi_writer = self.dice.one_in(2);
        driver.error_codes = self.dice.one_in(2);
        if self.dice.one_in(2) {
            driver.default_fs_type = "xfs".to_owned();
        }
        driver
    }
}
