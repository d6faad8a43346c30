//! VolumeSnapshotContent, one snapshot of the storage system, and VolumeGroupSnapshotContent,
//! several that are cut at one moment: wished for or there.

use std::sync::Arc;

use super::{Kind, List, Policy, SecretRef, SnapshotRef, Text};

/// What the snapshotter reads of a `snapshot.storage.k8s.io/v1` VolumeSnapshotContent or of a
/// `groupsnapshot.storage.k8s.io/v1` VolumeGroupSnapshotContent: both mean the same with fields and
/// annotations of different names. Its name is the key under which it is cached, apart from the other
/// kind.
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
    /// Whether the annotation [`Kind::being_created`] is there: a call that takes a snapshot may have
    /// had an effect.
    pub being_created: bool,
    /// Whether that annotation has another value than [`YES`](sidecar::snapshot::YES). All values mean
    /// the same; a new one makes a new version.
    pub marked_again: bool,
    /// Whether the annotation [`Kind::being_deleted`] is there: its VolumeSnapshot or
    /// VolumeGroupSnapshot is being deleted.
    pub being_deleted: bool,
    /// Whether the annotation [`GROUP_HANDLE`](sidecar::snapshot::GROUP_HANDLE) is there; see
    /// [`Content::is_member`].
    pub member: bool,
    /// The annotations [`Kind::deletion_secret`], if both are there; each may be empty.
    pub secret: Option<Box<SecretRef>>,
    /// The annotations about where it must be usable and where it is, if one of them is there.
    pub topology: Option<Box<Topology>>,
    /// `spec.volumeSnapshotRef`, `spec.volumeGroupSnapshotRef`.
    pub snapshot: SnapshotRef,
    /// `spec.source`; `None` if it names neither.
    pub source: Option<Source>,
    /// `spec.driver`.
    pub driver: Text,
    /// `spec.volumeSnapshotClassName`, `spec.volumeGroupSnapshotClassName`.
    pub class: Option<Text>,
    /// `spec.deletionPolicy`.
    pub policy: Policy,
    /// `status`; `None` until somebody writes it.
    pub status: Option<Status>,
}

/// Annotations of ours, which are kept as they are written.
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
    /// `volumeHandle`: a snapshot is to be taken of this volume.
    Volume(Text),
    /// `snapshotHandle`: the snapshot was there before.
    Snapshot(Text),
    /// `volumeHandles`, of which there are some: snapshots are to be taken of these volumes.
    Volumes(List),
    /// `groupSnapshotHandles`: the group was there before.
    Group(Box<GroupHandles>),
}

impl Source {
    /// What it makes of the content.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Volume(_) | Self::Snapshot(_) => Kind::Single,
            Self::Volumes(_) | Self::Group(_) => Kind::Group,
        }
    }

    /// The handle of the snapshot or of the group, if an administrator names one.
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
    /// `creationTime`, nanoseconds since 1970; 0 for one that cannot be read.
    pub created: Option<i64>,
    /// `readyToUse`.
    pub ready: Option<bool>,
    /// `restoreSize`, bytes; never of a group.
    pub size: Option<i64>,
    /// `volumeGroupSnapshotHandle` of the group that a snapshot is a member of.
    pub group: Option<Text>,
    /// `volumeSnapshotInfoList` of a group.
    pub members: Members,
    /// `error.message`; empty if there is an error without one.
    pub error: Option<Text>,
}

/// Members of a group, in the order of the driver's answer.
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
    /// What it is a content of; of one without source a single snapshot, and nothing is done about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.source.as_ref().map_or(Kind::Single, Source::kind)
    }

    /// Whether it carries the finalizer [`Kind::finalizer`].
    #[must_use]
    pub fn is_protected(&self) -> bool {
        let finalizer = self.kind().finalizer();
        self.finalizers.iter().any(|held| **held == *finalizer)
    }

    /// The handle on record: `status.snapshotHandle`, or that of a group.
    #[must_use]
    pub fn handle(&self) -> Option<&Text> {
        self.status.as_ref()?.handle.as_ref()
    }

    /// `status.volumeGroupSnapshotHandle` of a member.
    #[must_use]
    pub fn group(&self) -> Option<&Text> {
        self.status.as_ref()?.group.as_ref()
    }

    /// Whether its snapshot belongs to a group, with which it goes. The annotation says so of what the
    /// controller made for a volume; on what was there before it may be a copy, and the status counts alone.
    #[must_use]
    pub fn is_member(&self) -> bool {
        let annotated = self.member && matches!(self.source, Some(Source::Volume(_)));
        annotated || self.group().is_some()
    }

    /// `status.readyToUse`; absent is false.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.status.as_ref().and_then(|status| status.ready) == Some(true)
    }
}
