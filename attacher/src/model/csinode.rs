//! CSINode: under which id the driver knows a node.
//!
//! Only this driver's entry is kept; a node that runs many drivers costs no more than one that
//! runs a single one.

use super::Text;

/// What the attacher reads of a `storage.k8s.io/v1` CSINode. Its name is the node's, and the key
/// under which it is cached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiNode {
    /// `nodeID` of this driver's entry in `spec.drivers`; `None` while the driver is not
    /// registered on the node.
    pub node_id: Option<Text>,
}
