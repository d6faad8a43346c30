//! Requests to the API server and the driver.
//!
//! A request has to be the same in every attempt on one snapshot.

use std::collections::BTreeMap;

use csi_proto::csi::{
    CreateSnapshotRequest, CreateVolumeGroupSnapshotRequest, DeleteSnapshotRequest,
    DeleteVolumeGroupSnapshotRequest, GetSnapshotRequest, GetVolumeGroupSnapshotRequest,
    ListSnapshotsRequest,
};
use jiff::Timestamp;
use serde_json::Value;
use sidecar::controller;
use sidecar::controller::request::{self, Body, Part, Patch, Requests};
use sidecar::snapshot::{
    PARAMETER_PREFIX, SECRET_NAME_PARAMETER, SECRET_NAMESPACE_PARAMETER, group,
};

use super::outcome::Task;
use super::{Settings, Snapshotter, View};
use crate::model::{self, Class, Content, Kind, SecretRef, Text};

pub use sidecar::controller::request::Secrets;

/// A request of the snapshotter.
pub type Request = request::Request<Snapshotter>;
/// A request with its result.
pub type Reply = request::Reply<Snapshotter>;
/// A write of the snapshotter: a merge patch of a content.
pub type Write = request::Write<Snapshotter>;

/// The purpose of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It patches the content's metadata.
    Content(ContentWrite),
    /// It patches the content's status.
    Status(StatusWrite),
}

/// A write that the API server has accepted, and that should show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The content's metadata has this.
    Content(ContentWrite),
    /// The status has no snapshot any more.
    Clear,
}

/// The purpose of a metadata patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentWrite {
    /// Before a create call.
    Mark,
    /// No call has an unknown outcome any more.
    Unmark,
    /// The accessible topology of a snapshot that was created or looked up.
    Topology(Task),
    /// The finalizer is removed.
    Release,
}

impl ContentWrite {
    /// The task of an attempt with this write.
    #[must_use]
    pub fn task(self) -> Task {
        match self {
            Self::Mark | Self::Unmark => Task::Create,
            Self::Topology(task) => task,
            Self::Release => Task::Delete,
        }
    }
}

/// The purpose of a status patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusWrite {
    /// The driver's report.
    Report(Task),
    /// The error, and the event that follows.
    Fail(Announcement),
    /// The snapshot is deleted.
    Clear,
}

/// A Warning on the content, of component `csi-snapshotter <driver>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// `reason`.
    pub reason: &'static str,
    /// `message`.
    pub message: Text,
}

/// A Warning with its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Name of the content.
    pub content: Text,
    /// UID of the content.
    pub uid: Text,
    /// The Warning.
    pub announcement: Announcement,
}

// With the time at which it was decided on, for drivers that do not say when a snapshot was created.
sidecar::calls! {
    Create(CreateSnapshotRequest, Timestamp),
    List(ListSnapshotsRequest, Timestamp),
    Get(GetSnapshotRequest, Timestamp),
    Delete(DeleteSnapshotRequest, Timestamp),
    CreateGroup(CreateVolumeGroupSnapshotRequest, Timestamp),
    GetGroup(GetVolumeGroupSnapshotRequest, Timestamp),
    DeleteGroup(DeleteVolumeGroupSnapshotRequest, Timestamp),
}

/// The call that looks up one snapshot.
pub type Get = controller::Call<GetSnapshotRequest, Timestamp>;

impl Called {
    /// The task of an attempt with this call.
    #[must_use]
    pub fn task(&self) -> Task {
        match self {
            Self::Create(..) | Self::CreateGroup(..) => Task::Create,
            Self::List(..) | Self::Get(..) | Self::GetGroup(..) => Task::Check,
            Self::Delete(..) | Self::DeleteGroup(..) => Task::Delete,
        }
    }

    /// The requested handle of a look-up; `None` for other calls.
    #[must_use]
    pub fn looks_up(&self) -> Option<&str> {
        match self {
            Self::List(call, _) => Some(&call.snapshot_id),
            Self::Get(call, _) => Some(&call.snapshot_id),
            Self::GetGroup(call, _) => Some(&call.group_snapshot_id),
            Self::Create(..) | Self::Delete(..) | Self::CreateGroup(..) | Self::DeleteGroup(..) => {
                None
            }
        }
    }
}

impl Requests for Snapshotter {
    /// Name of a content.
    type Object = Text;
    type Found = ();
    type Purpose = Purpose;
    type Secret = SecretRef;
    type Calls = Call;
    type Event = Event;
}

