//! VolumeSnapshotClass.

use super::{Policy, Text};

/// The fields that decisions need of a VolumeSnapshotClass. Parameters are the sidecar's, except for the Secret that
/// contents are told about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// `driver`
    pub driver: Text,
    /// `deletionPolicy`
    pub policy: Policy,
    /// Whether it is the default of its driver.
    pub default: bool,
    /// Parameter [`SECRET_NAME_PARAMETER`](sidecar::snapshot::SECRET_NAME_PARAMETER).
    pub secret_name: Option<Text>,
    /// Parameter [`SECRET_NAMESPACE_PARAMETER`](sidecar::snapshot::SECRET_NAMESPACE_PARAMETER).
    pub secret_namespace: Option<Text>,
    /// Where snapshots are to be usable: `allowedTopologies`, or the annotation that stands for it, as
    /// JSON.
    pub topologies: Option<Text>,
}
