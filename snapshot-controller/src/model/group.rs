//! VolumeGroupSnapshot, its content and its class.

use jiff::Timestamp;
use sidecar::snapshot::GROUP_SNAPSHOT_BOUND;

use super::{Class, ContentSource, Failure, List, Policy, SnapshotRef, Text, key};

/// The fields that decisions need of a VolumeGroupSnapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// `metadata.namespace`
    pub namespace: Text,
    /// `metadata.name`
    pub name: Text,
    /// `metadata.uid`
    pub uid: Text,
    /// `metadata.resourceVersion`, unparsed.
    pub version: Text,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.finalizers`
    pub finalizers: List,
    /// `spec.source`
    pub source: GroupSource,
    /// `spec.volumeGroupSnapshotClassName`
    pub class: Option<Text>,
    /// `status`, if present.
    pub status: Option<Box<GroupStatus>>,
}

/// The source of a VolumeGroupSnapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GroupSource {
    /// The claims of the namespace that match this label selector, as JSON.
    Claims(Text),
    /// The VolumeGroupSnapshotContent of this name, which an administrator made.
    Content(Text),
    /// Neither or both, which the API server refuses.
    #[default]
    Unclear,
}

/// The fields that decisions need of `status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupStatus {
    /// `boundVolumeGroupSnapshotContentName`
    pub bound: Option<Text>,
    /// `creationTime`, unparsed.
    pub creation_time: Option<Text>,
    /// `readyToUse`
    pub ready: Option<bool>,
    /// `error`
    pub error: Option<Failure>,
}

/// The fields that decisions need of a VolumeGroupSnapshotContent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupContent {
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
    /// Whether it has the annotation [`GROUP_BEING_CREATED`](sidecar::snapshot::GROUP_BEING_CREATED).
    pub being_created: bool,
    /// Whether it has the annotation [`GROUP_BEING_DELETED`](sidecar::snapshot::GROUP_BEING_DELETED).
    pub being_deleted: bool,
    /// `spec.volumeGroupSnapshotRef`
    pub group: SnapshotRef,
    /// `spec.source`
    pub source: ContentSource,
    /// `spec.volumeGroupSnapshotClassName`
    pub class: Option<Text>,
    /// `spec.driver`
    pub driver: Text,
    /// `spec.deletionPolicy`
    pub policy: Policy,
    /// Name and namespace of the Secret in its annotations.
    pub secret: Option<(Text, Text)>,
    /// `status`, if present.
    pub status: Option<Box<GroupContentStatus>>,
}

/// The fields that decisions need of `status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupContentStatus {
    /// `volumeGroupSnapshotHandle`
    pub handle: Option<Text>,
    /// `creationTime`, unparsed.
    pub creation_time: Option<Text>,
    /// `readyToUse`
    pub ready: Option<bool>,
    /// `error`
    pub error: Option<Failure>,
    /// `volumeSnapshotInfoList`
    pub members: Vec<Member>,
}

/// One snapshot of a group, as the driver reported it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// `volumeHandle`
    pub volume: Text,
    /// `snapshotHandle`
    pub snapshot: Text,
    /// `creationTime`, nanoseconds since 1970.
    pub creation_time: Option<i64>,
    /// `readyToUse`
    pub ready: Option<bool>,
    /// `restoreSize`, bytes.
    pub restore_size: Option<i64>,
}

/// The fields that decisions need of a VolumeGroupSnapshotClass: those of a VolumeSnapshotClass, under other
/// parameter names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupClass(pub Class);

impl Group {
    /// The key in caches and queues.
    #[must_use]
    pub fn key(&self) -> Text {
        key(&self.namespace, &self.name)
    }

    /// Whether it has this controller's finalizer.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        let mut held = self.finalizers.iter();
        held.any(|held| **held == *GROUP_SNAPSHOT_BOUND)
    }

    /// Whether `status.readyToUse` is true.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let status = self.status.as_deref();
        status.is_some_and(|status| status.ready == Some(true))
    }

    /// `status.boundVolumeGroupSnapshotContentName`, unless it is empty.
    #[must_use]
    pub fn bound(&self) -> Option<&Text> {
        let bound = self.status.as_deref()?.bound.as_ref()?;
        Some(bound).filter(|name| !name.is_empty())
    }

    /// Whether the group was taken at some time. It is never taken again, since its data is of that moment.
    #[must_use]
    pub fn was_taken(&self) -> bool {
        let status = self.status.as_deref();
        status.is_some_and(|status| status.creation_time.is_some())
    }
}

impl GroupContent {
    /// Whether it has the finalizer that keeps it until the sidecar has deleted the group.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        self.head().is_protected()
    }

    /// Whether it refers to a VolumeGroupSnapshot of this name, whatever its UID.
    #[must_use]
    pub fn names(&self, group: &Group) -> bool {
        self.head().names(&group.head())
    }

    /// Whether it refers to this VolumeGroupSnapshot, by UID.
    #[must_use]
    pub fn is_of(&self, group: &Group) -> bool {
        self.head().is_of(&group.head())
    }

    /// Whether it and this VolumeGroupSnapshot are bound to each other.
    #[must_use]
    pub fn is_bound_to(&self, group: &Group) -> bool {
        self.is_of(group) && group.bound() == Some(&self.name)
    }

    /// The key of the VolumeGroupSnapshot that it refers to.
    #[must_use]
    pub fn group_key(&self) -> Text {
        self.head().of_key()
    }

    /// `status.volumeGroupSnapshotHandle`, unless it is empty.
    #[must_use]
    pub fn handle(&self) -> Option<&Text> {
        let handle = self.status.as_deref()?.handle.as_ref()?;
        Some(handle).filter(|handle| !handle.is_empty())
    }

    /// The group's snapshots; empty until the driver has reported all.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        match self.status.as_deref() {
            Some(status) if self.handle().is_some() => &status.members,
            Some(_) | None => &[],
        }
    }
}
