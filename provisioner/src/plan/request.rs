//! Requests of the provisioner to the API server and the driver.
//!
//! A CreateVolume request is pinned once, and repeated word for word until the driver has given a final answer. It
//! outlives the process: a driver that is called again, maybe by another process, must get the same request.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_capability::{
    AccessMode as Access, AccessType, BlockVolume, MountVolume,
};
use csi_proto::csi::volume_content_source::{SnapshotSource, Type, VolumeSource};
use csi_proto::csi::{
    CapacityRange, CreateVolumeRequest, DeleteVolumeRequest, GetCapacityRequest, VolumeCapability,
    VolumeContentSource,
};
use serde::{Deserialize, Serialize};
use sidecar::controller::request::{self, OfKind, Requests};
use sidecar::csi::Migrated;
use sidecar::csi::access_mode::AccessMode;
use sidecar::why::Kind;

use super::claim::{Announcement, Failure};
use super::in_flight::{Asked, Unsaved};
use super::journal::Intent;
use super::pv::PvTemplate;
use super::topology::Requirement;
use super::{Provisioner, Settings};
use crate::model::{
    AttributesClass, Claim, Content, List, SecretRef, Snapshot, Text, Volume, VolumeDetail,
    VolumeMode,
};

pub use sidecar::controller::request::Secrets;

/// A request of the provisioner.
pub type Request = request::Request<Provisioner>;
/// Reply to a [`Request`].
pub type Reply = request::Reply<Provisioner>;
/// A write of the provisioner.
pub type Write = request::Write<Provisioner>;

/// An object, by its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// PersistentVolumeClaim, `namespace/name`.
    Claim(Text),
    /// PersistentVolume.
    Volume(Text),
    /// VolumeSnapshot, `namespace/name`.
    Snapshot(Text),
    /// VolumeSnapshotContent.
    Content(Text),
    /// PersistentVolumeClaim that will be cloned, `namespace/name`. No cache keeps it.
    SourceClaim(Text),
    /// PersistentVolume that will be cloned. No cache keeps it.
    SourceVolume(Text),
    /// PersistentVolumeClaim of this namespace and name, whatever its phase. LIST, which the watch already requires: bound
    /// claims are not cached.
    Owner(Text, Text),
    /// VolumeAttributesClass.
    AttributesClass(Text),
}

/// The part of a read or written object that an attempt sees in addition to the caches.
pub enum Found {
    /// The object is written; the attempt needs no part of it.
    Written,
    /// A PersistentVolume as the cache would keep it.
    Volume(Arc<Volume>),
    /// [`Object::Snapshot`].
    Snapshot(Box<Snapshot>),
    /// [`Object::Content`].
    Content(Box<Content>),
    /// [`Object::SourceClaim`] or [`Object::Owner`].
    SourceClaim(Box<Claim>),
    /// [`Object::SourceVolume`].
    SourceVolume(Box<VolumeDetail>),
    /// [`Object::AttributesClass`].
    AttributesClass(Box<AttributesClass>),
}

/// Purpose of a write.
#[derive(Clone, Debug, PartialEq)]
pub enum Purpose {
    /// Adds or removes the finalizer of a volume that is not deleted.
    Upkeep,
    /// The driver has deleted the volume: deletes the PersistentVolume.
    Remove,
    /// The driver has deleted the volume: removes the finalizer from the PersistentVolume.
    Release,
    /// Adds a finalizer to the data source of a volume.
    ProtectSource,
    /// Removes the finalizer from the data source of a volume.
    ReleaseSource,
    /// Creates the PersistentVolume of a volume.
    Save(Unsaved),
    /// Removes the selected node from the claim after this failure, so that the scheduler selects another one.
    Unselect(Failure),
    /// Node deployment: annotates the claim with this node.
    Take,
}

