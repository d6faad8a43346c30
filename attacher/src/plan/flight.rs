//! The volume and node of a controller call: only one call per pair runs at a time.
//!
//! The queue alone does not ensure that: two VolumeAttachments can name the same volume and node,
//! and an attachment can be deleted and recreated under another name.

pub use sidecar::keyed_guard::KeyedGuards;

use crate::model::Text;

/// The volume and node of a call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// Volume handle.
    pub volume: Text,
    /// The driver's id of the node.
    pub node: Text,
}

impl Target {
    /// The volume with this handle on the node with this id.
    #[must_use]
    pub fn new(volume: &str, node: &str) -> Self {
        Self {
            volume: volume.into(),
            node: node.into(),
        }
    }
}
