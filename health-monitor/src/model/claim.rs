//! PersistentVolumeClaim: its binding and the health conditions in its status.

use std::sync::Arc;

use super::{Text, Uid};

/// A PersistentVolumeClaim. The cache does not keep bound claims without health conditions: decisions treat a claim
/// missing from the cache as one of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// `metadata.uid`.
    pub uid: Uid,
    /// `spec.volumeName`.
    pub volume: Text,
    /// Whether `status.phase` is `Bound` and the claim is not being deleted.
    pub bound: bool,
    /// Status and reason of each of `status.healthStatus.healthConditions`.
    pub stored: Arc<[(Text, Text)]>,
}

impl Claim {
    /// Whether the cache keeps the claim: it is unbound or has health conditions.
    #[must_use]
    pub fn is_special(&self) -> bool {
        !self.bound || !self.stored.is_empty()
    }
}
