//! Decides each call: pure functions of the request, the state and the driver's policy.
//!
//! No effects, no clock, no fresh IDs: those are arguments. The codes follow the error tables of
//! the CSI specification, because the sidecars under test depend on them.

pub mod attach;
pub mod capability;
pub mod capacity;
pub mod create;
pub mod expand;
pub mod metadata;
pub mod modify;
pub mod node;
pub mod page;
pub mod place;
pub mod snapshot;
#[cfg(test)]
pub mod testing;

use std::collections::BTreeMap;

use tonic::{Code, Status};

/// A refused call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// gRPC code.
    pub code: Code,
    /// For the caller.
    pub message: String,
}

impl Refusal {
    /// A refusal with that code.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code, refusal.message)
    }
}

/// The driver's configured limits and options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Largest volume in bytes.
    pub max_volume_size: i64,
    /// Largest volume on a node expansion, in bytes.
    pub max_volume_size_node: i64,
    /// Bytes per kind of storage and topology; empty for no limit.
    pub capacity: BTreeMap<String, i64>,
    /// Volumes have a topology.
    pub topology: bool,
    /// Mutable parameters are supported.
    pub modify: bool,
    /// Accepted names of mutable parameters; empty for all.
    pub mutable_names: Vec<String>,
    /// Refuse calls in the wrong order instead of performing them.
    pub check_lifecycle: bool,
    /// Require a controller publish before the node calls.
    pub attach: bool,
    /// Volumes with file systems are images with a real one.
    pub fs_images: bool,
    /// Publish to nodes that have never registered, too.
    pub any_node: bool,
    /// Prefix of volume IDs.
    pub id_prefix: String,
    /// Require a node expansion after a controller expansion.
    pub node_expansion: bool,
}

/// The argument, or an error if it is empty.
pub fn required<'a>(value: &'a str, what: &str) -> Result<&'a str, Refusal> {
    if value.is_empty() {
        return Err(Refusal::new(
            Code::InvalidArgument,
            format!("{what} missing in request"),
        ));
    }
    Ok(value)
}
