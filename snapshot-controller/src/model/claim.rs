//! PersistentVolumeClaim.
//!
//! Lean, because there are many: what is large is kept only for the few that are being snapshotted
//! or restored.

use super::{Text, Uid};

/// The fields that decisions need of a claim. The key under which it is cached has its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// `metadata.uid`
    pub uid: Uid,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `status.phase`
    pub phase: Phase,
    /// `spec.volumeName`, empty before one is chosen.
    pub volume: Text,
    /// The key of the VolumeSnapshot that it is restored from, while it is.
    pub restores: Option<Text>,
    /// The whole object as JSON if it has our finalizer. Claims may only be replaced, so that removing
    /// the finalizer would take a GET otherwise.
    pub protected: Option<Text>,
}

/// `status.phase`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// `Bound`
    Bound,
    /// `Pending`
    Pending,
    /// `Lost`, or unknown.
    #[default]
    Other,
}

impl Phase {
    /// As `status.phase` says it.
    #[must_use]
    pub fn new(text: &str) -> Self {
        match text {
            "Bound" => Self::Bound,
            "Pending" => Self::Pending,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_small() {
        assert!(size_of::<Claim>() <= 72, "{}", size_of::<Claim>());
    }
}
