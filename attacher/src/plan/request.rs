//! What the attacher asks of the API server and the driver.
//!
//! What is sent to the driver must be exactly reproducible: a driver that is asked again after a
//! crash has to see the same request.

use std::convert::Infallible;
use std::sync::Arc;

use csi_proto::csi::{
    ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest, VolumeCapability,
};
use serde_json::Value;
use sidecar::controller;
use sidecar::controller::request::{self, Body, Part, Patch, Requests};
use sidecar::csi::Migrated;

use super::flight::Target;
use super::{Attacher, View};
use crate::model::{Attachment, CsiSource, SecretRef, Text};

pub use sidecar::controller::request::Secrets;

/// A request of the attacher.
pub type Request = request::Request<Attacher>;
/// What came of it.
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

/// What a write is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The volume's finalizer.
    Protect,
    /// The attachment's finalizer and the node's id.
    Prepare,
    /// The volume is on the node.
    MarkAttached,
    /// The volume is off the node: the attachment's finalizer goes.
    Release,
    /// The same, into the status.
    MarkDetached,
    /// The status of a driver that has nothing to publish.
    MarkTrivial,
    /// The failure of an attempt is to be on record.
    Record,
    /// Nothing needs the volume any more: its finalizer goes.
    ReleaseVolume,
}

sidecar::calls! {
    Publish(ControllerPublishVolumeRequest),
    Unpublish(ControllerUnpublishVolumeRequest),
}

/// The call that publishes a volume.
pub type Publish = controller::Call<ControllerPublishVolumeRequest>;
/// The call that takes it off the node.
pub type Unpublish = controller::Call<ControllerUnpublishVolumeRequest>;

impl request::Object for Object {
    fn key(&self) -> &str {
        match self {
            Self::Attachment(name) | Self::Volume(name) => name,
        }
    }
}

impl Requests for Attacher {
    type Object = Object;
    /// The VolumeAttachment, which the cache may not take: the last patch of one is answered with an object
    /// that is gone.
    type Found = Option<Arc<Attachment>>;
    type Purpose = Purpose;
    type Secret = SecretRef;
    type Calls = Call;
    type Event = Infallible;
}

impl Call {
    /// The volume and node that it is about.
    #[must_use]
    pub fn target(&self) -> Target {
        match self {
            Self::Publish(call) => Target::new(&call.volume_id, &call.node_id),
            Self::Unpublish(call) => Target::new(&call.volume_id, &call.node_id),
        }
    }
}

impl Called {
    /// The volume and node that it was about.
    #[must_use]
    pub fn target(&self) -> Target {
        match self {
            Self::Publish(call, _) => Target::new(&call.volume_id, &call.node_id),
            Self::Unpublish(call, _) => Target::new(&call.volume_id, &call.node_id),
        }
    }
}

/// A merge patch of an attachment. The next attachment of the volume to the node has the same name.
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
