//! PersistentVolumeClaim: which health conditions its status has.

use std::sync::Arc;

use super::{Text, Uid};

/// A PersistentVolumeClaim. The cache keeps no bound claims without health conditions: decisions take a claim that it
/// lacks for one of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// `metadata.uid`.
    pub uid: Uid,
    /// `spec.volumeName`.
    pub volume: Text,
    /// `status.phase` is `Bound`, and it is not being deleted.
    pub bound: bool,
    /// Status and reason of each of `status.healthStatus.healthConditions`.
    pub stored: Arc<[(Text, Text)]>,
}

impl Claim {
    /// Whether the cache keeps it: it is not bound, or has health conditions.
    #[must_use]
    pub fn is_special(&self) -> bool {
        !self.bound || !self.stored.is_empty()
    }
}
