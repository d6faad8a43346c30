//! PersistentVolumeClaim: which health conditions its status has.

use std::sync::Arc;

use super::{Text, Uid};

/// What is read of a PersistentVolumeClaim. Bound ones without health conditions are not kept: that one is not known
/// means that.
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
    /// Whether anything of it differs from what holds for a claim that is not known.
    #[must_use]
    pub fn is_special(&self) -> bool {
        !self.bound || !self.stored.is_empty()
    }
}
