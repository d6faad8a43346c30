//! `snapshot.storage.k8s.io/v1`

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::Serialize;

use super::field::{DeletionPolicy, Failure, Quantity, Time};

/// A request for a snapshot of a volume, or for one that is in the storage system already.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct VolumeSnapshot {
    /// The requested snapshot.
    pub spec: SnapshotSpec,
    /// The observed state. A snapshot is bound only if its content refers back to it.
    pub status: Option<SnapshotStatus>,
}

/// The requested snapshot.
#[derive(Debug, Clone, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotSpec {
    /// Where the snapshot comes from. It cannot be changed.
    pub source: SnapshotSource,
    /// Name of the VolumeSnapshotClass. Without one, the default class of the volume's driver is taken
    /// and written here.
    #[x_kube(validation = Rule::new("size(self) > 0").message("volumeSnapshotClassName must not be the empty string when set"))]
    pub volume_snapshot_class_name: Option<String>,
}

/// Where a snapshot comes from: exactly one of the two.
#[derive(Debug, Clone, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(oldSelf.persistentVolumeClaimName) || has(self.persistentVolumeClaimName)").message("persistentVolumeClaimName is required once set"),
    validation = Rule::new("!has(oldSelf.volumeSnapshotContentName) || has(self.volumeSnapshotContentName)").message("volumeSnapshotContentName is required once set"),
    validation = Rule::new("(has(self.volumeSnapshotContentName) && !has(self.persistentVolumeClaimName)) || (!has(self.volumeSnapshotContentName) && has(self.persistentVolumeClaimName))").message("exactly one of volumeSnapshotContentName and persistentVolumeClaimName must be set"),
)]
pub struct SnapshotSource {
    /// A claim in the same namespace: a snapshot is taken of its volume.
    #[x_kube(validation = Rule::new("self == oldSelf").message("persistentVolumeClaimName is immutable"))]
    pub persistent_volume_claim_name: Option<String>,
    /// The administrator's VolumeSnapshotContent for an existing snapshot.
    #[x_kube(validation = Rule::new("self == oldSelf").message("volumeSnapshotContentName is immutable"))]
    pub volume_snapshot_content_name: Option<String>,
}

/// The observed state.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotStatus {
    /// The content that this snapshot is bound to, or will be. Before relying on it, check that
    /// the content names this snapshot in turn.
    pub bound_volume_snapshot_content_name: Option<String>,
    /// The point in time of the snapshot, as the storage system reports it.
    pub creation_time: Option<Time>,
    /// Whether a volume can be restored from it. Absent while unknown.
    pub ready_to_use: Option<bool>,
    /// Minimum size of a volume restored from it.
    pub restore_size: Option<Quantity>,
    /// The last error.
    pub error: Option<Failure>,
    /// The VolumeGroupSnapshot that this snapshot was taken with.
    pub volume_group_snapshot_name: Option<String>,
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
#[derive(Debug, Clone, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(oldSelf.sourceVolumeMode) || has(self.sourceVolumeMode)").message("sourceVolumeMode is required once set"))]
pub struct ContentSpec {
    /// The VolumeSnapshot that this content belongs to. The controller adds the UID when the two are
    /// bound.
    #[x_kube(merge_strategy = MapMerge::Atomic)]
    pub volume_snapshot_ref: SnapshotReference,
    /// Delete removes the snapshot from the storage system with this object, Retain keeps it.
    pub deletion_policy: DeletionPolicy,
    /// Name of the CSI driver.
    pub driver: String,
    /// The class that it was created with. Its parameters may have changed since.
    pub volume_snapshot_class_name: Option<String>,
    /// Where the snapshot comes from. It cannot be changed.
    pub source: ContentSource,
    /// Filesystem or Block: how the volume was used when the snapshot was taken. Claims restored from
    /// it must use theirs in the same way, unless an administrator allows another.
    #[x_kube(validation = Rule::new("self == oldSelf").message("sourceVolumeMode is immutable"))]
    pub source_volume_mode: Option<String>,
}

/// A reference to a VolumeSnapshot.
#[derive(Debug, Clone, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.name) && has(self.__namespace__)").message("both spec.volumeSnapshotRef.name and spec.volumeSnapshotRef.namespace must be set"))]
pub struct SnapshotReference {
    /// VolumeSnapshot.
    pub kind: Option<String>,
    /// Its namespace.
    pub namespace: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Its UID, which rules out another object of the same name.
    pub uid: Option<String>,
    /// Version of the API.
    pub api_version: Option<String>,
    /// The object's version when the reference was written. It is not used.
    pub resource_version: Option<String>,
    /// Not used.
    pub field_path: Option<String>,
}

/// Where a snapshot comes from: exactly one of the two.
#[derive(Debug, Clone, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(oldSelf.volumeHandle) || has(self.volumeHandle)").message("volumeHandle is required once set"),
    validation = Rule::new("!has(oldSelf.snapshotHandle) || has(self.snapshotHandle)").message("snapshotHandle is required once set"),
    validation = Rule::new("(has(self.volumeHandle) && !has(self.snapshotHandle)) || (!has(self.volumeHandle) && has(self.snapshotHandle))").message("exactly one of volumeHandle and snapshotHandle must be set"),
)]
pub struct ContentSource {
    /// The driver's ID of the volume that a snapshot is taken of.
    #[x_kube(validation = Rule::new("self == oldSelf").message("volumeHandle is immutable"))]
    pub volume_handle: Option<String>,
    /// The driver's ID of an existing snapshot.
    #[x_kube(validation = Rule::new("self == oldSelf").message("snapshotHandle is immutable"))]
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
    /// Whether a volume can be restored from it. Absent while unknown.
    pub ready_to_use: Option<bool>,
    /// The last error.
    pub error: Option<Failure>,
    /// The driver's ID of the group snapshot that it was taken with.
    pub volume_group_snapshot_handle: Option<String>,
}
