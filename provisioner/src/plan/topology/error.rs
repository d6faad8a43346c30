//! Why no topology requirement can be made for a claim.
//!
//! Each cause has a text, which users read in an event on the claim, and a consequence for the claim.

use crate::model::Text;

/// Why no requirement can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The selected node has no CSINode.
    #[error("CSINode {0:?} of the selected node does not exist")]
    NodeGone(Text),
    /// The selected node's CSINode does not contain the driver, or has no topology keys for it.
    #[error(
        "CSINode {0:?} of the selected node has no topology keys for the driver: \
         the driver is not registered there, or its NodeGetInfo reports no topology"
    )]
    NoKeys(Text),
    /// The selected node has a CSINode, but no Node.
    #[error("selected node {0:?} does not exist")]
    NoNode(Text),
    /// The selected node lacks the label of one of the driver's topology keys.
    #[error("selected node {node:?} has no label {key:?}, which the driver's topology needs")]
    NoLabel {
        /// The node.
        node: Text,
        /// Key of the missing label.
        key: Text,
    },
    /// The class does not allow the selected node.
    #[error("selected node {node:?} ({topology}) is not in the StorageClass's allowedTopologies")]
    NotAllowed {
        /// The node.
        node: Text,
        /// The node's topology labels, for the text.
        topology: String,
    },
    /// The cluster's topologies are needed, and no CSINode has topology keys.
    #[error("no CSINode has topology keys for the driver: it is not registered on any node yet")]
    NoKeysAnywhere,
    /// The cluster's topologies are needed, and no node has all labels.
    #[error("no node has all labels of the driver's topology: {0}")]
    NoNodeWithKeys(String),
    /// The class has too many combinations.
    #[error(
        "the StorageClass's allowedTopologies come to more than {} combinations",
        super::allowed::MOST_TERMS
    )]
    TooMany,
}

impl Error {
    /// Whether the scheduler must select another node, because the selected one is gone. Any other error may heal, and
    /// leaves the selection as it is, also if only the CSINode is left.
    #[must_use]
    pub fn reschedules(&self) -> bool {
        match self {
            Self::NodeGone(_) => true,
            Self::NoKeys(_)
            | Self::NoNode(_)
            | Self::NoLabel { .. }
            | Self::NotAllowed { .. }
            | Self::NoKeysAnywhere
            | Self::NoNodeWithKeys(_)
            | Self::TooMany => false,
        }
    }
}
