//! VolumeSnapshotClass and VolumeGroupSnapshotClass: the parameters of snapshots.
//!
//! Attempts only look it up; a class that appears or changes requeues the contents that wait for it.

use super::{Pairs, Text};

/// A `snapshot.storage.k8s.io/v1` VolumeSnapshotClass or a `groupsnapshot.storage.k8s.io/v1`
/// VolumeGroupSnapshotClass, as far as the snapshotter reads it. Cached under its name, separately
/// for each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// `driver`.
    pub driver: Text,
    /// `parameters`, which may change at any time.
    pub parameters: Pairs,
}
