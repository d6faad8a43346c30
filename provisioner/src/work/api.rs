//! The kinds of objects that are asked for, and what failures of requests mean here.

use serde_json::Value;
use sidecar::kube::api::{self, Api};
use sidecar::kube::key::Key;
use sidecar::kube::reflect::Resource;

use crate::plan::outcome::{ApiError, Refusal};

const STORAGE: &str = "storage.k8s.io";
const SNAPSHOT: &str = crate::keys::SNAPSHOT_GROUP;

/// PersistentVolumeClaims.
pub const CLAIMS: Resource = Resource::new("", "v1", "persistentvolumeclaims");
/// PersistentVolumes.
pub const VOLUMES: Resource = Resource::new("", "v1", "persistentvolumes");
/// Nodes; only their labels are read.
pub const NODES: Resource = Resource {
    metadata_only: true,
    ..Resource::new("", "v1", "nodes")
};
/// CSINodes.
pub const CSI_NODES: Resource = Resource::new(STORAGE, "v1", "csinodes");
/// StorageClasses.
pub const CLASSES: Resource = Resource::new(STORAGE, "v1", "storageclasses");
/// VolumeAttributesClasses.
pub const ATTRIBUTES_CLASSES: Resource = Resource::new(STORAGE, "v1", "volumeattributesclasses");
/// VolumeAttachments.
pub const ATTACHMENTS: Resource = Resource::new(STORAGE, "v1", "volumeattachments");
/// Leases.
pub const LEASES: Resource = Resource::new("coordination.k8s.io", "v1", "leases");
/// VolumeSnapshots.
pub const SNAPSHOTS: Resource = Resource::new(SNAPSHOT, "v1", "volumesnapshots");
/// VolumeSnapshotContents.
pub const CONTENTS: Resource = Resource::new(SNAPSHOT, "v1", "volumesnapshotcontents");
/// ReferenceGrants.
pub const GRANTS: Resource =
    Resource::new("gateway.networking.k8s.io", "v1beta1", "referencegrants");

impl From<api::ApiError> for ApiError {
    fn from(error: api::ApiError) -> Self {
        let refusal = if error.is_not_found() {
            Refusal::NotFound
        } else if error.is_forbidden() {
            Refusal::Forbidden
        } else if error.is_already_exists() {
            Refusal::AlreadyExists
        } else if error.is_conflict() {
            Refusal::Conflict
        } else if error.is_unknown() {
            Refusal::Unknown
        } else {
            Refusal::Other
        };
        Self {
            message: error.message,
            refusal,
        }
    }
}

/// Reads an object, changes it and writes it back as a whole, so that what this program does not
/// know survives. `change` says whether there is anything to write. The JSON as it is afterwards,
/// which the caller may not have seen before even if nothing was written.
///
/// # Errors
/// The server refused, or nobody knows.
pub async fn edit(
    api: &Api,
    resource: &Resource,
    key: &Key,
    change: impl FnOnce(&mut Value) -> bool,
) -> Result<String, api::ApiError> {
    let read = api.get(resource, key).await?;
    let mut object: Value =
        serde_json::from_str(&read).map_err(|error| api::ApiError::unreadable(&error))?;
    if !change(&mut object) {
        return Ok(read);
    }
    api.update(resource, key, &object).await
}

/// The path of a LIST that is read by pages.
#[must_use]
pub fn page(path: &str, limit: u32, token: Option<&str>) -> String {
    let token = token.map(|token| {
        let token = token.replace('+', "%2B");
        let token = token.replace('/', "%2F").replace('=', "%3D");
        format!("&continue={token}")
    });
    format!("{path}?limit={limit}{}", token.unwrap_or_default())
}

/// The key of an object.
///
/// # Errors
/// There can be no object of this name.
pub fn key(namespace: Option<&str>, name: &str) -> Result<Key, api::ApiError> {
    let text = format!("{name:?} is no object name");
    Key::new(namespace, name).ok_or_else(|| api::ApiError::local(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart() {
        let refusal = |code, reason: &str| {
            let error = api::ApiError {
                message: "m".into(),
                code,
                reason: reason.into(),
            };
            ApiError::from(error).refusal
        };
        assert_eq!(refusal(404, "NotFound"), Refusal::NotFound);
        assert_eq!(refusal(403, "Forbidden"), Refusal::Forbidden);
        assert_eq!(refusal(409, "AlreadyExists"), Refusal::AlreadyExists);
        assert_eq!(refusal(409, "Conflict"), Refusal::Conflict);
        assert_eq!(refusal(500, ""), Refusal::Unknown);
        assert_eq!(refusal(0, ""), Refusal::Unknown);
        assert_eq!(refusal(422, "Invalid"), Refusal::Other);
    }
}
