//! `groupsnapshot.storage.k8s.io/v1`, and `v1beta2` with the same fields and rules.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::Serialize;

use super::field::{DeletionPolicy, Failure, Selector, Time};

/// A request for snapshots of several volumes at one point in time.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct VolumeGroupSnapshot {
    /// The requested group snapshot.
    pub spec: GroupSpec,
    /// The observed state. A group is bound only if its content refers back to it.
    pub status: Option<GroupStatus>,
}

/// The requested group snapshot.
#[derive(Debug, Clone, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupSpec {
    /// Where the snapshots come from. It cannot be changed.
    pub source: GroupSource,
    /// Name of the VolumeGroupSnapshotClass. Without one, the default class of the volumes' driver is
    /// taken and written here.
    #[x_kube(validation = Rule::new("size(self) > 0").message("volumeGroupSnapshotClassName must not be the empty string when set"))]
    pub volume_group_snapshot_class_name: Option<String>,
}

/// Where the snapshots come from: exactly one of the two.
#[derive(Debug, Clone, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(oldSelf.selector) || has(self.selector)").message("selector is required once set"),
    validation = Rule::new("!has(oldSelf.volumeGroupSnapshotContentName) || has(self.volumeGroupSnapshotContentName)").message("volumeGroupSnapshotContentName is required once set"),
    validation = Rule::new("(has(self.selector) && !has(self.volumeGroupSnapshotContentName)) || (!has(self.selector) && has(self.volumeGroupSnapshotContentName))").message("exactly one of selector and volumeGroupSnapshotContentName must be set"),
)]
pub struct GroupSource {
    /// Claims in the same namespace, by their labels: a snapshot is taken of each one's volume.
    #[x_kube(merge_strategy = MapMerge::Atomic, validation = Rule::new("self == oldSelf").message("selector is immutable"))]
    pub selector: Option<Selector>,
    /// The administrator's VolumeGroupSnapshotContent for an existing group snapshot.
    #[x_kube(validation = Rule::new("self == oldSelf").message("volumeGroupSnapshotContentName is immutable"))]
    pub volume_group_snapshot_content_name: Option<String>,
}

/// The observed state.
#[derive(Debug, Clone, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupStatus {
    /// The content that this group snapshot is bound to, or will be.
    #[x_kube(validation = Rule::new("self == oldSelf").message("boundVolumeGroupSnapshotContentName is immutable once set"))]
    pub bound_volume_group_snapshot_content_name: Option<String>,
    /// The point in time of the snapshots, as the storage system reports it.
    pub creation_time: Option<Time>,
    /// Whether volumes can be restored from all of them. Absent while unknown.
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
    /// The VolumeGroupSnapshot that this content belongs to. The controller adds the UID when the two
    /// are bound.
    #[x_kube(merge_strategy = MapMerge::Atomic)]
    pub volume_group_snapshot_ref: GroupReference,
    /// Delete removes the group snapshot from the storage system with this object, Retain keeps it.
    pub deletion_policy: DeletionPolicy,
    /// Name of the CSI driver.
    #[x_kube(validation = Rule::new("self == oldSelf").message("driver is immutable once set"))]
    pub driver: String,
    /// The class that it was created with.
    #[x_kube(validation = Rule::new("self == oldSelf").message("volumeGroupSnapshotClassName is immutable once set"))]
    pub volume_group_snapshot_class_name: Option<String>,
    /// Where the snapshots come from. It cannot be changed.
    pub source: GroupContentSource,
}

/// A reference to a VolumeGroupSnapshot.
#[derive(Debug, Clone, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.name) && has(self.__namespace__)").message("both volumeGroupSnapshotRef.name and volumeGroupSnapshotRef.namespace must be set"),
    validation = Rule::new("self.name == oldSelf.name && self.__namespace__ == oldSelf.__namespace__").message("volumeGroupSnapshotRef.name and volumeGroupSnapshotRef.namespace are immutable"),
    validation = Rule::new("!has(oldSelf.uid) || (has(self.uid) && self.uid == oldSelf.uid)").message("volumeGroupSnapshotRef.uid is immutable once set"),
)]
pub struct GroupReference {
    /// VolumeGroupSnapshot.
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

/// Where the snapshots come from: exactly one of the two.
#[derive(Debug, Clone, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(oldSelf.volumeHandles) || has(self.volumeHandles)").message("volumeHandles is required once set"),
    validation = Rule::new("!has(oldSelf.groupSnapshotHandles) || has(self.groupSnapshotHandles)").message("groupSnapshotHandles is required once set"),
    validation = Rule::new("(has(self.volumeHandles) && !has(self.groupSnapshotHandles)) || (!has(self.volumeHandles) && has(self.groupSnapshotHandles))").message("exactly one of volumeHandles and groupSnapshotHandles must be set"),
)]
pub struct GroupContentSource {
    /// The driver's IDs of the volumes that snapshots are taken of.
    #[x_kube(validation = Rule::new("self == oldSelf").message("volumeHandles is immutable"))]
    pub volume_handles: Option<Vec<String>>,
    /// The driver's IDs of an existing group snapshot.
    #[x_kube(validation = Rule::new("self == oldSelf").message("groupSnapshotHandles is immutable"))]
    pub group_snapshot_handles: Option<GroupHandles>,
}

/// The driver's IDs of a group snapshot.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupHandles {
    /// The driver's ID of the group snapshot.
    pub volume_group_snapshot_handle: String,
    /// The driver's IDs of all its snapshots.
    pub volume_snapshot_handles: Vec<String>,
}

/// The state that the driver reports.
#[derive(Debug, Clone, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupContentStatus {
    /// The driver's ID of the group snapshot.
    #[x_kube(validation = Rule::new("self == oldSelf").message("volumeGroupSnapshotHandle is immutable once set"))]
    pub volume_group_snapshot_handle: Option<String>,
    /// The point in time of the snapshots, as the storage system reports it.
    pub creation_time: Option<Time>,
    /// Whether volumes can be restored from all of them. Absent while unknown.
    pub ready_to_use: Option<bool>,
    /// The last error.
    pub error: Option<Failure>,
    /// The snapshots of the group.
    pub volume_snapshot_info_list: Option<Vec<Member>>,
}

/// A snapshot of a group.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// The driver's ID of the volume.
    pub volume_handle: Option<String>,
    /// The driver's ID of the snapshot.
    pub snapshot_handle: Option<String>,
    /// The point in time of the snapshot, in nanoseconds since 1970.
    pub creation_time: Option<i64>,
    /// Whether a volume can be restored from it.
    pub ready_to_use: Option<bool>,
    /// Minimum size of a volume restored from it, in bytes.
    pub restore_size: Option<i64>,
}

/// A class of group snapshots: driver, parameters and deletion policy.
#[derive(Debug, Clone, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeGroupSnapshotClass {
    /// Name of the CSI driver.
    #[x_kube(validation = Rule::new("self == oldSelf").message("driver is immutable once set"))]
    pub driver: String,
    /// Parameters of each group snapshot for the driver. Keys that begin with csi.storage.k8s.io/ are
    /// for the sidecar; others are the driver's own.
    #[x_kube(validation = Rule::new("self == oldSelf").message("parameters are immutable once set"))]
    pub parameters: Option<BTreeMap<String, String>>,
    /// For contents of this class: Delete removes the group snapshot from the storage system with the
    /// content, Retain keeps it.
    #[x_kube(validation = Rule::new("self == oldSelf").message("deletionPolicy is immutable once set"))]
    pub deletion_policy: DeletionPolicy,
}
