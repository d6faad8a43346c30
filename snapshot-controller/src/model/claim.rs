//! PersistentVolumeClaim.
//!
//! Lean, because there are many: large fields are kept only for the few claims that are being
//! snapshotted or restored.

use super::{Text, Uid};

/// The fields that decisions need of a claim. The name is part of the key under which it is cached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// `metadata.uid`
    pub uid: Uid,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `status.phase`
    pub phase: Phase,
    /// `spec.volumeName`, empty before it is set.
    pub volume: Text,
    /// The key of the VolumeSnapshot that the claim is being restored from.
    pub restores: Option<Text>,
    /// The whole object as JSON if it has our finalizer. The role only allows to replace claims, so
    /// removing the finalizer would take a GET otherwise.
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
    /// Parses `status.phase`.
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
