//! Node, read for distributed snapshotting only.

use super::Pairs;

/// The fields that decisions need of a Node. The name is the key under which it is cached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// `metadata.labels`
    pub labels: Pairs,
}
