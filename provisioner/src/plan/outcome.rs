//! How requests and calls fail, and which objects would cure a failure.

use crate::model::Text;

pub use sidecar::refusal::{ApiError, Refusal};
pub use sidecar::rpc_code::RpcError;

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
    /// The VolumeAttributesClass of this name. These classes are not watched but polled: see
    /// [`class_poller`](super::class_poller).
    AttributesClass(Text),
}
