//! Strings of ours on objects of the snapshot API. Those that the field shares are in
//! [`sidecar::snapshot`].

/// Annotation on a VolumeSnapshotClass and on the contents made with it: where their snapshots are to
/// be usable, as a JSON list of topology selector terms. Stands for a field that the API does not have
/// yet.
pub const ALLOWED_TOPOLOGIES: &str = "csi-sidecars.io/snapshot-allowed-topologies";