// `Create` is repeated until the driver gives a final answer. `Discard` deletes an unusable volume, and `Delete` one
// that had a PersistentVolume. `GetCapacity` is called for a claim that no node has taken.
sidecar::calls! {
    Create(CreateVolumeRequest, Arc<PinnedRequest>),
    Discard(DeleteVolumeRequest, Discard),
    Delete(DeleteVolumeRequest),
    GetCapacity(GetCapacityRequest),
}

/// Context of a DeleteVolume call for an unusable volume.
#[derive(Clone, Debug, PartialEq)]
pub struct Discard {
    /// The intent that the journal must have before the volume is deleted: the process that leads now may have saved
    /// the volume.
    pub intent: Option<(Arc<PinnedRequest>, Intent)>,
    /// Label `migrated` of the call's metrics.
    pub migrated: Migrated,
}

/// An event of type Normal on a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The claim.
    pub claim: Arc<Claim>,
    /// The announcement, with reason and text of the event.
    pub announcement: Announcement,
}

impl Object {
    /// The snapshot of this namespace and name.
    #[must_use]
    pub fn snapshot(namespace: &str, name: &str) -> Self {
        Self::Snapshot(format!("{namespace}/{name}").into())
    }
}

impl OfKind for Object {
    fn kind(&self) -> &'static str {
        match self {
            Self::Claim(_) | Self::SourceClaim(_) | Self::Owner(..) => Kind::Claim.name(),
            Self::Volume(_) | Self::SourceVolume(_) => Kind::Volume.name(),
            Self::Snapshot(_) => Kind::Snapshot.name(),
            Self::Content(_) => Kind::Content.name(),
            Self::AttributesClass(_) => Kind::AttributesClass.name(),
        }
    }
}

impl request::Object for Object {
    fn key(&self) -> &str {
        match self {
            Self::Claim(key)
            | Self::Volume(key)
            | Self::Snapshot(key)
            | Self::Content(key)
            | Self::SourceClaim(key)
            | Self::SourceVolume(key)
            | Self::Owner(key, _)
            | Self::AttributesClass(key) => key,
        }
    }

    fn selector(&self) -> Option<(&'static str, Cow<'_, str>)> {
        match self {
            Self::Owner(_, name) => Some(("fieldSelector", format!("metadata.name={name}").into())),
            Self::Claim(_)
            | Self::Volume(_)
            | Self::Snapshot(_)
            | Self::Content(_)
            | Self::SourceClaim(_)
            | Self::SourceVolume(_)
            | Self::AttributesClass(_) => None,
        }
    }
}

impl Requests for Provisioner {
    type Object = Object;
    type Found = Found;
    type Purpose = Purpose;
    type Secret = SecretRef;
    type Calls = Call;
    type Event = Event;
}

/// Everything that is settled before the first CreateVolume, except for the values of the Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PinnedRequest {
    /// Name of the volume in the storage system, and of its PersistentVolume.
    pub name: String,
    /// CSI's access modes, by name, in the claim's order.
    pub modes: Vec<String>,
    /// The parameters of the class that the driver gets.
    pub parameters: BTreeMap<String, String>,
    /// Parameters of the VolumeAttributesClass.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub mutable_parameters: BTreeMap<String, String>,
    /// The data source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<ContentSource>,
    /// The requisite and preferred topologies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requirement: Option<Requirement>,
    /// The selected node, if the driver constrains where volumes are accessible; empty where there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// `metadata.uid` of the class.
    pub class_uid: String,
    /// Name of the VolumeSnapshot, in the claim's namespace, that loses its finalizer after success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// Template of the PersistentVolume.
    #[serde(rename = "blueprint")]
    pub pv_template: PvTemplate,
}

/// Data source of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ContentSource {
    /// The snapshot of this handle.
    Snapshot(String),
    /// The volume of this handle.
    Volume(String),
}

