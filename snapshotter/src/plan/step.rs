//! What an attempt asks for, and what it is told.
//!
//! The executor and the crash simulation speak this language and need nothing else.

use csi_proto::csi::{
    CreateSnapshotRequest, CreateSnapshotResponse, CreateVolumeGroupSnapshotRequest,
    CreateVolumeGroupSnapshotResponse, DeleteSnapshotRequest, DeleteVolumeGroupSnapshotRequest,
    GetSnapshotRequest, GetSnapshotResponse, GetVolumeGroupSnapshotRequest,
    GetVolumeGroupSnapshotResponse, ListSnapshotsRequest, ListSnapshotsResponse,
};
use serde_json::Value;

use super::outcome::{ApiError, RpcError, Task};
use super::request::Secrets;
use crate::model::SecretRef;

/// The one next thing to do about a content, complete in every detail.
#[derive(Debug)]
pub enum Step {
    /// GET of the content: what the cache knows may be behind.
    Read,
    /// Merge patch of the content.
    Patch(Write, Value),
    /// Merge patch of the content's `status` subresource.
    PatchStatus(StatusWrite, Value),
    /// Event on the content.
    Announce(Announcement),
    /// GET of a Secret.
    LoadSecret(Purpose, SecretRef),
    /// `CreateSnapshot`.
    Create(Box<CreateSnapshotRequest>),
    /// `ListSnapshots`, one page.
    List(Box<ListSnapshotsRequest>),
    /// `GetSnapshot`.
    Get(Box<GetSnapshotRequest>),
    /// `DeleteSnapshot`.
    Delete(Box<DeleteSnapshotRequest>),
    /// `CreateVolumeGroupSnapshot`.
    CreateGroup(Box<CreateVolumeGroupSnapshotRequest>),
    /// `GetVolumeGroupSnapshot`.
    GetGroup(Box<GetVolumeGroupSnapshotRequest>),
    /// `DeleteVolumeGroupSnapshot`.
    DeleteGroup(Box<DeleteVolumeGroupSnapshotRequest>),
}

impl Step {
    /// The handle that it asks the driver about, if it looks something up.
    #[must_use]
    pub fn looks_up(&self) -> Option<&str> {
        match self {
            Self::List(request) => Some(&request.snapshot_id),
            Self::Get(request) => Some(&request.snapshot_id),
            Self::GetGroup(request) => Some(&request.group_snapshot_id),
            Self::Read
            | Self::Patch(..)
            | Self::PatchStatus(..)
            | Self::Announce(_)
            | Self::LoadSecret(..)
            | Self::Create(_)
            | Self::Delete(_)
            | Self::CreateGroup(_)
            | Self::DeleteGroup(_) => None,
        }
    }

    /// What it writes that lasts, if it writes. Errors are written one after the other.
    #[must_use]
    pub fn writes(&self) -> Option<Written> {
        match self {
            Self::Patch(write, _) => Some(Written::Content(*write)),
            Self::PatchStatus(StatusWrite::Report(_), _) => Some(Written::Report),
            Self::PatchStatus(StatusWrite::Clear, _) => Some(Written::Clear),
            Self::PatchStatus(StatusWrite::Fail(_), _)
            | Self::Read
            | Self::Announce(_)
            | Self::LoadSecret(..)
            | Self::Create(_)
            | Self::List(_)
            | Self::Get(_)
            | Self::Delete(_)
            | Self::CreateGroup(_)
            | Self::GetGroup(_)
            | Self::DeleteGroup(_) => None,
        }
    }
}

impl Step {
    /// The part of the content that it patches, and the body.
    #[must_use]
    pub fn write(&self) -> Option<(&'static str, &Value)> {
        match self {
            Self::Patch(_, body) => Some(("content", body)),
            Self::PatchStatus(_, body) => Some(("status", body)),
            Self::Read
            | Self::Announce(_)
            | Self::LoadSecret(..)
            | Self::Create(_)
            | Self::List(_)
            | Self::Get(_)
            | Self::Delete(_)
            | Self::CreateGroup(_)
            | Self::GetGroup(_)
            | Self::DeleteGroup(_) => None,
        }
    }

    /// The answer to it if it is not taken.
    #[must_use]
    pub fn unsent(&self, why: String) -> Answer {
        match self {
            Self::Read
            | Self::Patch(..)
            | Self::PatchStatus(..)
            | Self::Announce(_)
            | Self::LoadSecret(..) => Answer::Refused(ApiError::local(why)),
            Self::Create(_)
            | Self::List(_)
            | Self::Get(_)
            | Self::Delete(_)
            | Self::CreateGroup(_)
            | Self::GetGroup(_)
            | Self::DeleteGroup(_) => Answer::Unreachable(RpcError::unsent(why)),
        }
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The content's metadata, for this.
    Content(Write),
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
pub enum Write {
    /// Before the driver is asked for a new snapshot.
    Mark,
    /// Nothing is in doubt any more.
    Unmark,
    /// Where the snapshot is, which was taken or looked up.
    Topology(Task),
    /// The content may go.
    Release,
}

impl Write {
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

/// What a Secret is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Taking a snapshot.
    Create,
    /// Looking up a snapshot or a group that an administrator named.
    List,
    /// Looking up a member of a group.
    Member,
    /// Deleting a snapshot.
    Delete,
}

impl Purpose {
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

/// What came of a step.
#[derive(Debug)]
pub enum Answer {
    /// Done: the patch was applied, the event is on its way, the object was read. The view shows the
    /// result from now on.
    Done,
    /// The API server refused, or did not answer.
    Refused(ApiError),
    /// The Secret.
    Secret(Secrets),
    /// The Secret has a value that is not UTF-8.
    SecretNotText,
    /// What the driver says of the snapshot that it has taken.
    Created(CreateSnapshotResponse),
    /// One page of the driver's list.
    Listed(ListSnapshotsResponse),
    /// What the driver says of the snapshot.
    Got(GetSnapshotResponse),
    /// What the driver says of the group that it has cut.
    GroupCreated(CreateVolumeGroupSnapshotResponse),
    /// What the driver says of the group.
    GroupGot(GetVolumeGroupSnapshotResponse),
    /// The snapshot, or the group with all of its snapshots, is gone.
    Deleted,
    /// The call failed.
    Failed(RpcError),
    /// The driver cannot be reached, and nothing was sent to it.
    Unreachable(RpcError),
}
