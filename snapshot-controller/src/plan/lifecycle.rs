//! The progress of VolumeSnapshots, for service levels.
//!
//! Decisions do not use it: the cache derives it from the objects. Unlike [`operation`](super::operation), whose times are upstream's,
//! it counts from the object's creation, through restarts.

use jiff::Timestamp;
use sidecar::lifecycle::{End, Id, Look, Progress, Since, Stage, Step};

/// The stages that snapshot-controller measures.
pub const STAGES: &[Stage] = &[
    Stage::SnapshotCut,
    Stage::SnapshotReady,
    Stage::SnapshotDeleted,
];

/// The fields of a VolumeSnapshot that its stages depend on.
#[derive(Clone, Copy, Debug, Default)]
pub struct SnapshotSeen<'a> {
    /// `metadata.uid`
    pub uid: &'a str,
    /// `metadata.creationTimestamp`, in seconds since 1970; 0 if that cannot be read.
    pub created: u32,
    /// `metadata.deletionTimestamp`, in seconds since 1970; 0 where there is none.
    pub deleted: u32,
    /// Whether it carries a finalizer that this program removes.
    pub held: bool,
    /// Whether it is dynamically created, not pre-provisioned.
    pub dynamic: bool,
    /// `status.creationTime`
    pub taken: Option<Timestamp>,
    /// `status.readyToUse`
    pub ready: bool,
    /// `status.boundVolumeSnapshotContentName`, else `spec.source.volumeSnapshotContentName`; empty where there is neither.
    pub content: &'a str,
    /// `spec.volumeSnapshotClassName`, empty where there is none.
    pub class: &'a str,
}

/// The progress of the VolumeSnapshot. Its content, or else its class, names the driver.
#[must_use]
pub fn of_snapshot<'a>(snapshot: &SnapshotSeen<'a>, look: Look) -> Vec<Step<'a>> {
    let mut steps = Vec::new();
    let mut record = |stage, progress| {
        let step = Step::new(stage, Id::of(snapshot.uid), progress);
        steps.push(step.owned_by([snapshot.content, snapshot.class]));
    };
    let open = |second| Progress::open(Since::At(second));
    if look == Look::Gone || snapshot.deleted != 0 {
        record(Stage::SnapshotCut, Progress::Dropped);
        record(Stage::SnapshotReady, Progress::Dropped);
        let left = look != Look::Gone && snapshot.held;
        let deleted = if left {
            open(snapshot.deleted)
        } else {
            Progress::DONE
        };
        record(Stage::SnapshotDeleted, deleted);
        return steps;
    }
    // A snapshot that was ready once does not open the stage again.
    let is_new = look == Look::First;
    if snapshot.dynamic && is_new {
        record(Stage::SnapshotCut, open(snapshot.created));
    }
    if let Some(taken) = snapshot.taken {
        let at = Some(taken);
        record(Stage::SnapshotCut, Progress::Done { at, end: End::Own });
    }
    match snapshot.ready {
        true => record(Stage::SnapshotReady, Progress::DONE),
        false if is_new => record(Stage::SnapshotReady, open(snapshot.created)),
        false => {}
    }
    steps
}

#[cfg(test)]
mod tests;
