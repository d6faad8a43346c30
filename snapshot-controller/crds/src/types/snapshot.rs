//! `snapshot.storage.k8s.io/v1`

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::Serialize;

use super::field::{DeletionPolicy, Failure, Quantity, Time};

/// A request for a snapshot of a volume, or for one that is in the storage system already.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct VolumeSnapshot {
    /// What is wanted.
    pub spec: SnapshotSpec,
    /// What there is. Only a snapshot whose content points back at it is bound to it.
    pub status: Option<SnapshotStatus>,
}

/// What is wanted.
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
    /// A VolumeSnapshotContent that an administrator made for a snapshot which exists.
    #[x_kube(validation = Rule::new("self == oldSelf").message("volumeSnapshotContentName is immutable"))]
    pub volume_snapshot_content_name: Option<String>,
}

/// What there is.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotStatus {
    /// The content that this snapshot is bound to, or going to be. Whoever relies on it must see that
    /// the content names this snapshot in turn.
    pub bound_volume_snapshot_content_name: Option<String>,
    /// The moment that the snapshot shows, as the storage system tells it.
    pub creation_time: Option<Time>,
    /// Whether a volume can be restored from it. Absent as long as nobody knows.
    pub ready_to_use: Option<bool>,
    /// A volume restored from it must be at least this large.
    pub restore_size: Option<Quantity>,
    /// What went wrong last.
    pub error: Option<Failure>,
    /// The VolumeGroupSnapshot that this snapshot was taken with.
    pub volume_group_snapshot_name: Option<String>,
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
    /// The class that it was made with. Its parameters may have changed since.
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
    /// Its UID: another object of the same name is not meant.
    pub uid: Option<String>,
    /// Version of the API.
    pub api_version: Option<String>,
    /// The object's version when the reference was written. Nobody looks at it.
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
    /// The driver's ID of a snapshot that exists.
    #[x_kube(validation = Rule::new("self == oldSelf").message("snapshotHandle is immutable"))]
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
    /// Whether a volume can be restored from it. Absent as long as nobody knows.
    pub ready_to_use: Option<bool>,
    /// What went wrong last.
    pub error: Option<Failure>,
    /// The driver's ID of the group snapshot that it was taken with.
    pub volume_group_snapshot_handle: Option<String>,
}
