//! What the snapshotter asks of the API server and the driver.
//!
//! A request must be the same in every attempt on one snapshot.

use std::collections::BTreeMap;

use csi_proto::csi::{
    CreateSnapshotRequest, CreateVolumeGroupSnapshotRequest, DeleteSnapshotRequest,
    DeleteVolumeGroupSnapshotRequest, GetSnapshotRequest, GetVolumeGroupSnapshotRequest,
    ListSnapshotsRequest,
};
use serde_json::Value;
use sidecar::controller::request::{self, Body, Part, Patch, Requests};
use sidecar::snapshot::{
    PARAMETER_PREFIX, SECRET_NAME_PARAMETER, SECRET_NAMESPACE_PARAMETER, group,
};

use super::outcome::Task;
use super::{Settings, Snapshotter, View};
use crate::model::{Class, Content, Kind, List, SecretRef, Text};

pub use sidecar::controller::request::Secrets;

/// A request of the snapshotter.
pub type Request = request::Request<Snapshotter>;
/// What came of it.
pub type Reply = request::Reply<Snapshotter>;
/// A write of the snapshotter: a merge patch of a content.
pub type Write = request::Write<Snapshotter>;

/// What a write is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Of the content's metadata.
    Content(ContentWrite),
    /// Of its status.
    Status(StatusWrite),
}

impl Purpose {
    /// What it writes that lasts. Errors are written one after the other.
    #[must_use]
    pub fn lasting(&self) -> Option<Written> {
        match self {
            Self::Content(write) => Some(Written::Content(*write)),
            Self::Status(StatusWrite::Report(_)) => Some(Written::Report),
            Self::Status(StatusWrite::Clear) => Some(Written::Clear),
            Self::Status(StatusWrite::Fail(_)) => None,
        }
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The content's metadata, for this.
    Content(ContentWrite),
    /// What the driver says of the snapshot, into the status.
    Report,
    /// That the snapshot is gone, into the status.
    Clear,
}

impl Written {
    /// What an attempt that writes it is doing.
    #[must_use]
    pub fn task(self) -> Task {
        match self {
            Self::Content(write) => write.task(),
            Self::Report => Task::Check,
            Self::Clear => Task::Delete,
        }
    }
}

/// What a patch of a content is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentWrite {
    /// Before the driver is asked for a new snapshot.
    Mark,
    /// Nothing is in doubt any more.
    Unmark,
    /// Where the snapshot is, which was taken or looked up.
    Topology(Task),
    /// The content may go.
    Release,
}

impl ContentWrite {
    /// What an attempt that writes it is doing.
    #[must_use]
    pub fn task(self) -> Task {
        match self {
            Self::Mark | Self::Unmark => Task::Create,
            Self::Topology(task) => task,
            Self::Release => Task::Delete,
        }
    }
}

/// A Secret, and what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// What it is for.
    pub of: Use,
    /// Where it is.
    pub secret: SecretRef,
}

impl AsRef<SecretRef> for Wanted {
    fn as_ref(&self) -> &SecretRef {
        &self.secret
    }
}

/// What a Secret is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Taking a snapshot.
    Create,
    /// Looking up a snapshot or a group that an administrator named.
    List,
    /// Looking up a member of a group.
    Member,
    /// Deleting a snapshot.
    Delete,
}

impl Use {
    /// What an attempt that loads it is doing.
    #[must_use]
    pub fn task(self) -> Task {
        match self {
            Self::Create => Task::Create,
            Self::List | Self::Member => Task::Check,
            Self::Delete => Task::Delete,
        }
    }
}

/// What a patch of a content's status is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusWrite {
    /// What the driver says of the snapshot.
    Report(Task),
    /// Why it failed, and the event that follows.
    Fail(Announcement),
    /// The snapshot is gone.
    Clear,
}

/// A Warning on the content, of component `csi-snapshotter <driver>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// `reason`.
    pub reason: &'static str,
    /// `message`.
    pub message: String,
}

/// A Warning, and the content that it is on.
#[derive(Clone, Debug)]
pub struct Event {
    /// Name of the content.
    pub content: Text,
    /// Its UID.
    pub uid: Text,
    /// What it says.
    pub announcement: Announcement,
}

sidecar::calls! {
    Create(CreateSnapshotRequest),
    List(ListSnapshotsRequest),
    Get(GetSnapshotRequest),
    Delete(DeleteSnapshotRequest),
    CreateGroup(CreateVolumeGroupSnapshotRequest),
    GetGroup(GetVolumeGroupSnapshotRequest),
    DeleteGroup(DeleteVolumeGroupSnapshotRequest),
}

impl Called {
    /// The handle that the driver was asked about, if something was looked up.
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
    /// A content, by its name.
    type Object = Text;
    type Found = ();
    type Purpose = Purpose;
    type Secret = Wanted;
    type Calls = Call;
    type Event = Event;
}

impl View<'_> {
    /// Patches the content's metadata.
    #[must_use]
    pub fn patch(&self, what: ContentWrite, body: Value) -> Request {
        self.write(Purpose::Content(what), Part::Main, body)
    }

    /// Patches the content's status.
    #[must_use]
    pub fn patch_status(&self, what: StatusWrite, body: Value) -> Request {
        self.write(Purpose::Status(what), Part::Status, body)
    }

    fn write(&self, purpose: Purpose, part: Part, body: Value) -> Request {
        Request::Write(Write {
            purpose,
            object: self.name.clone(),
            uid: None,
            body: Body::Patch(part, Patch::Merge(body)),
        })
    }

    /// Warns users.
    #[must_use]
    pub fn announce(&self, announcement: Announcement) -> Request {
        Request::Event(Event {
            content: self.name.clone(),
            uid: self.content.uid.clone(),
            announcement,
        })
    }
}

/// Parameters of a call that takes a snapshot or a group.
pub type Parameters = BTreeMap<String, String>;

/// Class parameter: template of the name of the Secret for lists.
pub const LIST_SECRET_NAME: &str = "csi.storage.k8s.io/snapshotter-list-secret-name";
/// See [`LIST_SECRET_NAME`].
pub const LIST_SECRET_NAMESPACE: &str = "csi.storage.k8s.io/snapshotter-list-secret-namespace";

/// Class parameters that are for the sidecars, so that the driver does not get them.
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

/// Parameters that say for what VolumeSnapshot, in what namespace and for what content a snapshot is.
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

/// The parameters that the driver gets.
///
/// # Errors
/// A parameter of this name is for the sidecars, and means nothing to this one.
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

/// `CreateSnapshot` of this volume.
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

/// `CreateVolumeGroupSnapshot` of these volumes, in the order of the content.
#[must_use]
pub fn create_group(
    content: &Content,
    volumes: &List,
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
