//! What the API server serves: kinds that older servers lack, or that come with another project.

use serde::Deserialize;
use sidecar::kube::api::{Api, ApiError};
use sidecar::verbose;

/// Whether the server is known to have no VolumeAttributesClass. A server that does not say is
/// taken to have it.
pub async fn lacks_attributes_class(api: &Api) -> bool {
    match api.read("/apis/storage.k8s.io/v1").await {
        Ok(list) => has(&list, "VolumeAttributesClass") == Some(false),
        Err(error) => {
            verbose!(2, err = %error, "Could not ask the API server for its kinds");
            error.is_not_found()
        }
    }
}

/// Whether the server has snapshots.
pub async fn has_snapshots(api: &Api) -> bool {
    match api.read("/apis/snapshot.storage.k8s.io/v1").await {
        Ok(list) => has(&list, "VolumeSnapshot") == Some(true),
        Err(error) => {
            verbose!(2, err = %error, "The API server has no VolumeSnapshots");
            false
        }
    }
}

/// In which version the server has CSIStorageCapacities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapacityVersion {
    /// Since Kubernetes 1.24.
    V1,
    /// Before.
    V1Beta1,
}

impl CapacityVersion {
    /// The version alone.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Beta1 => "v1beta1",
        }
    }

    /// `apiVersion` of the objects.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "storage.k8s.io/v1",
            Self::V1Beta1 => "storage.k8s.io/v1beta1",
        }
    }
}

/// The version of CSIStorageCapacities to use.
///
/// # Errors
/// The server does not say.
pub async fn capacity_version(api: &Api) -> Result<CapacityVersion, ApiError> {
    match api.read("/apis/storage.k8s.io/v1").await {
        Ok(list) => match has(&list, "CSIStorageCapacity") {
            Some(true) => Ok(CapacityVersion::V1),
            Some(false) => Ok(CapacityVersion::V1Beta1),
            None => Err(ApiError::unreadable(&"no list of resources")),
        },
        Err(error) if error.is_not_found() => Ok(CapacityVersion::V1Beta1),
        Err(error) => Err(error),
    }
}

/// Whether `kind` is in a list of resources; `None` if that cannot be read.
fn has(list: &str, kind: &str) -> Option<bool> {
    #[derive(Deserialize)]
    struct List {
        resources: Vec<Resource>,
    }
    #[derive(Deserialize)]
    struct Resource {
        #[serde(default)]
        kind: String,
    }
    let list: List = serde_json::from_str(list).ok()?;
    Some(list.resources.iter().any(|resource| resource.kind == kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_26_and_27_kinds_are_found_or_known_to_be_missing() {
        let list = r#"{"resources":[{"name":"x","kind":"VolumeAttributesClass"},{}]}"#;
        assert_eq!(has(list, "VolumeAttributesClass"), Some(true));
        assert_eq!(has(list, "VolumeSnapshot"), Some(false));
        assert_eq!(has("nothing", "VolumeSnapshot"), None);
    }
}
