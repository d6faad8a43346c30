//! VolumeSnapshotClass and VolumeGroupSnapshotClass: how snapshots are taken.
//!
//! It is looked up only; one that appears or changes wakes the contents that wait for it.

use super::{Pairs, Text};

/// What the snapshotter reads of a `snapshot.storage.k8s.io/v1` VolumeSnapshotClass or of a
/// `groupsnapshot.storage.k8s.io/v1` VolumeGroupSnapshotClass. Its name is the key under which it is
/// cached, apart from the other kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// `driver`.
    pub driver: Text,
    /// `parameters`, which can be changed at any time.
    pub parameters: Pairs,
}
