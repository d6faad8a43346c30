//! The crash windows of the specification, section 9.1, and which of them runs pass through: a program
//! stops after one effect and before the next.

use std::fmt;

use sidecar::snapshot::{SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND};

use super::check::{holds, is_deleting};
use super::controller::Controller;
use super::kind::Kind;
use super::process::Program;
use super::request::Effect;
use super::world::{Faults, World};

/// How often each was passed. 0 is none of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Windows([usize; 28]);

/// W20 is of a gate that is not here, W21 to W26 are of groups.
pub(super) const HERE: [usize; 20] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 27,
];

impl Windows {
    /// An attempt of a program ends here, whose last effect was this one. W1 has no width any more: its
    /// first effect is W4's.
    pub(super) fn pass(&mut self, who: usize, last: Option<Effect>, calling: bool) {
        let Some(last) = last else { return };
        let passed: &[usize] = match (last, calling) {
            (Effect::MakesContent, _) => &[1, 4],
            (Effect::ProtectsSnapshot, _) => &[2],
            (Effect::ProtectsClaim, _) => &[3],
            (Effect::ShowsBound, _) => &[5],
            (Effect::ChoosesClass, _) => &[6],
            (Effect::Binds, _) => &[7],
            (Effect::Announces, _) => &[8],
            (Effect::DeletesContent, _) => &[9],
            (Effect::FreesClaim, _) => &[10],
            (Effect::Complains, _) => &[12],
            (Effect::Marks, true) => &[15],
            (Effect::Marks, false) => &[13],
            (Effect::Takes, _) => &[14],
            (Effect::Reports, _) => &[16],
            (Effect::GivesUp, _) => &[17],
            (Effect::Removes, _) => &[18],
            (Effect::Clears, _) => &[19],
            (
                Effect::ProtectsBound
                | Effect::Follows
                | Effect::ProtectsContent
                | Effect::FreesSnapshot
                | Effect::ReportsMore
                | Effect::Unmarks
                | Effect::Tells
                | Effect::LetsGo,
                _,
            ) => &[],
        };
        let of_controller = |window: usize| window <= 12;
        for window in passed {
            if of_controller(*window) == (who == 0) {
                self.0[*window] += 1;
            }
        }
    }

    /// An old leader is in a call while a new one leads.
    pub(super) fn overlap(&mut self) {
        self.0[27] += 1;
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }

    /// Those of [`HERE`] that were passed less often than this.
    pub(super) fn rarer(&self, than: usize) -> Vec<usize> {
        let here = HERE.into_iter();
        here.filter(|window| self.0[*window] < than).collect()
    }
}

impl fmt::Display for Windows {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for window in HERE {
            write!(out, "W{window} {}, ", self.0[window])?;
        }
        write!(out, "W20 to W26 are not here")
    }
}

impl World {
    /// Whether a VolumeSnapshot whose content is gone waits for its last finalizer to be taken away, which
    /// nothing in the program remembers.
    fn is_in_last_window(&self) -> bool {
        self.server.all(Kind::Snapshot).any(|(_, snapshot)| {
            let content = snapshot["status"]["boundVolumeSnapshotContentName"].as_str();
            let gone = |name: &str| self.server.get(Kind::Content, name).is_none();
            is_deleting(snapshot)
                && holds(snapshot, SNAPSHOT_BOUND)
                && !holds(snapshot, SNAPSHOT_AS_SOURCE)
                && content.is_some_and(gone)
        })
    }

    /// The controller stops while it is: that is short, and chance alone would hardly meet it.
    pub(super) fn stop_in_last_window(&mut self) {
        if self.faults != Faults::None && self.is_in_last_window() && self.dice.one_in(12) {
            self.crash::<Controller>();
        }
    }

    pub(super) fn pass_windows_of_objects(&mut self, who: usize) {
        if who == Controller::WHO && self.is_in_last_window() {
            self.windows.0[11] += 1;
        }
    }
}
