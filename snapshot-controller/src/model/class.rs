//! VolumeSnapshotClass.

use super::{Policy, Text};

/// The fields that decisions need of a VolumeSnapshotClass. The sidecar reads its parameters, except those for the
/// Secret whose name this controller writes to contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// `driver`
    pub driver: Text,
    /// `deletionPolicy`
    pub policy: Policy,
    /// Whether the class is its driver's default.
    pub default: bool,
    /// Parameter [`SECRET_NAME_PARAMETER`](sidecar::snapshot::SECRET_NAME_PARAMETER).
    pub secret_name: Option<Text>,
    /// Parameter [`SECRET_NAMESPACE_PARAMETER`](sidecar::snapshot::SECRET_NAMESPACE_PARAMETER).
    pub secret_namespace: Option<Text>,
    /// The topologies in which snapshots must be usable: `allowedTopologies`, or the annotation in its place, as
    /// JSON.
    pub topologies: Option<Text>,
}
