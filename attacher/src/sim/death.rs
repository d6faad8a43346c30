//! The process ends, with requests on their way, and another one takes its place.

use std::sync::Arc;

use serde_json::Value;

use super::process::{Process, Running, State};
use super::run::World;
use crate::model::{Attachment, Text};
use crate::plan::Driver;
use crate::plan::reactor::Step;
use crate::testing::driver;

/// A patch of a stopped process, or one that nobody waits for any more.
pub(super) struct Late {
    to: Recipient,
    patch: Value,
}

enum Recipient {
    Attachment(Arc<Attachment>),
    Volume(Text),
}

impl Late {
    /// The patch of a step; `None` if it sends none.
    pub(super) fn of(step: &Step) -> Option<Self> {
        match step {
            Step::PatchVolume(volume, patch) => Some(Self {
                to: Recipient::Volume(volume.clone()),
                patch: patch.clone(),
            }),
            Step::PatchAttachment(of, patch) | Step::PatchStatus(of, patch) => Some(Self {
                to: Recipient::Attachment(Arc::clone(of)),
                patch: patch.clone(),
            }),
            Step::Read(_)
            | Step::ReadVolume(_)
            | Step::LoadSecret(_)
            | Step::Publish(..)
            | Step::Unpublish(..) => None,
        }
    }

    pub(super) fn is_of_volume(&self, name: &str) -> bool {
        matches!(&self.to, Recipient::Volume(volume) if **volume == *name)
    }
}

impl World {
    /// The process ends; what it sent is applied now, later or never.
    pub(super) fn crash(&mut self) {
        let running = std::mem::take(&mut self.process.attempts.running);
        for Running { state, .. } in running {
            match state {
                State::Sent(step) => {
                    if let Some(late) = Late::of(&step) {
                        self.leave_behind(late);
                    }
                }
                State::Calling(_, id) => self.driver.abandon(id),
                State::Deciding | State::Answered(..) | State::Fenced => {}
            }
        }
        self.comparison = None;
        let driver = self.driver_after_a_restart();
        self.process = Process::start(driver, self.mutant);
    }

    /// What becomes of a patch whose process stopped.
    fn leave_behind(&mut self, late: Late) {
        match self.dice.below(3) {
            0 => self.late.push(late),
            1 => self.arrive(&late),
            _ => {}
        }
    }

    /// A patch arrives, after whatever has been done since.
    pub(super) fn arrive_late(&mut self) {
        if !self.late.is_empty() {
            let place = self.dice.below(self.late.len());
            let late = self.late.swap_remove(place);
            self.arrive(&late);
        }
    }

    fn arrive(&mut self, late: &Late) {
        self.arriving = true;
        match &late.to {
            Recipient::Volume(name) => drop(self.patch_volume(name, &late.patch)),
            Recipient::Attachment(of) => drop(self.patch_attachment(of, &late.patch)),
        }
        self.arriving = false;
    }

    /// Flags and capabilities that may be others then.
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
