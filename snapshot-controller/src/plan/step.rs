//! What can be asked of the API server, and what it can answer.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::model::{Content, Snapshot, Text};

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
}

/// One request, complete in every detail. Bodies of patches are merge patches.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// GET, whose answer the cache takes in.
    Read(Object),
    /// PATCH of this VolumeSnapshot.
    PatchSnapshot(Arc<Snapshot>, Value),
    /// PATCH of this VolumeSnapshot's status.
    PatchStatus(Arc<Snapshot>, Value),
    /// POST of the VolumeSnapshotContent of this name.
    CreateContent(Text, Value),
    /// PATCH of this VolumeSnapshotContent.
    PatchContent(Arc<Content>, Value),
    /// DELETE of this VolumeSnapshotContent as it is known, or not at all.
    DeleteContent(Arc<Content>),
    /// PUT of the claim with this key, as JSON.
    UpdateClaim(Text, Text),
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was done.
    Done,
    /// What was read. The JSON of a claim comes along: claims may only be replaced.
    Read(Option<Text>),
    /// It was not, or nobody knows.
    Refused(ApiError),
}

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The server's words, or the transport's.
    pub message: String,
    /// What it means.
    pub kind: ErrorKind,
}

/// What the failure of a request means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// There is no such object.
    NotFound,
    /// It has changed since it was read.
    Conflict,
    /// There is an object of this name already.
    Exists,
    /// Whether it was applied is not known.
    Unknown,
    /// It was refused.
    Refused,
}

impl fmt::Display for ApiError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}
