//! PersistentVolume: its volume handle and its claim.

use super::{Text, Uid};

/// A bound PersistentVolume. The cache keeps only bound ones, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// `spec.csi.driver`.
    pub driver: Text,
    /// `spec.csi.volumeHandle`.
    pub handle: Text,
    /// `namespace/name` of `spec.claimRef`.
    pub claim: Text,
    /// `uid` of `spec.claimRef`.
    pub uid: Uid,
}
