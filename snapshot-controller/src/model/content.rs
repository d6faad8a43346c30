//! VolumeSnapshotContent.

use jiff::Timestamp;

use super::{Failure, List, Policy, Snapshot, SnapshotRef, Text};

/// The fields that decisions need of a VolumeSnapshotContent. Snapshot handles are the sidecar's
/// business.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// `metadata.name`
    pub name: Text,
    /// `metadata.uid`
    pub uid: Text,
    /// `metadata.resourceVersion`, unparsed.
    pub version: Text,
    /// `metadata.creationTimestamp`
    pub created: Option<Timestamp>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.finalizers`
    pub finalizers: List,
    /// Whether it has the annotation [`BEING_CREATED`](sidecar::snapshot::BEING_CREATED).
    pub being_created: bool,
    /// Whether it has the annotation [`BEING_DELETED`](sidecar::snapshot::BEING_DELETED).
    pub being_deleted: bool,
    /// Annotation [`GROUP_HANDLE`](sidecar::snapshot::GROUP_HANDLE): the handle of the group whose
    /// member this content was made for.
    pub group: Option<Text>,
    /// `spec.volumeSnapshotRef`
    pub snapshot: SnapshotRef,
    /// `spec.source`
    pub source: ContentSource,
    /// `spec.volumeSnapshotClassName`
    pub class: Option<Text>,
    /// `spec.driver`
    pub driver: Text,
    /// `spec.deletionPolicy`
    pub policy: Policy,
    /// `status`, if present.
    pub status: Option<Box<ContentStatus>>,
}

/// The source of a content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ContentSource {
    /// `volumeHandle`: the driver is to take a snapshot.
    Volume,
    /// `snapshotHandle`: the snapshot exists already.
    Snapshot,
    /// Neither or both, which the API server refuses.
    #[default]
    Unclear,
}

/// The fields that decisions need of `status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentStatus {
    /// `creationTime`, nanoseconds since 1970.
    pub creation_time: Option<i64>,
    /// `restoreSize`, bytes.
    pub restore_size: Option<i64>,
    /// `readyToUse`
    pub ready: Option<bool>,
    /// `error`
    pub error: Option<Failure>,
    /// Whether it has a `snapshotHandle`.
    pub is_taken: bool,
    /// `volumeGroupSnapshotHandle`
    pub group: Option<Text>,
}

impl Content {
    /// Whether it has the finalizer that keeps it until the sidecar has deleted the snapshot.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        self.head().is_protected()
    }

    /// Whether it refers to a VolumeSnapshot of this name, whatever its UID.
    #[must_use]
    pub fn names(&self, snapshot: &Snapshot) -> bool {
        self.head().names(&snapshot.head())
    }

    /// Whether it refers to this VolumeSnapshot, by UID.
    #[must_use]
    pub fn is_of(&self, snapshot: &Snapshot) -> bool {
        self.head().is_of(&snapshot.head())
    }

    /// Whether it was made for a member of a group and left half done: not bound, without finalizer and
    /// status. Backup tools clear the reference of contents that are in use; those do not count.
    #[must_use]
    pub fn is_half(&self) -> bool {
        let unbound = self.group.is_some() && self.snapshot.uid.is_empty();
        unbound
            && self.source == ContentSource::Volume
            && !self.is_protected()
            && self.status.is_none()
    }

    /// The key of the VolumeSnapshot that it refers to.
    #[must_use]
    pub fn snapshot_key(&self) -> Text {
        self.head().of_key()
    }
}
