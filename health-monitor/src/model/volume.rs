//! PersistentVolume: the driver's id of it, and the claim that it is bound to.

use super::{Text, Uid};

/// A bound PersistentVolume, cached under its name. The cache keeps no others.
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