impl Asked for PinnedRequest {
    /// Compares Secrets by name: for some drivers the Secret determines the storage system.
    fn asks_the_same(&self, other: &Self) -> bool {
        let asked = |of: &Self| (of.pv_template.requested, of.capabilities());
        self.name == other.name
            && self.pv_template.secrets.provisioner == other.pv_template.secrets.provisioner
            && self.parameters == other.parameters
            && self.mutable_parameters == other.mutable_parameters
            && self.source == other.source
            && self.requirement == other.requirement
            && asked(self) == asked(other)
    }
}

impl PinnedRequest {
    /// The CreateVolume request, with the current values of the Secret.
    #[must_use]
    pub fn request(&self, secrets: Secrets) -> CreateVolumeRequest {
        CreateVolumeRequest {
            name: self.name.clone(),
            capacity_range: Some(CapacityRange {
                required_bytes: self.pv_template.requested,
                limit_bytes: 0,
            }),
            volume_capabilities: self.capabilities(),
            parameters: self.parameters.clone(),
            secrets,
            volume_content_source: self.source.as_ref().map(ContentSource::to_csi),
            accessibility_requirements: self.requirement.as_ref().map(Requirement::to_csi),
            mutable_parameters: self.mutable_parameters.clone(),
        }
    }

    /// The Secret that CreateVolume needs, if one is needed.
    #[must_use]
    pub fn secret(&self) -> Option<SecretRef> {
        let named = self.pv_template.secrets.provisioner.as_ref()?;
        Some(SecretRef {
            namespace: named.namespace.as_str().into(),
            name: named.name.as_str().into(),
        })
    }

    /// Whether the request contains everything that the driver looks at: it has neither a Secret, whose values may have
    /// changed by the next call, nor a data source, which may be deleted meanwhile.
    #[must_use]
    pub fn is_self_contained(&self) -> bool {
        self.source.is_none() && self.pv_template.secrets.provisioner.is_none()
    }

    /// One capability for each access mode.
    #[must_use]
    pub fn capabilities(&self) -> Vec<VolumeCapability> {
        let pv_template = &self.pv_template;
        let access_type = match pv_template.volume_mode.as_deref().map(VolumeMode::parse) {
            Some(VolumeMode::Block) => AccessType::Block(BlockVolume {}),
            Some(VolumeMode::Filesystem) | None => AccessType::Mount(MountVolume {
                fs_type: pv_template.fs_type.clone(),
                mount_flags: pv_template.mount_options.clone(),
                volume_mount_group: String::new(),
            }),
        };
        let capability = |mode: &String| VolumeCapability {
            access_mode: Some(Access {
                mode: Mode::from_str_name(mode).unwrap_or(Mode::Unknown).into(),
            }),
            access_type: Some(access_type.clone()),
        };
        self.modes.iter().map(capability).collect()
    }
}

impl ContentSource {
    fn to_csi(&self) -> VolumeContentSource {
        let source = match self {
            Self::Snapshot(id) => Type::Snapshot(SnapshotSource {
                snapshot_id: id.clone(),
            }),
            Self::Volume(id) => Type::Volume(VolumeSource {
                volume_id: id.clone(),
            }),
        };
        VolumeContentSource {
            r#type: Some(source),
        }
    }
}

/// CSI's access modes for those of a claim, each by itself. `modern` tells whether the driver has
/// `SINGLE_NODE_MULTI_WRITER`.
///
/// # Errors
/// The first mode without counterpart in CSI.
pub fn modes(modes: &List, modern: bool) -> Result<Vec<Mode>, String> {
    let mode = |text: &str| AccessMode::parse(text).map(|mode| mode.mode(modern));
    modes
        .iter()
        .map(|text| mode(text).ok_or_else(|| text.to_string()))
        .collect()
}

/// Why no volume name can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// `--volume-name-prefix=`
    #[error("volume name prefix cannot be of length 0; set --volume-name-prefix")]
    NoPrefix,
    /// The claim has no UID.
    #[error("corrupted PVC object, it is missing UID")]
    NoUid,
    /// `--volume-name-uuid-length` is out of range.
    #[error("--volume-name-uuid-length={0} is not -1 or a number from 0 to 32")]
    Length(i64),
}

