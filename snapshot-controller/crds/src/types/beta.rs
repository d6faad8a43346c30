//! Versions `v1beta1` of both groups: fewer rules, and other fields in places.
//!
//! For single snapshots this version exists only for objects that a cluster stored long ago; it is not served.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::Serialize;

use super::field::{DeletionPolicy, Failure, Quantity, Time};
use super::group::{GroupContentSource, GroupSpec};

/// A request for a snapshot of a volume, or for one that is in the storage system already.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct VolumeSnapshot {
    /// The requested snapshot.
    pub spec: SnapshotSpec,
    /// The observed state.
    pub status: Option<SnapshotStatus>,
}

/// The requested snapshot.
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
    /// A VolumeSnapshotContent for an existing snapshot.
    pub volume_snapshot_content_name: Option<String>,
}

/// The observed state.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotStatus {
    /// The content that this snapshot is bound to.
    pub bound_volume_snapshot_content_name: Option<String>,
    /// The point in time of the snapshot.
    pub creation_time: Option<Time>,
    /// Whether a volume can be restored from it.
    pub ready_to_use: Option<bool>,
    /// Minimum size of a volume restored from it.
    pub restore_size: Option<Quantity>,
    /// The last error.
    pub error: Option<Failure>,
}

/// A snapshot in the storage system.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct VolumeSnapshotContent {
    /// The snapshot, and the VolumeSnapshot that it belongs to.
    pub spec: ContentSpec,
    /// The state that the driver reports.
    pub status: Option<ContentStatus>,
}

/// The snapshot, and the VolumeSnapshot that it belongs to.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContentSpec {
    /// The VolumeSnapshot that this content belongs to.
    pub volume_snapshot_ref: Reference,
    /// Delete removes the snapshot from the storage system with this object, Retain keeps it.
    pub deletion_policy: DeletionPolicy,
    /// Name of the CSI driver.
    pub driver: String,
    /// The class that it was created with.
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
    /// The driver's ID of an existing snapshot.
    pub snapshot_handle: Option<String>,
}

/// The state that the driver reports.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContentStatus {
    /// The driver's ID of the snapshot.
    pub snapshot_handle: Option<String>,
    /// The point in time of the snapshot, in nanoseconds since 1970.
    pub creation_time: Option<i64>,
    /// Minimum size of a volume restored from it, in bytes.
    #[schemars(range(min = 0))]
    pub restore_size: Option<i64>,
    /// Whether a volume can be restored from it.
    pub ready_to_use: Option<bool>,
    /// The last error.
    pub error: Option<Failure>,
}

/// A request for snapshots of several volumes at one point in time.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct VolumeGroupSnapshot {
    /// The requested group snapshot.
    pub spec: GroupSpec,
    /// The observed state.
    pub status: Option<GroupStatus>,
}

/// The observed state.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupStatus {
    /// The content that this group snapshot is bound to.
    pub bound_volume_group_snapshot_content_name: Option<String>,
    /// The point in time of the snapshots.
    pub creation_time: Option<Time>,
    /// Whether volumes can be restored from all of them.
    pub ready_to_use: Option<bool>,
    /// The last error.
    pub error: Option<Failure>,
}

/// A group snapshot in the storage system.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct VolumeGroupSnapshotContent {
    /// The group snapshot, and the VolumeGroupSnapshot that it belongs to.
    pub spec: GroupContentSpec,
    /// The state that the driver reports.
    pub status: Option<GroupContentStatus>,
}

/// The group snapshot, and the VolumeGroupSnapshot that it belongs to.
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
    /// The class that it was created with.
    pub volume_group_snapshot_class_name: Option<String>,
    /// Where the snapshots come from. It cannot be changed.
    pub source: GroupContentSource,
}

/// The state that the driver reports.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupContentStatus {
    /// The driver's ID of the group snapshot.
    pub volume_group_snapshot_handle: Option<String>,
    /// The point in time of the snapshots.
    pub creation_time: Option<Time>,
    /// Whether volumes can be restored from all of them.
    pub ready_to_use: Option<bool>,
    /// The last error.
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
