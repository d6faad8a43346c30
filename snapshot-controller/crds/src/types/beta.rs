//! Versions `v1beta1` of both groups: fewer rules, and other fields in places.
//!
//! The kinds of snapshots have it for objects that a cluster stored long ago, and serve it to nobody.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::Serialize;

use super::field::{DeletionPolicy, Failure, Quantity, Time};
use super::group::{GroupContentSource, GroupSpec};

/// A request for a snapshot of a volume, or for one that is in the storage system already.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct VolumeSnapshot {
    /// What is wanted.
    pub spec: SnapshotSpec,
    /// What there is.
    pub status: Option<SnapshotStatus>,
}

/// What is wanted.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotSpec {
    /// Where the snapshot comes from.
    pub source: SnapshotSource,
    /// Name of the VolumeSnapshotClass.
    pub volume_snapshot_class_name: Option<String>,
}

/// Where a snapshot comes from: exactly one of the two.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotSource {
    /// A claim in the same namespace.
    pub persistent_volume_claim_name: Option<String>,
    /// A VolumeSnapshotContent for a snapshot which exists.
    pub volume_snapshot_content_name: Option<String>,
}

/// What there is.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotStatus {
    /// The content that this snapshot is bound to.
    pub bound_volume_snapshot_content_name: Option<String>,
    /// The moment that the snapshot shows.
    pub creation_time: Option<Time>,
    /// Whether a volume can be restored from it.
    pub ready_to_use: Option<bool>,
    /// A volume restored from it must be at least this large.
    pub restore_size: Option<Quantity>,
    /// What went wrong last.
    pub error: Option<Failure>,
}

/// A snapshot in the storage system.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct VolumeSnapshotContent {
    /// Which snapshot it is, and whose.
    pub spec: ContentSpec,
    /// What the driver said of it.
    pub status: Option<ContentStatus>,
}

/// Which snapshot it is, and whose.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContentSpec {
    /// The VolumeSnapshot that this content belongs to.
    pub volume_snapshot_ref: Reference,
    /// Delete removes the snapshot from the storage system with this object, Retain keeps it.
    pub deletion_policy: DeletionPolicy,
    /// Name of the CSI driver.
    pub driver: String,
    /// The class that it was made with.
    pub volume_snapshot_class_name: Option<String>,
    /// Where the snapshot comes from.
    pub source: ContentSource,
}

/// A reference to an object.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reference {
    /// Its kind.
    pub kind: Option<String>,
    /// Its namespace.
    pub namespace: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Its UID.
    pub uid: Option<String>,
    /// Version of the API.
    pub api_version: Option<String>,
    /// The object's version when the reference was written.
    pub resource_version: Option<String>,
    /// Not used.
    pub field_path: Option<String>,
}

/// Where a snapshot comes from: exactly one of the two.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContentSource {
    /// The driver's ID of the volume that a snapshot is taken of.
    pub volume_handle: Option<String>,
    /// The driver's ID of a snapshot that exists.
    pub snapshot_handle: Option<String>,
}

/// What the driver said of it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContentStatus {
    /// The driver's ID of the snapshot.
    pub snapshot_handle: Option<String>,
    /// The moment that the snapshot shows, in nanoseconds since 1970.
    pub creation_time: Option<i64>,
    /// A volume restored from it must have at least so many bytes.
    #[schemars(range(min = 0))]
    pub restore_size: Option<i64>,
    /// Whether a volume can be restored from it.
    pub ready_to_use: Option<bool>,
    /// What went wrong last.
    pub error: Option<Failure>,
}

/// A request for snapshots of several volumes that show one moment.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct VolumeGroupSnapshot {
    /// What is wanted.
    pub spec: GroupSpec,
    /// What there is.
    pub status: Option<GroupStatus>,
}

/// What there is.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupStatus {
    /// The content that this group snapshot is bound to.
    pub bound_volume_group_snapshot_content_name: Option<String>,
    /// The moment that the snapshots show.
    pub creation_time: Option<Time>,
    /// Whether volumes can be restored from all of them.
    pub ready_to_use: Option<bool>,
    /// What went wrong last.
    pub error: Option<Failure>,
}

/// A group snapshot in the storage system.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct VolumeGroupSnapshotContent {
    /// Which group snapshot it is, and whose.
    pub spec: GroupContentSpec,
    /// What the driver said of it.
    pub status: Option<GroupContentStatus>,
}

/// Which group snapshot it is, and whose.
#[derive(Debug, Clone, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupContentSpec {
    /// The VolumeGroupSnapshot that this content belongs to.
    #[x_kube(merge_strategy = MapMerge::Atomic, validation = Rule::new("has(self.name) && has(self.__namespace__)").message("both volumeGroupSnapshotRef.name and volumeGroupSnapshotRef.namespace must be set"))]
    pub volume_group_snapshot_ref: Reference,
    /// Delete removes the group snapshot from the storage system with this object, Retain keeps it.
    pub deletion_policy: DeletionPolicy,
    /// Name of the CSI driver.
    pub driver: String,
    /// The class that it was made with.
    pub volume_group_snapshot_class_name: Option<String>,
    /// Where the snapshots come from. It cannot be changed.
    pub source: GroupContentSource,
}

/// What the driver said of it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupContentStatus {
    /// The driver's ID of the group snapshot.
    pub volume_group_snapshot_handle: Option<String>,
    /// The moment that the snapshots show.
    pub creation_time: Option<Time>,
    /// Whether volumes can be restored from all of them.
    pub ready_to_use: Option<bool>,
    /// What went wrong last.
    pub error: Option<Failure>,
    /// The snapshots of the group.
    pub volume_snapshot_handle_pair_list: Option<Vec<Pair>>,
}

/// A snapshot of a group.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pair {
    /// The driver's ID of the volume.
    pub volume_handle: String,
    /// The driver's ID of the snapshot.
    pub snapshot_handle: String,
}
