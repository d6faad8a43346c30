//! The crash windows of the specification, section 9.1, and how often runs pass them: a program
//! stops after one effect and before the next.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "most effects are in no window"
)]

use std::fmt;

use sidecar::snapshot::{SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND};

use super::check::{holds, is_deleting};
use super::effect::Effect;
use super::kind::Kind;
use super::world::{Faults, World};

/// Number of passes of each window. 0 stands for no window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Windows([usize; 28]);

/// The end of an attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    /// Whether the controller's or the snapshotter's attempt ends.
    pub(super) controller: bool,
    /// Whether it is about a group.
    pub(super) grouped: bool,
    /// Whether the driver works on a call of the attempt.
    pub(super) calling: bool,
}

impl Windows {
    /// An attempt ends after this last effect. W1 is empty by now: its first effect
    /// is W4's.
    pub(super) fn pass(&mut self, end: End, last: Option<Effect>) {
        let Some(last) = last else { return };
        let passed = match (end.controller, end.grouped) {
            (true, false) => of_controller(last),
            (true, true) => of_groups(last),
            (false, grouped) => of_snapshotter(last, grouped, end.calling),
        };
        for window in passed {
            self.0[*window] += 1;
        }
    }

    /// A former leader's call runs while a new one leads.
    pub(super) fn overlap(&mut self) {
        self.0[27] += 1;
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }

    /// Windows passed less often than this.
    pub(super) fn rarer(&self, than: usize) -> Vec<usize> {
        let all = 1..self.0.len();
        all.filter(|window| self.0[*window] < than).collect()
    }
}

impl fmt::Display for Windows {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.0.iter().enumerate().skip(1);
        let all = all.map(|(window, passed)| format!("W{window} {passed}"));
        out.write_str(&all.collect::<Vec<_>>().join(", "))
    }
}

fn of_controller(last: Effect) -> &'static [usize] {
    match last {
        Effect::MakesContent => &[1, 4],
        Effect::ProtectsSnapshot => &[2],
        Effect::ProtectsClaim => &[3],
        Effect::ShowsBound => &[5],
        Effect::ChoosesClass => &[6],
        Effect::Binds => &[7],
        Effect::Announces => &[8],
        Effect::DeletesContent => &[9],
        Effect::FreesClaim => &[10],
        Effect::Complains => &[12],
        _ => &[],
    }
}

fn of_groups(last: Effect) -> &'static [usize] {
    match last {
        Effect::MakesContent | Effect::ShowsBound => &[22],
        Effect::MakesMember
        | Effect::BindsMember
        | Effect::ShowsMemberBound
        | Effect::FillsMember => &[23],
        Effect::MakesMemberContent => &[24],
        Effect::Announces | Effect::DeletesContent | Effect::DeletesMember => &[25],
        _ => &[],
    }
}

fn of_snapshotter(last: Effect, grouped: bool, calling: bool) -> &'static [usize] {
    match last {
        Effect::Marks if calling => &[15],
        Effect::Marks => &[13],
        Effect::Takes if grouped => &[21],
        Effect::Takes => &[14],
        Effect::Reports => &[16],
        Effect::GivesUp => &[17],
        Effect::Removes | Effect::Clears if grouped => &[26],
        Effect::Removes => &[18],
        Effect::Clears => &[19],
        Effect::Places => &[20],
        _ => &[],
    }
}

impl World {
    /// Whether a VolumeSnapshot whose content is gone has its last finalizer still, which the program does
    /// not remember.
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

    /// Stops the controller in that window, which is too short to be met by chance.
    pub(super) fn stop_in_last_window(&mut self) {
        if self.faults != Faults::None && self.is_in_last_window() && self.dice.one_in(12) {
            self.crash_controller();
        }
    }

    pub(super) fn pass_windows_of_objects(&mut self) {
        if self.is_in_last_window() {
            self.windows.0[11] += 1;
        }
    }
}
