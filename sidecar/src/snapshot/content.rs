//! VolumeSnapshotContents and VolumeGroupSnapshotContents on the wire: one decoder for both kinds,
//! whose fields have different names.
//!
//! Several controllers keep their own records of contents; the wire fields are defined here once.

use jiff::Timestamp;
use serde::Deserialize;

use super::{Policy, SnapshotRef};
use crate::kube::interner::Interner;
use crate::kube::lean::{Parts, Text, interned, nullable, own};
use crate::kube::objects::Reference;

/// A content of either kind.
pub type Content<'a> = Parts<'a, Spec<'a>, Option<Status<'a>>>;

/// `spec`
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct Spec<'a> {
    /// `driver`
    pub driver: Option<Text<'a>>,
    /// `deletionPolicy`
    pub deletion_policy: Option<Text<'a>>,
    /// `volumeSnapshotClassName`
    pub volume_snapshot_class_name: Option<Text<'a>>,
    /// `volumeGroupSnapshotClassName`
    pub volume_group_snapshot_class_name: Option<Text<'a>>,
    /// `volumeSnapshotRef`
    #[serde(deserialize_with = "nullable")]
    pub volume_snapshot_ref: Reference<'a>,
    /// `volumeGroupSnapshotRef`, which group contents must have.
    pub volume_group_snapshot_ref: Option<Reference<'a>>,
    /// `source`
    #[serde(deserialize_with = "nullable")]
    pub source: Source<'a>,
    /// `sourceVolumeMode`
    pub source_volume_mode: Option<Text<'a>>,
}

impl Spec<'_> {
    /// The parsed `deletionPolicy`.
    #[must_use]
    pub fn policy(&self) -> Policy {
        Policy::new(self.deletion_policy.as_deref().unwrap_or_default())
    }
}

/// `source`
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct Source<'a> {
    /// `volumeHandle`
    pub volume_handle: Option<Text<'a>>,
    /// `snapshotHandle`
    pub snapshot_handle: Option<Text<'a>>,
    /// `volumeHandles`
    pub volume_handles: Option<Vec<Text<'a>>>,
    /// `groupSnapshotHandles`
    pub group_snapshot_handles: Option<GroupHandles<'a>>,
}

/// `groupSnapshotHandles`
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct GroupHandles<'a> {
    /// `volumeGroupSnapshotHandle`
    pub volume_group_snapshot_handle: Option<Text<'a>>,
    /// `volumeSnapshotHandles`
    #[serde(deserialize_with = "nullable")]
    pub volume_snapshot_handles: Vec<Text<'a>>,
}

/// `status`
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct Status<'a> {
    /// `snapshotHandle`
    pub snapshot_handle: Option<Text<'a>>,
    /// `creationTime`
    pub creation_time: Option<Time<'a>>,
    /// `readyToUse`
    pub ready_to_use: Option<bool>,
    /// `restoreSize`
    pub restore_size: Option<i64>,
    /// `error`
    pub error: Option<Failure<'a>>,
    /// `volumeGroupSnapshotHandle`
    pub volume_group_snapshot_handle: Option<Text<'a>>,
    /// `volumeSnapshotInfoList`
    #[serde(deserialize_with = "nullable")]
    pub volume_snapshot_info_list: Vec<Member<'a>>,
}

/// Creation time of a snapshot: nanoseconds since 1970 for a single one, RFC 3339 for a group.
#[derive(Debug, Deserialize)]
#[serde(untagged, bound(deserialize = "'de: 'a"))]
pub enum Time<'a> {
    /// The time of a single snapshot.
    Nanos(i64),
    /// The time of a group.
    Text(Text<'a>),
}

impl Time<'_> {
    /// Nanoseconds since 1970; `None` if unreadable.
    #[must_use]
    pub fn nanos(&self) -> Option<i64> {
        match self {
            Self::Nanos(nanos) => Some(*nanos),
            Self::Text(text) => {
                let time: Timestamp = text.parse().ok()?;
                i64::try_from(time.as_nanosecond()).ok()
            }
        }
    }
}

/// An entry of `volumeSnapshotInfoList`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct Member<'a> {
    /// `volumeHandle`
    pub volume_handle: Option<Text<'a>>,
    /// `snapshotHandle`
    pub snapshot_handle: Option<Text<'a>>,
    /// `creationTime`, nanoseconds since 1970.
    pub creation_time: Option<i64>,
    /// `readyToUse`
    pub ready_to_use: Option<bool>,
    /// `restoreSize`, bytes.
    pub restore_size: Option<i64>,
}

/// `error`
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct Failure<'a> {
    /// `message`
    pub message: Option<Text<'a>>,
    /// `time`
    pub time: Option<Text<'a>>,
}

impl SnapshotRef {
    /// The VolumeSnapshot or VolumeGroupSnapshot that the reference names.
    #[must_use]
    pub fn new(wire: &Reference<'_>, strings: &Interner) -> Self {
        Self {
            namespace: interned(&wire.namespace, strings),
            name: own(&wire.name),
            uid: own(&wire.uid),
        }
    }
}
