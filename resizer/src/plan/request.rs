//! Requests to the API server and the driver.
//!
//! Requests to the driver have to be reproducible exactly: a driver that is called again after a
//! crash must see the same request.

use csi_proto::csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use csi_proto::csi::{
    CapacityRange, ControllerExpandVolumeRequest, ControllerModifyVolumeRequest, VolumeCapability,
};
use serde_json::Value;
use sidecar::controller::request::{self, Body, OfKind, Part, Patch, Requests};
use sidecar::csi::Migrated;
use sidecar::csi::access_mode::{BadAccessModes, access_mode};
use sidecar::why::Kind;

use super::{Driver, Resizer, Settings};
use crate::keys::{CLAIM_NAME_PARAMETER, CLAIM_NAMESPACE_PARAMETER, VOLUME_NAME_PARAMETER};
use crate::model::{AttributesClass, ClaimDetail, CsiSource, SecretRef, Source, Text, Uid, Volume};

pub use sidecar::controller::request::Secrets;

/// A request of the resizer.
pub type Request = request::Request<Resizer>;
/// A request with its result.
pub type Reply = request::Reply<Resizer>;
/// A write of the resizer. Its body is a strategic merge patch; for a claim, one of its status.
pub type Write = request::Write<Resizer>;

/// An object, by its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// PersistentVolumeClaim, `namespace/name`.
    Claim(Text),
    /// PersistentVolume.
    Volume(Text),
}

/// The purpose of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It patches the claim.
    Claim(ClaimWrite),
    /// It patches the claim's volume.
    Volume(VolumeWrite),
}

/// The purpose of a claim's patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimWrite {
    /// Before a call to expand.
    MarkResizing,
    /// Before a repeated call that the claim already records. It forces a new resource version, so
    /// that no older patch, of this process or of an earlier one, still fits.
    TakeOver,
    /// The driver failed to expand.
    RecordResizeError,
    /// The driver has expanded, the node has to act next.
    MarkPendingOnNode,
    /// The expansion is complete.
    FinishResize,
    /// Before a call to modify.
    MarkModifying,
    /// The class does not exist, or belongs to another driver.
    MarkPendingClass,
    /// The driver failed to modify.
    RecordModifyError,
    /// The driver has modified.
    FinishModify,
    /// The request for a modification was withdrawn.
    CancelModify,
}

impl ClaimWrite {
    /// Whether it is the last patch of an expansion or modification.
    #[must_use]
    pub fn is_last(self) -> bool {
        matches!(
            self,
            Self::MarkPendingOnNode | Self::FinishResize | Self::FinishModify | Self::CancelModify
        )
    }

    /// Whether it records a failure.
    #[must_use]
    pub fn is_record(self) -> bool {
        matches!(self, Self::RecordResizeError | Self::RecordModifyError)
    }
}

/// The purpose of a PersistentVolume's patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeWrite {
    /// The annotation [`PRE_RESIZE_CAPACITY`](crate::keys::PRE_RESIZE_CAPACITY) is not needed any
    /// more.
    RemoveAnnotation,
    /// The driver has expanded.
    Grow,
    /// The driver has modified.
    SetClass,
}

/// An event on the claim, of component `external-resizer <driver>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// `type`: `Warning` instead of `Normal`.
    pub warning: bool,
    /// `reason`.
    pub reason: &'static str,
    /// `message`.
    pub message: String,
}

impl Announcement {
    /// An announcement of type `Normal`.
    pub fn normal(reason: &'static str, message: impl ToString) -> Self {
        Self {
            warning: false,
            reason,
            message: message.to_string(),
        }
    }

    /// An announcement of type `Warning`.
    pub fn warning(reason: &'static str, message: impl ToString) -> Self {
        Self {
            warning: true,
            ..Self::normal(reason, message)
        }
    }
}

/// An announcement with its claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `namespace/name`.
    pub claim: Text,
    /// UID of the claim.
    pub uid: Uid,
    /// The announcement.
    pub announcement: Announcement,
}

// Only one call at a time per volume. A modification carries the name of its target class.
sidecar::calls! {
    Expand(ControllerExpandVolumeRequest),
    Modify(ControllerModifyVolumeRequest, Text),
}

impl Call {
    /// Handle of the volume.
    #[must_use]
    pub fn handle(&self) -> &str {
        match self {
            Self::Expand(call) => &call.volume_id,
            Self::Modify(call) => &call.volume_id,
        }
    }
}

impl Called {
    /// Handle of the volume.
    #[must_use]
    pub fn handle(&self) -> &str {
        match self {
            Self::Expand(call, _) => &call.volume_id,
            Self::Modify(call, _) => &call.volume_id,
        }
    }

    /// The requested change, to recognize a repeated request.
    #[must_use]
    pub fn wish(&self) -> String {
        match self {
            Self::Expand(call, _) => asked(call).to_string(),
            Self::Modify(call, _) => wording(&call.about, call),
        }
    }
}

