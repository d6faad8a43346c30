//! Snapshots, group snapshots and CustomResourceDefinitions.

use serde::Deserialize;
use sidecar::snapshot::{MISBOUND, MISSING};

use super::node::LabelSelector;
use super::{Many, Meta, ObjectRef, Pairs, Text, Time};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    pub metadata: Meta,
    pub spec: SnapshotSpec,
    pub status: Option<SnapshotStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotSpec {
    pub source: SnapshotSource,
    pub volume_snapshot_class_name: Option<Text>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotSource {
    pub persistent_volume_claim_name: Text,
    pub volume_snapshot_content_name: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotStatus {
    pub bound_volume_snapshot_content_name: Text,
    pub volume_group_snapshot_name: Text,
    pub ready_to_use: bool,
    pub restore_size: Text,
    pub creation_time: Time,
    pub error: Option<SnapshotError>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SnapshotError {
    pub time: Time,
    pub message: Text,
}

impl Snapshot {
    /// Name of the content that it is bound to, or that its source names.
    pub fn content(&self) -> Option<&str> {
        let bound = self.status.as_ref();
        let bound = bound.map(|status| &*status.bound_volume_snapshot_content_name);
        let named = &*self.spec.source.volume_snapshot_content_name;
        let bound = bound.filter(|name| !name.is_empty());
        bound.or((!named.is_empty()).then_some(named))
    }

    /// Whether it was taken once and its content is gone or bound to another snapshot: claims may have been made
    /// from it before.
    pub fn is_lost(&self) -> bool {
        self.status.as_ref().is_some_and(|status| {
            let taken = status.creation_time.0.is_some() || !status.restore_size.is_empty();
            let error = status.error.as_ref();
            taken && error.is_some_and(|error| [MISSING, MISBOUND].contains(&&*error.message))
        })
    }

    /// Whether claims can be made from it.
    pub fn is_ready(&self) -> bool {
        self.status
            .as_ref()
            .is_some_and(|status| status.ready_to_use)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Content {
    pub metadata: Meta,
    pub spec: ContentSpec,
    pub status: Option<ContentStatus>,
}

impl Content {
    /// The driver's handle of the snapshot, once known.
    pub fn handle(&self) -> Option<&str> {
        let status = self.status.as_ref();
        let taken = status.map(|status| &*status.snapshot_handle);
        let named = &*self.spec.source.snapshot_handle;
        let handles = taken.into_iter().chain([named]);
        { handles }.find(|handle| !handle.is_empty())
    }

    /// The error of the driver or of csi-snapshotter.
    pub fn error(&self) -> Option<&SnapshotError> {
        let error = self
            .status
            .as_ref()
            .and_then(|status| status.error.as_ref());
        error.filter(|error| !error.message.is_empty())
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContentSpec {
    pub driver: Text,
    pub source: ContentSource,
    pub deletion_policy: Text,
    pub source_volume_mode: Text,
    pub volume_snapshot_ref: ObjectRef,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContentSource {
    pub snapshot_handle: Text,
    /// Handle of the source volume.
    pub volume_handle: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContentStatus {
    pub snapshot_handle: Text,
    pub ready_to_use: bool,
    pub error: Option<SnapshotError>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SnapshotClass {
    pub metadata: Meta,
    pub driver: Text,
    /// Only the parameters that CSI defines, such as names of Secrets.
    pub parameters: Pairs<false>,
}

impl SnapshotClass {
    /// Whether it is the default for snapshots without a class.
    pub fn is_default(&self) -> bool {
        let annotations = &self.metadata.annotations;
        annotations.get(sidecar::snapshot::DEFAULT_CLASS) == Some("true")
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct GroupSnapshot {
    pub metadata: Meta,
    pub spec: GroupSpec,
    pub status: Option<GroupStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupSpec {
    pub source: GroupSource,
    pub volume_group_snapshot_class_name: Option<Text>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct GroupSource {
    pub selector: Option<LabelSelector>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupStatus {
    pub bound_volume_group_snapshot_content_name: Text,
    pub ready_to_use: bool,
    pub error: Option<SnapshotError>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct GroupContent {
    pub metadata: Meta,
    pub spec: GroupContentSpec,
    pub status: Option<GroupContentStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupContentSpec {
    pub driver: Text,
    pub source: GroupContentSource,
    pub volume_group_snapshot_ref: ObjectRef,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupContentSource {
    /// Handles of the source volumes.
    pub volume_handles: Many<Text>,
    pub group_snapshot_handles: Option<GroupHandles>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupHandles {
    pub volume_group_snapshot_handle: Text,
    pub volume_snapshot_handles: Many<Text>,
}

/// A snapshot in a group.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Member {
    pub volume_handle: Text,
    pub snapshot_handle: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupContentStatus {
    pub volume_group_snapshot_handle: Text,
    /// `v1beta1` has the name `volumeSnapshotHandlePairList`.
    #[serde(alias = "volumeSnapshotHandlePairList")]
    pub volume_snapshot_info_list: Many<Member>,
    pub ready_to_use: bool,
    pub error: Option<SnapshotError>,
}

impl GroupContent {
    /// Its known members.
    pub fn members(&self) -> &[Member] {
        let status = self.status.as_ref();
        status.map_or(&[], |status| &status.volume_snapshot_info_list)
    }

    /// Handles of all snapshots that it names.
    pub fn snapshots(&self) -> impl Iterator<Item = &str> {
        let named = self.spec.source.group_snapshot_handles.iter();
        let named = named.flat_map(|handles| &handles.volume_snapshot_handles);
        let members = self.members().iter().map(|member| &member.snapshot_handle);
        named.chain(members).map(|handle| &**handle)
    }

    /// The group's own handle.
    pub fn handle(&self) -> Option<&str> {
        let status = self.status.as_ref();
        let taken = status.map(|status| &status.volume_group_snapshot_handle);
        let named = self.spec.source.group_snapshot_handles.as_ref();
        let named = named.map(|handles| &handles.volume_group_snapshot_handle);
        taken
            .into_iter()
            .chain(named)
            .map(|handle| &**handle)
            .find(|handle| !handle.is_empty())
    }

    /// Handles of all source volumes.
    pub fn volumes(&self) -> impl Iterator<Item = &str> {
        let members = self.members().iter().map(|member| &member.volume_handle);
        let named = self.spec.source.volume_handles.iter();
        named.chain(members).map(|handle| &**handle)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct GroupClass {
    pub metadata: Meta,
    pub driver: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Populator {
    pub metadata: Meta,
    pub source_kind: SourceKind,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SourceKind {
    pub group: Text,
    pub kind: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Crd {
    pub metadata: Meta,
    pub spec: CrdSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CrdSpec {
    pub versions: Many<CrdVersion>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CrdVersion {
    pub name: Text,
    pub served: bool,
}
