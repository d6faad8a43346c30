//! Requests to the API server and the driver.
//!
//! Calls to the driver must be exactly reproducible: a driver that is called again after a crash
//! must see the same request.

use std::convert::Infallible;
use std::sync::Arc;

use csi_proto::csi::{
    ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest, VolumeCapability,
};
use serde_json::Value;
use sidecar::controller;
use sidecar::controller::request::{self, Body, OfKind, Part, Patch, Requests};
use sidecar::csi::Migrated;
use sidecar::why::Kind;

use super::flight::Target;
use super::{Attacher, View};
use crate::model::{Attachment, CsiSource, SecretRef, Text};

pub use sidecar::controller::request::Secrets;

/// A request of the attacher.
pub type Request = request::Request<Attacher>;
/// Its result.
pub type Reply = request::Reply<Attacher>;
/// A write of the attacher.
pub type Write = request::Write<Attacher>;

/// An object, by its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// VolumeAttachment.
    Attachment(Text),
    /// PersistentVolume.
    Volume(Text),
}

/// The purpose of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Adds the volume's finalizer.
    Protect,
    /// Adds the attachment's finalizer and the node id.
    Prepare,
    /// Reports the volume attached.
    MarkAttached,
    /// Removes the attachment's finalizer after the unpublish call.
    Release,
    /// Reports the volume detached in the status.
    MarkDetached,
    /// Reports the volume attached, for a driver that cannot publish volumes.
    MarkTrivial,
    /// Records the failure of an attempt.
    Record,
    /// Removes the volume's finalizer, which nothing needs any more.
    ReleaseVolume,
}

sidecar::calls! {
    Publish(ControllerPublishVolumeRequest),
    Unpublish(ControllerUnpublishVolumeRequest),
}

/// The call that publishes a volume.
pub type Publish = controller::Call<ControllerPublishVolumeRequest>;
/// The call that unpublishes a volume.
pub type Unpublish = controller::Call<ControllerUnpublishVolumeRequest>;

impl OfKind for Object {
    fn kind(&self) -> &'static str {
        match self {
            Self::Attachment(_) => Kind::Attachment.name(),
            Self::Volume(_) => Kind::Volume.name(),
        }
    }
}

impl request::Object for Object {
    fn key(&self) -> &str {
        match self {
            Self::Attachment(name) | Self::Volume(name) => name,
        }
    }
}

impl Requests for Attacher {
    type Object = Object;
    /// The VolumeAttachment in the reply. The cache may reject it: the reply to a last patch
    /// contains an object that is already gone.
    type Found = Option<Arc<Attachment>>;
    type Purpose = Purpose;
    type Secret = SecretRef;
    type Calls = Call;
    type Event = Infallible;
}

impl Call {
    /// The volume and node of the call.
    #[must_use]
    pub fn target(&self) -> Target {
        match self {
            Self::Publish(call) => Target::new(&call.volume_id, &call.node_id),
            Self::Unpublish(call) => Target::new(&call.volume_id, &call.node_id),
        }
    }
}

impl Called {
    /// The volume and node of the call.
    #[must_use]
    pub fn target(&self) -> Target {
        match self {
            Self::Publish(call, _) => Target::new(&call.volume_id, &call.node_id),
            Self::Unpublish(call, _) => Target::new(&call.volume_id, &call.node_id),
        }
    }
}

/// A merge patch of an attachment. It carries the UID, because a later attachment of the same
/// volume and node has the same name.
#[must_use]
pub fn patch(of: &Attachment, purpose: Purpose, body: Value) -> Write {
    let part = if matches!(purpose, Purpose::Prepare | Purpose::Release) {
        Part::Main
    } else {
        Part::Status
    };
    Write {
        purpose,
        object: Object::Attachment(of.name.clone()),
        uid: Some(of.uid.clone()),
        body: Body::Patch(part, Patch::Merge(body)),
    }
}

/// A JSON patch of a volume's finalizers.
#[must_use]
pub fn patch_volume(name: &Text, purpose: Purpose, operations: Value) -> Write {
    Write {
        purpose,
        object: Object::Volume(name.clone()),
        uid: None,
        body: Body::Patch(Part::Main, Patch::Json(operations)),
    }
}

/// `ControllerPublishVolume` for `source` on the node the driver knows as `node_id`.
#[must_use]
pub fn publish(
    view: &View<'_>,
    source: &CsiSource,
    node_id: &str,
    capability: VolumeCapability,
    secrets: &Secrets,
) -> Call {
    let message = ControllerPublishVolumeRequest {
        volume_id: source.handle.to_string(),
        node_id: node_id.to_owned(),
        volume_capability: Some(capability),
        readonly: source.read_only && view.driver.abilities.readonly,
        secrets: secrets.clone(),
        volume_context: source
            .attributes
            .iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
    };
    Call::Publish(Publish::new(message, view.migrated()))
}

/// `ControllerUnpublishVolume` for the volume with this handle on the node the driver knows as
/// `node_id`.
#[must_use]
pub fn unpublish(handle: &str, node_id: &str, secrets: &Secrets, migrated: Migrated) -> Call {
    let message = ControllerUnpublishVolumeRequest {
        volume_id: handle.to_owned(),
        node_id: node_id.to_owned(),
        secrets: secrets.clone(),
    };
    Call::Unpublish(Unpublish::new(message, migrated))
}
