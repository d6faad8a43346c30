//! VolumeSnapshot and VolumeSnapshotContent: sources of new volumes.

use super::{List, Pairs, Quantity, Text, VolumeMode};
use crate::keys::SNAPSHOT_FINALIZER;

/// A `snapshot.storage.k8s.io/v1` VolumeSnapshot, as far as the provisioner reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// `metadata.namespace`.
    pub namespace: Text,
    /// `metadata.name`.
    pub name: Text,
    /// `metadata.uid`.
    pub uid: Text,
    /// `metadata.resourceVersion`, 0 if it is no number.
    pub version: u64,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.finalizers`, in order.
    pub finalizers: List,
    /// `status.boundVolumeSnapshotContentName`.
    pub content: Option<Text>,
    /// `status.readyToUse`.
    pub ready: bool,
    /// `status.restoreSize`.
    pub restore_size: Option<Quantity>,
}

impl Snapshot {
    /// Whether it carries the finalizer that protects the source of a restore.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        self.finalizers
            .iter()
            .any(|held| &**held == SNAPSHOT_FINALIZER)
    }
}

/// A `snapshot.storage.k8s.io/v1` VolumeSnapshotContent, as far as the provisioner reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// `metadata.name`.
    pub name: Text,
    /// `metadata.annotations`.
    pub annotations: Pairs,
    /// `spec.driver`.
    pub driver: Text,
    /// `spec.volumeSnapshotRef`.
    pub snapshot: SnapshotRef,
    /// `spec.sourceVolumeMode`.
    pub source_mode: Option<VolumeMode>,
    /// `status.snapshotHandle`: the driver's ID of the snapshot.
    pub handle: Option<Text>,
}

/// `spec.volumeSnapshotRef`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotRef {
    /// `namespace`
    pub namespace: Text,
    /// `name`
    pub name: Text,
    /// `uid`
    pub uid: Text,
}
