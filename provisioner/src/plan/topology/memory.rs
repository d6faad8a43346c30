//! What an attempt for a claim found out about places, for the next attempt.
//!
//! Separate, because it outlives the attempt: the books of the process keep it per claim, from the
//! first attempt until one succeeds or fails for good.

use std::sync::Arc;

use super::term::Term;
use crate::model::{List, Text};

/// What [`requirement`](super::requirement()) found out. Without it a retry of a long CreateVolume
/// would ask for another place, or none, once a node has gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The node that was selected; for another one, the rest says nothing.
    pub(super) node: Option<Text>,
    /// The keys that tell nodes apart.
    pub(super) keys: Option<List>,
    /// Place of the selected node.
    pub(super) selected: Option<Term>,
    /// The cluster's places, shared with everybody who was told the same.
    pub(super) terms: Option<Arc<[Term]>>,
}

impl Memory {
    /// Whether there is nothing to keep: all came from the StorageClass.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_none() && self.selected.is_none() && self.terms.is_none()
    }
}