impl View<'_> {
    /// Patches the content's metadata.
    #[must_use]
    pub fn patch(&self, what: ContentWrite, body: Value) -> Write {
        patch(self.name, Purpose::Content(what), body)
    }

    /// Patches the content's status.
    #[must_use]
    pub fn patch_status(&self, what: StatusWrite, body: Value) -> Write {
        patch(self.name, Purpose::Status(what), body)
    }

    /// Calls the driver.
    #[must_use]
    pub fn call<M>(&self, message: M) -> controller::Call<M, Timestamp> {
        controller::Call::about(message, self.now)
    }

    /// A Warning on the content.
    #[must_use]
    pub fn event(&self, announcement: Announcement) -> Event {
        Event {
            content: self.name.clone(),
            uid: self.content.uid.clone(),
            announcement,
        }
    }
}

/// A merge patch of the content of this name. Each has the resource version that it was made for.
#[must_use]
pub fn patch(content: &Text, purpose: Purpose, body: Value) -> Write {
    let part = match purpose {
        Purpose::Content(_) => Part::Main,
        Purpose::Status(_) => Part::Status,
    };
    Write {
        purpose,
        object: content.clone(),
        uid: None,
        body: Body::Patch(part, Patch::Merge(body)),
    }
}

/// Parameters of a call that creates a snapshot or a group.
pub type Parameters = BTreeMap<String, String>;

/// Class parameter: template of the name of the Secret for lists.
pub const LIST_SECRET_NAME: &str = "csi.storage.k8s.io/snapshotter-list-secret-name";
/// See [`LIST_SECRET_NAME`].
pub const LIST_SECRET_NAMESPACE: &str = "csi.storage.k8s.io/snapshotter-list-secret-namespace";

/// Parameters for the sidecars, which the driver does not get.
const RESERVED: [&str; 8] = [
    SECRET_NAME_PARAMETER,
    SECRET_NAMESPACE_PARAMETER,
    LIST_SECRET_NAME,
    LIST_SECRET_NAMESPACE,
    group::SECRET_NAME_PARAMETER,
    group::SECRET_NAMESPACE_PARAMETER,
    group::GET_SECRET_NAME_PARAMETER,
    group::GET_SECRET_NAMESPACE_PARAMETER,
];

/// Parameters with the names of the VolumeSnapshot, its namespace and its content.
const METADATA: [&str; 3] = [
    "csi.storage.k8s.io/volumesnapshot/name",
    "csi.storage.k8s.io/volumesnapshot/namespace",
    "csi.storage.k8s.io/volumesnapshotcontent/name",
];
const GROUP_METADATA: [&str; 3] = [
    group::NAME_METADATA,
    group::NAMESPACE_METADATA,
    group::CONTENT_NAME_METADATA,
];

/// The parameters for the driver.
///
/// # Errors
/// The name of a reserved parameter that this sidecar does not know.
pub fn parameters(
    (name, content): (&Text, &Content),
    class: &Class,
    settings: &Settings,
) -> Result<Parameters, String> {
    let mut parameters = Parameters::new();
    for (key, value) in class.parameters.iter() {
        match key.starts_with(PARAMETER_PREFIX) {
            true if RESERVED.contains(&key) => {}
            true => return Err(key.to_owned()),
            false => drop(parameters.insert(key.to_owned(), value.to_owned())),
        }
    }
    if settings.extra_create_metadata {
        let keys = match content.kind() {
            Kind::Single => METADATA,
            Kind::Group => GROUP_METADATA,
        };
        let snapshot = &content.snapshot;
        let values = [&snapshot.name, &snapshot.namespace, name];
        for (key, value) in keys.into_iter().zip(values) {
            parameters.insert(key.to_owned(), value.to_string());
        }
    }
    Ok(parameters)
}

/// `CreateSnapshot` for this volume.
#[must_use]
pub fn create(
    content: &Content,
    volume: &str,
    (parameters, secrets): (Parameters, Secrets),
    settings: &Settings,
) -> CreateSnapshotRequest {
    CreateSnapshotRequest {
        source_volume_id: volume.to_owned(),
        name: settings.name.of(&content.snapshot.uid),
        secrets: secrets.into_iter().collect(),
        parameters: parameters.into_iter().collect(),
        accessibility_requirements: None,
    }
}

/// `CreateVolumeGroupSnapshot` for these volumes, in the order of the content.
#[must_use]
pub fn create_group(
    content: &Content,
    volumes: &model::List,
    (parameters, secrets): (Parameters, Secrets),
    settings: &Settings,
) -> CreateVolumeGroupSnapshotRequest {
    CreateVolumeGroupSnapshotRequest {
        source_volume_ids: volumes.iter().map(ToString::to_string).collect(),
        name: settings.name.of(&content.snapshot.uid),
        secrets,
        parameters,
    }
}
