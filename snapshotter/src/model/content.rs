//! VolumeSnapshotContent, one snapshot in the storage system, and VolumeGroupSnapshotContent, several
//! snapshots of one moment: requested or existing.

use std::sync::Arc;

use super::{Kind, List, Policy, SecretRef, SnapshotRef, Text};

/// A `snapshot.storage.k8s.io/v1` VolumeSnapshotContent or a `groupsnapshot.storage.k8s.io/v1`
/// VolumeGroupSnapshotContent, as far as the snapshotter reads it: the two have the same meaning in fields
/// and annotations of different names. Cached under its name, separately for each kind.
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
    /// Whether the annotation [`Kind::being_created`] is set: a create call may have had an effect.
    pub being_created: bool,
    /// Whether that annotation has another value than [`YES`](sidecar::snapshot::YES). All values mean the
    /// same; a change of the value forces a new resource version.
    pub marked_again: bool,
    /// Whether the annotation [`Kind::being_deleted`] is set: its VolumeSnapshot or VolumeGroupSnapshot is
    /// being deleted.
    pub being_deleted: bool,
    /// Whether the annotation [`GROUP_HANDLE`](sidecar::snapshot::GROUP_HANDLE) is set; see
    /// [`Content::is_member`].
    pub member: bool,
    /// The annotations [`Kind::deletion_secret`], if both are set; each may be empty.
    pub secret: Option<Box<SecretRef>>,
    /// The topology annotations, if one of them is set.
    pub topology: Option<Box<Topology>>,
    /// `spec.volumeSnapshotRef`, `spec.volumeGroupSnapshotRef`.
    pub snapshot: SnapshotRef,
    /// `spec.source`; `None` if it names no handle.
    pub source: Option<Source>,
    /// `spec.driver`.
    pub driver: Text,
    /// `spec.volumeSnapshotClassName`, `spec.volumeGroupSnapshotClassName`.
    pub class: Option<Text>,
    /// `spec.deletionPolicy`.
    pub policy: Policy,
    /// `status`; `None` until it is first written.
    pub status: Option<Status>,
}

/// This project's topology annotations, unparsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// [`ALLOWED_TOPOLOGIES`](sidecar::snapshot::ALLOWED_TOPOLOGIES).
    pub allowed: Option<Text>,
    /// [`ACCESSIBLE_TOPOLOGY`](sidecar::snapshot::ACCESSIBLE_TOPOLOGY).
    pub accessible: Option<Text>,
}

/// `spec.source`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// `volumeHandle`: take a snapshot of this volume.
    Volume(Text),
    /// `snapshotHandle`: a pre-provisioned snapshot.
    Snapshot(Text),
    /// `volumeHandles`, not empty: take a group snapshot of these volumes.
    Volumes(List),
    /// `groupSnapshotHandles`: a pre-provisioned group snapshot.
    Group(Box<GroupHandles>),
}

impl Source {
    /// The kind of content with this source.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Volume(_) | Self::Snapshot(_) => Kind::Single,
            Self::Volumes(_) | Self::Group(_) => Kind::Group,
        }
    }

    /// The handle of a pre-provisioned snapshot or group.
    #[must_use]
    pub fn wished(&self) -> Option<&Text> {
        match self {
            Self::Snapshot(handle) => Some(handle),
            Self::Group(handles) => Some(&handles.group),
            Self::Volume(_) | Self::Volumes(_) => None,
        }
    }
}

/// `spec.source.groupSnapshotHandles`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupHandles {
    /// `volumeGroupSnapshotHandle`.
    pub group: Text,
    /// `volumeSnapshotHandles`.
    pub snapshots: List,
}

/// `status`. Every field may be absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// `snapshotHandle`; of a group its `volumeGroupSnapshotHandle`.
    pub handle: Option<Text>,
    /// `creationTime`, nanoseconds since 1970; 0 for one that does not parse.
    pub created: Option<i64>,
    /// `readyToUse`.
    pub ready: Option<bool>,
    /// `restoreSize`, bytes; never set for a group.
    pub size: Option<i64>,
    /// `volumeGroupSnapshotHandle` of the member's group.
    pub group: Option<Text>,
    /// `volumeSnapshotInfoList` of a group.
    pub members: Members,
    /// `error.message`; empty for an error without a message.
    pub error: Option<Text>,
}

/// Members of a group, in the order of the driver's response.
pub type Members = Arc<[Member]>;

/// One entry of `status.volumeSnapshotInfoList`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// `volumeHandle`.
    pub volume: Text,
    /// `snapshotHandle`.
    pub handle: Text,
    /// `creationTime`, nanoseconds since 1970.
    pub created: Option<i64>,
    /// `readyToUse`.
    pub ready: Option<bool>,
    /// `restoreSize`, bytes.
    pub size: Option<i64>,
}

impl Content {
    /// Its kind; a content without a source counts as a single snapshot, and the snapshotter ignores it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.source.as_ref().map_or(Kind::Single, Source::kind)
    }

    /// The handle of its pre-provisioned snapshot or group.
    #[must_use]
    pub fn wished(&self) -> Option<&Text> {
        self.source.as_ref()?.wished()
    }

    /// Whether it has the finalizer [`Kind::finalizer`].
    #[must_use]
    pub fn is_protected(&self) -> bool {
        let finalizer = self.kind().finalizer();
        self.finalizers.iter().any(|held| **held == *finalizer)
    }

    /// The recorded handle: `status.snapshotHandle`, or that of the group.
    #[must_use]
    pub fn handle(&self) -> Option<&Text> {
        self.status.as_ref()?.handle.as_ref()
    }

    /// `status.volumeGroupSnapshotHandle` of a member.
    #[must_use]
    pub fn group(&self) -> Option<&Text> {
        self.status.as_ref()?.group.as_ref()
    }

    /// Whether its snapshot belongs to a group and is deleted with it. The annotation counts only on a
    /// content that the controller created for a volume; on a pre-provisioned one it may be a copy, and only
    /// the status counts.
    #[must_use]
    pub fn is_member(&self) -> bool {
        let annotated = self.member && matches!(self.source, Some(Source::Volume(_)));
        annotated || self.group().is_some()
    }

    /// `status.readyToUse`; false if absent.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.status.as_ref().and_then(|status| status.ready) == Some(true)
    }
}
