//! Requests of the controller to the API server.

use std::borrow::Cow;
use std::convert::Infallible;

use serde_json::{Value, json};
use sidecar::controller::request::{self, Body, Part, Patch, Requests};
use sidecar::controller::script;

use super::Controller;
use super::attempt::Flow;
use super::complaint::Complaint;
use crate::model::{ContentHead, Head, Kind, List, Text};

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
        let Self::Claims(_, selector) = self else {
            return None;
        };
        Some(("labelSelector", Cow::Borrowed(&**selector)))
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

/// The purpose of a write: determines how its failure is reported, and which events its success gets.
#[derive(Clone, Debug, PartialEq)]
pub enum Purpose {
    /// Adds the finalizers of a VolumeSnapshot or VolumeGroupSnapshot.
    Finalizers,
    /// Writes the driver's default class to a VolumeSnapshot or VolumeGroupSnapshot.
    DefaultClass,
    /// Adds our finalizer to a claim.
    Protect,
    /// Removes our finalizer from a claim.
    Release,
    /// Creates a content.
    Create {
        /// Whether no node can reach its volume.
        nowhere: bool,
    },
    /// Binds a pre-provisioned content.
    Bind,
    /// Marks a content whose VolumeSnapshot or VolumeGroupSnapshot is being deleted.
    Announce,
    /// Deletes a content.
    Delete,
    /// Makes a status follow the content's.
    Status(Progress),
    /// Removes the finalizers of a VolumeSnapshot or VolumeGroupSnapshot that is being deleted.
    Unprotect,
    /// Writes a failure to the status.
    Complain(Box<Complaint>),
    /// Adds the finalizer to a content that the sidecar removes.
    ContentFinalizer,
    /// Makes a member of a group, or deletes it with the group.
    Member,
}

/// Progress that a status shows for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The snapshot was taken.
    pub created: bool,
    /// The snapshot can be used.
    pub ready: bool,
}

impl Kind {
    /// The VolumeSnapshot or VolumeGroupSnapshot with this key.
    #[must_use]
    pub fn object(self, key: Text) -> Object {
        match self {
            Self::Single => Object::Snapshot(key),
            Self::Group => Object::Group(key),
        }
    }

    /// The content of this name.
    #[must_use]
    pub fn content_object(self, name: &Text) -> Object {
        match self {
            Self::Single => Object::Content(name.clone()),
            Self::Group => Object::GroupContent(name.clone()),
        }
    }
}

impl Head<'_> {
    /// The object, as requests name it.
    #[must_use]
    pub fn object(&self) -> Object {
        self.kind.object(self.key())
    }
}

impl ContentHead<'_> {
    /// The object, as requests name it.
    #[must_use]
    pub fn object(&self) -> Object {
        self.kind.content_object(self.name)
    }
}

/// Reads the object with a GET.
pub(super) fn read<T>(object: &Object) -> Flow<T> {
    script::ask(Request::Get(object.clone()))
}

/// Changes the object with a merge patch.
pub(super) fn patch<T>(purpose: Purpose, object: Object, patch: Value) -> Flow<T> {
    let body = Body::Patch(Part::Main, Patch::Merge(patch));
    send(write(purpose, object, body))
}

/// Changes the status with a merge patch.
pub(super) fn patch_status<T>(purpose: Purpose, object: Object, patch: Value) -> Flow<T> {
    send(status(purpose, object, patch))
}

/// The write of a merge patch of the status.
pub(super) fn status(purpose: Purpose, object: Object, patch: Value) -> Write {
    let body = Body::Patch(Part::Status, Patch::Merge(patch));
    write(purpose, object, body)
}

/// Creates the object with a POST.
pub(super) fn create<T>(purpose: Purpose, object: Object, body: Value) -> Flow<T> {
    send(write(purpose, object, Body::Create(body)))
}

/// Replaces the claim of this key with a PUT of this JSON.
pub(super) fn replace<T>(purpose: Purpose, claim: &Text, json: Text) -> Flow<T> {
    let object = Object::Claim(claim.clone());
    send(write(purpose, object, Body::Replace(json)))
}

/// Deletes the object with this UID, only if it is still at this version.
pub(super) fn delete<T>(purpose: Purpose, object: Object, uid: &Text, version: &Text) -> Flow<T> {
    let body = Body::Delete(Some(version.clone()));
    let uid = Some(uid.clone());
    send(Write {
        uid,
        ..write(purpose, object, body)
    })
}

fn send<T>(write: Write) -> Flow<T> {
    script::ask(Request::Write(write))
}

fn write(purpose: Purpose, object: Object, body: Body) -> Write {
    Write {
        purpose,
        object,
        uid: None,
        body,
    }
}

/// The patch that sets the finalizers, only if the object is still at this version: others have theirs
/// in the list.
pub(super) fn finalizers<'a>(version: &str, list: impl Iterator<Item = &'a str>) -> Value {
    let list: Vec<&str> = list.collect();
    let list = (!list.is_empty()).then_some(list);
    json!({"metadata": {"resourceVersion": version, "finalizers": list}})
}

/// The items of the list.
pub(super) fn held(list: &List) -> impl Iterator<Item = &str> + Clone {
    list.iter().map(|held| &**held)
}

/// The object without the fields that are null; null without any field.
pub(super) fn present(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
        if fields.is_empty() {
            return Value::Null;
        }
    }
    object
}
