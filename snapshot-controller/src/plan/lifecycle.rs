//! How far VolumeSnapshots have come, for figures of service levels.
//!
//! Decisions know nothing of it: it is read off the objects. Unlike [`operation`](super::operation), whose times are upstream's,
//! it counts from the object's creation, through restarts.

use jiff::Timestamp;
use sidecar::lifecycle::{End, Id, Look, Since, Stage, Step, What};

/// What snapshot-controller measures.
pub const STAGES: &[Stage] = &[
    Stage::SnapshotCut,
    Stage::SnapshotReady,
    Stage::SnapshotDeleted,
];

/// What is looked at of a VolumeSnapshot.
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
    /// Whether it is to be taken, and does not stand for one that an administrator knew.
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

/// How far the VolumeSnapshot has come. Its content, or else its class, names its driver.
#[must_use]
pub fn of_snapshot<'a>(snapshot: &SnapshotSeen<'a>, look: Look) -> Vec<Step<'a>> {
    let mut steps = Vec::new();
    let mut say = |stage, what| {
        let step = Step::new(stage, Id::of(snapshot.uid), what);
        steps.push(step.owned_by([snapshot.content, snapshot.class]));
    };
    let done = |at| What::Done { at, end: End::Own };
    let open = |second| What::Open {
        since: Since::At(second),
        moves: true,
    };
    if look == Look::Gone || snapshot.deleted != 0 {
        say(Stage::SnapshotCut, What::Dropped);
        say(Stage::SnapshotReady, What::Dropped);
        let left = look != Look::Gone && snapshot.held;
        let deleted = if left {
            open(snapshot.deleted)
        } else {
            done(None)
        };
        say(Stage::SnapshotDeleted, deleted);
        return steps;
    }
    // One that was ready is not waited for once more.
    let is_new = look == Look::First;
    if snapshot.dynamic && is_new {
        say(Stage::SnapshotCut, open(snapshot.created));
    }
    if let Some(taken) = snapshot.taken {
        say(Stage::SnapshotCut, done(Some(taken)));
    }
    match snapshot.ready {
        true => say(Stage::SnapshotReady, done(None)),
        false if is_new => say(Stage::SnapshotReady, open(snapshot.created)),
        false => {}
    }
    steps
}

#[cfg(test)]
mod tests;
