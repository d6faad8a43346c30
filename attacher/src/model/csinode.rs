//! CSINode: under which id the driver knows a node.
//!
//! Only this driver's entry is kept; a node that runs many drivers costs no more than one that
//! runs a single one.

use super::Text;

/// What the attacher reads of a `storage.k8s.io/v1` CSINode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiNode {
    /// The node's name, which is also the object's.
    pub name: Text,
    /// `nodeID` of this driver's entry in `spec.drivers`; `None` while the driver is not
    /// registered on the node.
    pub node_id: Option<Text>,
}
