//! Requests of the controller to the API server.

use std::borrow::Cow;
use std::convert::Infallible;

use serde_json::Value;
use sidecar::controller::request::{self, Body, Part, Patch, Requests};

use super::Controller;
use super::view::{Next, Purpose};
use crate::model::{Content, Group, GroupContent, Snapshot, Text};

pub use sidecar::refusal::{ApiError, Refusal};

/// A request of the controller.
pub type Request = request::Request<Controller>;
/// The reply to a request.
pub type Reply = request::Reply<Controller>;
/// A write of the controller.
pub type Write = request::Write<Controller>;

/// An object, by its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// VolumeSnapshot, `namespace/name`.
    Snapshot(Text),
    /// VolumeSnapshotContent.
    Content(Text),
    /// PersistentVolumeClaim, `namespace/name`.
    Claim(Text),
    /// PersistentVolume.
    Volume(Text),
    /// VolumeGroupSnapshot, `namespace/name`.
    Group(Text),
    /// VolumeGroupSnapshotContent.
    GroupContent(Text),
    /// The claims of a namespace that match a label selector.
    Claims(Text, Text),
}

impl request::Object for Object {
    fn key(&self) -> &str {
        match self {
            Self::Snapshot(key)
            | Self::Content(key)
            | Self::Claim(key)
            | Self::Volume(key)
            | Self::Group(key)
            | Self::GroupContent(key)
            | Self::Claims(key, _) => key,
        }
    }

    fn selector(&self) -> Option<(&'static str, Cow<'_, str>)> {
        match self {
            Self::Claims(_, selector) => Some(("labelSelector", Cow::Borrowed(&**selector))),
            Self::Snapshot(_)
            | Self::Content(_)
            | Self::Claim(_)
            | Self::Volume(_)
            | Self::Group(_)
            | Self::GroupContent(_) => None,
        }
    }
}

impl Requests for Controller {
    type Object = Object;
    /// The JSON of a claim, since claims are replaced as a whole; of several claims, their names,
    /// one a line.
    type Found = Option<Text>;
    type Purpose = Purpose;
    type Secret = Infallible;
    type Calls = Infallible;
    type Event = Infallible;
}

impl Snapshot {
    /// The object, as requests name it.
    #[must_use]
    pub fn object(&self) -> Object {
        Object::Snapshot(self.key())
    }
}

impl Group {
    /// The object, as requests name it.
    #[must_use]
    pub fn object(&self) -> Object {
        Object::Group(self.key())
    }
}

impl GroupContent {
    /// The object, as requests name it.
    #[must_use]
    pub fn object(&self) -> Object {
        Object::GroupContent(self.name.clone())
    }
}

impl Content {
    /// The object, as requests name it.
    #[must_use]
    pub fn object(&self) -> Object {
        Object::Content(self.name.clone())
    }
}

/// Reads the object with a GET.
#[must_use]
pub fn read(object: Object) -> Next {
    Next::Ask(Box::new(Request::Get(object)))
}

/// Changes the object with a merge patch.
#[must_use]
pub fn patch(purpose: Purpose, object: Object, patch: Value) -> Next {
    let body = Body::Patch(Part::Main, Patch::Merge(patch));
    ask(write(purpose, object, body))
}

/// Changes the status with a merge patch.
#[must_use]
pub fn patch_status(purpose: Purpose, object: Object, patch: Value) -> Next {
    ask(status(purpose, object, patch))
}

/// The write of a merge patch of the status.
#[must_use]
pub fn status(purpose: Purpose, object: Object, patch: Value) -> Write {
    let body = Body::Patch(Part::Status, Patch::Merge(patch));
    write(purpose, object, body)
}

/// Creates the object with a POST.
#[must_use]
pub fn create(purpose: Purpose, object: Object, body: Value) -> Next {
    ask(write(purpose, object, Body::Create(body)))
}

/// Replaces the claim of this key with a PUT of this JSON.
#[must_use]
pub fn replace(purpose: Purpose, claim: &Text, json: Text) -> Next {
    let object = Object::Claim(claim.clone());
    ask(write(purpose, object, Body::Replace(json)))
}

/// Deletes the object with this UID, only if it is still at this version.
#[must_use]
pub fn delete(purpose: Purpose, object: Object, uid: &Text, version: &Text) -> Next {
    let body = Body::Delete(Some(version.clone()));
    ask(Write {
        uid: Some(uid.clone()),
        ..write(purpose, object, body)
    })
}

fn write(purpose: Purpose, object: Object, body: Body) -> Write {
    Write {
        purpose,
        object,
        uid: None,
        body,
    }
}

fn ask(write: Write) -> Next {
    Next::Ask(Box::new(Request::Write(write)))
}
