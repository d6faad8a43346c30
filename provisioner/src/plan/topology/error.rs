//! Why there is no topology requirement for a claim.
//!
//! Each cause has a text for the user, who reads it in an event on the claim, and a consequence for
//! the claim.

use crate::model::Text;

/// Why no requirement can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The selected node has no CSINode.
    #[error("CSINode {0:?} of the selected node does not exist")]
    NodeGone(Text),
    /// The driver is not, or not with topology keys, in the selected node's CSINode.
    #[error(
        "CSINode {0:?} of the selected node has no topology keys for the driver: \
         the driver is not registered there, or its NodeGetInfo reports no topology"
    )]
    NoKeys(Text),
    /// There is a CSINode and no Node.
    #[error("selected node {0:?} does not exist")]
    NoNode(Text),
    /// The selected node lacks a label that its CSINode promises.
    #[error("selected node {node:?} has no label {key:?}, which the driver's topology needs")]
    NoLabel {
        /// The node.
        node: Text,
        /// The label.
        key: Text,
    },
    /// The class excludes the selected node.
    #[error("selected node {node:?} ({topology}) is not in the StorageClass's allowedTopologies")]
    NotAllowed {
        /// The node.
        node: Text,
        /// Its labels, for people.
        topology: String,
    },
    /// The cluster's nodes are needed, and no CSINode names a key.
    #[error("no CSINode has topology keys for the driver: it is not registered on any node yet")]
    NoKeysAnywhere,
    /// The cluster's nodes are needed, and none has the labels.
    #[error("no node has all labels of the driver's topology: {0}")]
    NoNodeWithKeys(String),
    /// The class multiplies out to too much.
    #[error(
        "the StorageClass's allowedTopologies come to more than {} combinations",
        super::allowed::MOST_TERMS
    )]
    TooMany,
}

impl Error {
    /// Whether another node must be selected: the one that was is gone. Anything else may heal and
    /// leaves the selection as it is. A node whose CSINode is still there counts as anything else.
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
