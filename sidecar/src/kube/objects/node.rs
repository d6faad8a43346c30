//! Nodes and CSINodes on the wire.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::kube::lean::{Parts, Text, nullable};

/// A Node. Its status, by far the largest part, is never built.
pub type Node<'a> = Parts<'a, IgnoredAny>;

/// A CSINode.
pub type CsiNode<'a> = Parts<'a, Spec<'a>>;

/// The fields of a CSINode's `spec` that this program reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct Spec<'a> {
    /// `drivers`
    #[serde(deserialize_with = "nullable")]
    pub drivers: Vec<Driver<'a>>,
}

/// A driver on a node.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct Driver<'a> {
    /// `name`
    pub name: Option<Text<'a>>,
    /// `nodeID`
    #[serde(rename = "nodeID")]
    pub node_id: Option<Text<'a>>,
    /// `topologyKeys`
    #[serde(deserialize_with = "nullable")]
    pub topology_keys: Vec<Text<'a>>,
}
