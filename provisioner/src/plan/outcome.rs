//! How requests and calls fail, and what would cure it.
//!
//! Separate, because claims, volumes and their books all speak of it.

use std::fmt;

use crate::model::Text;

pub use sidecar::rpc_code::RpcError;

/// A failed request to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The server's words, or the transport's.
    pub message: String,
    /// What is known of it.
    pub refusal: Refusal,
}

/// What is known of a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The object does not exist.
    NotFound,
    /// The service account may not.
    Forbidden,
    /// The object has changed since it was read.
    Conflict,
    /// There is an object of this name already.
    AlreadyExists,
    /// No answer: the server may have applied the request all the same.
    Unknown,
    /// Anything else: nothing was applied.
    Other,
}

impl ApiError {
    /// Whether the object does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.refusal == Refusal::NotFound
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

/// An object whose appearance or change may let a failed attempt succeed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RequeueTrigger {
    /// The StorageClass of this name.
    Class(Text),
    /// The claim of this namespace and name, as a data source.
    SourceClaim(Text),
    /// The driver's entry in the CSINode of this name.
    CsiNode(Text),
    /// The Node of this name.
    Node(Text),
    /// Any Node or CSINode.
    AnyNode,
    /// A ReferenceGrant in this namespace.
    Grant(Text),
    /// The VolumeAttributesClass of this name. They are not watched, but looked for: see
    /// [`class_poller`](super::class_poller).
    AttributesClass(Text),
}
