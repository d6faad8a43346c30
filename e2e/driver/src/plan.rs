//! What each call means: pure functions of the request, the state and the driver's policy.
//!
//! No effect, no clock, no fresh ids: those come in as arguments. The codes follow the error tables
//! of the CSI specification, because the sidecars under test decide by them.

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

/// What the driver was configured to allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Largest volume in bytes.
    pub max_volume_size: i64,
    /// Largest volume on a node expansion, in bytes.
    pub max_volume_size_node: i64,
    /// Bytes per kind of storage and place; empty for no limit.
    pub capacity: BTreeMap<String, i64>,
    /// Volumes belong to places.
    pub topology: bool,
    /// Mutable parameters are understood at all.
    pub modify: bool,
    /// Names of mutable parameters that are accepted; empty for all.
    pub mutable_names: Vec<String>,
    /// Refuse calls out of order instead of performing them.
    pub check_lifecycle: bool,
    /// A controller publish comes before the node calls.
    pub attach: bool,
    /// File system volumes are images with a real file system.
    pub fs_images: bool,
    /// Publish to nodes that never registered.
    pub any_node: bool,
    /// What ids of volumes begin with.
    pub id_prefix: String,
    /// The node has to act after a controller expansion.
    pub node_expansion: bool,
}

/// The argument must be there.
pub fn required<'a>(value: &'a str, what: &str) -> Result<&'a str, Refusal> {
    if value.is_empty() {
        return Err(Refusal::new(
            Code::InvalidArgument,
            format!("{what} missing in request"),
        ));
    }
    Ok(value)
}