/// The requested bytes.
#[must_use]
pub fn asked(request: &ControllerExpandVolumeRequest) -> i64 {
    let range = request.capacity_range.as_ref();
    range.map_or(0, |range| range.required_bytes)
}

/// The request without its Secret, to recognize a repeated request.
#[must_use]
pub fn wording(target: &Text, request: &ControllerModifyVolumeRequest) -> String {
    let parameters: std::collections::BTreeMap<_, _> = request.mutable_parameters.iter().collect();
    format!("{target} {parameters:?}")
}

impl OfKind for Object {
    fn kind(&self) -> &'static str {
        match self {
            Self::Claim(_) => Kind::Claim.name(),
            Self::Volume(_) => Kind::Volume.name(),
        }
    }
}

impl request::Object for Object {
    fn key(&self) -> &str {
        match self {
            Self::Claim(key) | Self::Volume(key) => key,
        }
    }
}

impl Requests for Resizer {
    type Object = Object;
    type Found = ();
    type Purpose = Purpose;
    type Secret = SecretRef;
    type Calls = Call;
    type Event = Event;
}

/// The claim that an attempt's requests concern.
#[derive(Clone, Debug)]
pub struct About {
    /// `namespace/name`.
    pub claim: Text,
    /// UID of the claim.
    pub uid: Uid,
}

impl About {
    /// The claim as an object key.
    #[must_use]
    pub fn object(&self) -> Object {
        Object::Claim(self.claim.clone())
    }

    /// Patches the claim's status.
    #[must_use]
    pub fn patch(&self, what: ClaimWrite, patch: Value) -> Write {
        Write {
            purpose: Purpose::Claim(what),
            object: self.object(),
            uid: None,
            body: Body::Patch(Part::Status, Patch::Strategic(patch)),
        }
    }

    /// An event for the claim.
    #[must_use]
    pub fn event(&self, announcement: Announcement) -> Event {
        Event {
            claim: self.claim.clone(),
            uid: self.uid.clone(),
            announcement,
        }
    }
}

/// Patches the PersistentVolume of this name.
#[must_use]
pub fn patch_volume(name: &Text, what: VolumeWrite, patch: Value) -> Write {
    Write {
        purpose: Purpose::Volume(what),
        object: Object::Volume(name.clone()),
        uid: None,
        body: Body::Patch(Part::Main, Patch::Strategic(patch)),
    }
}

/// `ControllerExpandVolume` to `bytes`.
///
/// # Errors
/// The access modes that CSI cannot express.
pub fn expand(
    (volume, source): (&Volume, &CsiSource),
    driver: &Driver,
    bytes: i64,
    secrets: &Secrets,
) -> Result<ControllerExpandVolumeRequest, BadAccessModes> {
    let modes = volume.kind.access_modes.iter().map(|mode| &**mode);
    let mode = access_mode(modes, driver.abilities.single_node_multi_writer)?;
    let access_type = if volume.kind.block {
        AccessType::Block(BlockVolume {})
    } else {
        AccessType::Mount(MountVolume {
            fs_type: source.fs_type.to_string(),
            mount_flags: volume
                .kind
                .mount_options
                .iter()
                .map(|flag| flag.to_string())
                .collect(),
            volume_mount_group: String::new(),
        })
    };
    Ok(ControllerExpandVolumeRequest {
        volume_id: volume.handle.to_string(),
        capacity_range: Some(CapacityRange {
            required_bytes: bytes,
            limit_bytes: 0,
        }),
        secrets: secrets.clone(),
        volume_capability: Some(VolumeCapability {
            access_mode: Some(AccessMode { mode: mode.into() }),
            access_type: Some(access_type),
        }),
    })
}

/// Label of the call's metrics: whether the volume is in-tree.
#[must_use]
pub fn migrated(volume: &Volume) -> Migrated {
    Migrated(matches!(volume.kind.source, Source::InTree(_)))
}

/// `ControllerModifyVolume` with the parameters of `class`.
#[must_use]
pub fn modify(
    claim: &ClaimDetail,
    volume: &Volume,
    class: &AttributesClass,
    settings: &Settings,
    secrets: &Secrets,
) -> ControllerModifyVolumeRequest {
    let parameters = class.parameters.iter();
    let mut parameters: std::collections::HashMap<String, String> = parameters
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    if settings.extra_modify_metadata {
        for (key, value) in [
            (CLAIM_NAME_PARAMETER, &claim.name),
            (CLAIM_NAMESPACE_PARAMETER, &claim.namespace),
            (VOLUME_NAME_PARAMETER, &claim.volume),
        ] {
            parameters.insert(key.to_owned(), value.to_string());
        }
    }
    ControllerModifyVolumeRequest {
        volume_id: volume.handle.to_string(),
        secrets: secrets.clone(),
        mutable_parameters: parameters.into_iter().collect(),
    }
}
