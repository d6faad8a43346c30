//! PersistentVolume: the driver's id of it, and the claim that it is bound to.

use super::{Text, Uid};

/// What is read of a PersistentVolume that is bound, cached under its name. Others are not kept.
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
