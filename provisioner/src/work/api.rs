//! The kinds of objects that the provisioner requests, and the paths of their requests.

use sidecar::kube::objects;
use sidecar::kube::reflect::Resource;

pub use sidecar::kube::api::key;
pub use sidecar::kube::objects::{
    ATTACHMENTS, ATTRIBUTES_CLASSES, CLAIMS, CSI_NODES, STORAGE_CLASSES as CLASSES, VOLUMES,
};

const SNAPSHOT: &str = crate::keys::SNAPSHOT_GROUP;

/// Nodes; only their labels are read.
pub const NODES: Resource = Resource {
    metadata_only: true,
    ..objects::NODES
};
/// CSIStorageCapacities.
pub const CAPACITIES: Resource = Resource::new("storage.k8s.io", "v1", "csistoragecapacities");
/// Leases.
pub const LEASES: Resource = Resource::new("coordination.k8s.io", "v1", "leases");
/// VolumeSnapshots.
pub const SNAPSHOTS: Resource = Resource::new(SNAPSHOT, "v1", "volumesnapshots");
/// VolumeSnapshotContents.
pub const CONTENTS: Resource = Resource::new(SNAPSHOT, "v1", "volumesnapshotcontents");
/// ReferenceGrants.
pub const GRANTS: Resource =
    Resource::new("gateway.networking.k8s.io", "v1beta1", "referencegrants");

/// The path of a LIST that is read by pages.
#[must_use]
pub fn page(path: &str, limit: u32, token: Option<&str>) -> String {
    let mut path = format!("{path}?limit={limit}");
    if let Some(token) = token {
        path.push_str("&continue=");
        // The token may have any characters.
        for byte in token.bytes() {
            if byte.is_ascii_alphanumeric() {
                path.push(byte.into());
            } else {
                path.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    path
}
