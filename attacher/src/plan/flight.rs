//! What a controller call is about: one at a time for a volume and node.
//!
//! Two VolumeAttachments can name the same volume and node, and an attachment can be deleted and
//! made anew under another name: the queue alone does not keep them apart.

pub use sidecar::keyed_guard::KeyedGuards;

use crate::model::Text;

/// What a call is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// Volume handle.
    pub volume: Text,
    /// The node as the driver knows it.
    pub node: Text,
}

impl Target {
    /// The volume with this handle on the node that the driver knows by this id.
    #[must_use]
    pub fn new(volume: &str, node: &str) -> Self {
        Self {
            volume: volume.into(),
            node: node.into(),
        }
    }
}