/// `--volume-name-uuid-length` that puts the whole UID into the name.
pub const WHOLE_UID: i64 = -1;

/// Name of the volume for the claim of this UID.
///
/// # Errors
/// The part of the name that is missing or invalid.
pub fn volume_name(settings: &Settings, uid: &str) -> Result<String, NameError> {
    let prefix = &settings.volume_name_prefix;
    if prefix.is_empty() {
        return Err(NameError::NoPrefix);
    }
    if uid.is_empty() {
        return Err(NameError::NoUid);
    }
    let length = settings.volume_name_uuid_length;
    if length == WHOLE_UID {
        return Ok(format!("{prefix}-{uid}"));
    }
    let count = usize::try_from(length).ok().filter(|count| *count <= 32);
    let count = count.ok_or(NameError::Length(length))?;
    let characters = uid.chars().filter(|c| *c != '-').take(count);
    Ok(format!("{prefix}-{}", characters.collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "11111111-2222-3333-4444-555555555555";

    #[test]
    fn rows_50_to_54_names() {
        let named = |prefix: &str, length: i64, uid: &str| {
            let settings = Settings {
                volume_name_prefix: prefix.into(),
                volume_name_uuid_length: length,
                ..Settings::default()
            };
            volume_name(&settings, uid)
        };
        assert_eq!(named("pvc", -1, UID), Ok(format!("pvc-{UID}")), "50");
        assert_eq!(named("p", 8, UID), Ok("p-11111111".into()), "51");
        assert_eq!(named("pvc", 12, UID), Ok("pvc-111111112222".into()), "52");
        assert_eq!(named("pvc", 0, UID), Ok("pvc-".into()), "53");
        assert_eq!(named("pvc", 32, "short"), Ok("pvc-short".into()));
        assert_eq!(named("", -1, UID), Err(NameError::NoPrefix), "54");
        assert_eq!(named("pvc", -1, ""), Err(NameError::NoUid), "54");
        for length in [33, -2, i64::MIN, i64::MAX] {
            assert_eq!(named("pvc", length, UID), Err(NameError::Length(length)));
        }
    }

    #[test]
    fn rows_57_to_62_access_modes() {
        use Mode::{
            MultiNodeMultiWriter, MultiNodeReaderOnly, SingleNodeMultiWriter,
            SingleNodeSingleWriter, SingleNodeWriter,
        };
        let rows = [
            (
                "57",
                "ReadOnlyMany ReadWriteOnce",
                false,
                Ok(vec![MultiNodeReaderOnly, SingleNodeWriter]),
            ),
            ("58", "ReadWriteMany", false, Ok(vec![MultiNodeMultiWriter])),
            ("59", "ReadWriteOncePod", false, Ok(vec![SingleNodeWriter])),
            (
                "59 modern",
                "ReadWriteOncePod",
                true,
                Ok(vec![SingleNodeSingleWriter]),
            ),
            ("60", "ReadWriteOnce", true, Ok(vec![SingleNodeMultiWriter])),
            ("61", "ReadWriteOnce Bogus", false, Err("Bogus".to_owned())),
            ("62", "", false, Ok(vec![])),
            (
                "no de-duplication",
                "ReadWriteOnce ReadWriteOnce",
                false,
                Ok(vec![SingleNodeWriter, SingleNodeWriter]),
            ),
        ];
        for (row, text, modern, expected) in rows {
            let list: List = text.split_whitespace().map(Into::into).collect();
            let names =
                |modes: Vec<Mode>| -> Vec<_> { modes.iter().map(Mode::as_str_name).collect() };
            assert_eq!(
                modes(&list, modern).map(names),
                expected.map(names),
                "{row}"
            );
        }
    }
}
