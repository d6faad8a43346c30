//! VolumeSnapshotContent: one snapshot of the storage system, wished for or there.

use sidecar::snapshot::CONTENT_BOUND;

use super::{List, SecretRef, Text};

/// What the snapshotter reads of a `snapshot.storage.k8s.io/v1` VolumeSnapshotContent. Its name is
/// the key under which it is cached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// `metadata.uid`.
    pub uid: Text,
    /// `metadata.resourceVersion`, 0 if it is no number.
    pub version: u64,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.finalizers`, in order.
    pub finalizers: List,
    /// Whether the annotation [`BEING_CREATED`](sidecar::snapshot::BEING_CREATED) is there: a
    /// CreateSnapshot call may have had an effect.
    pub being_created: bool,
    /// Whether that annotation has another value than [`YES`](sidecar::snapshot::YES). All values mean
    /// the same; a new one makes a new version.
    pub marked_again: bool,
    /// Whether the annotation [`BEING_DELETED`](sidecar::snapshot::BEING_DELETED) is there: its
    /// VolumeSnapshot is being deleted.
    pub being_deleted: bool,
    /// Whether the annotation [`GROUP_HANDLE`](sidecar::snapshot::GROUP_HANDLE) is there: it is a
    /// member of a group.
    pub member: bool,
    /// The annotations [`DELETION_SECRET_NAME`](sidecar::snapshot::DELETION_SECRET_NAME) and
    /// [`DELETION_SECRET_NAMESPACE`](sidecar::snapshot::DELETION_SECRET_NAMESPACE), if both are
    /// there; each may be empty.
    pub secret: Option<Box<SecretRef>>,
    /// `spec.volumeSnapshotRef`.
    pub snapshot: SnapshotRef,
    /// `spec.source`; `None` if it names neither.
    pub source: Option<Source>,
    /// `spec.driver`.
    pub driver: Text,
    /// `spec.volumeSnapshotClassName`.
    pub class: Option<Text>,
    /// `spec.deletionPolicy`.
    pub policy: Policy,
    /// `status`; `None` until somebody writes it.
    pub status: Option<Status>,
}

/// `spec.volumeSnapshotRef`, as far as it is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotRef {
    /// `namespace`.
    pub namespace: Text,
    /// `name`.
    pub name: Text,
    /// `uid`; empty until the VolumeSnapshot is bound.
    pub uid: Text,
}

/// `spec.source`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// `volumeHandle`: a snapshot is to be taken of this volume.
    Volume(Text),
    /// `snapshotHandle`: the snapshot was there before.
    Snapshot(Text),
}

/// `spec.deletionPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The snapshot goes with its content.
    Delete,
    /// The snapshot outlives its content; so it does with a policy that nobody knows.
    #[default]
    Retain,
}

/// `status`. Every field may be absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// `snapshotHandle`.
    pub handle: Option<Text>,
    /// `creationTime`, nanoseconds since 1970.
    pub created: Option<i64>,
    /// `readyToUse`.
    pub ready: Option<bool>,
    /// `restoreSize`, bytes.
    pub size: Option<i64>,
    /// `volumeGroupSnapshotHandle`.
    pub group: Option<Text>,
    /// `error.message`; empty if there is an error without one.
    pub error: Option<Text>,
}

impl Content {
    /// Whether it carries the finalizer [`CONTENT_BOUND`].
    #[must_use]
    pub fn is_protected(&self) -> bool {
        self.finalizers.iter().any(|held| **held == *CONTENT_BOUND)
    }

    /// `status.snapshotHandle`.
    #[must_use]
    pub fn handle(&self) -> Option<&Text> {
        self.status.as_ref()?.handle.as_ref()
    }

    /// `status.volumeGroupSnapshotHandle`.
    #[must_use]
    pub fn group(&self) -> Option<&Text> {
        self.status.as_ref()?.group.as_ref()
    }

    /// `status.readyToUse`; absent is false.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.status.as_ref().and_then(|status| status.ready) == Some(true)
    }
}
