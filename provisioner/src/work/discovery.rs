//! What the API server serves: kinds that older servers lack, or that come with another project.

use sidecar::kube::api::{Api, ApiError};
use sidecar::kube::discovery::serves;
use sidecar::verbose;

const STORAGE: &str = "storage.k8s.io/v1";

/// Whether the server is known to have no VolumeAttributesClass. A server that does not say is
/// taken to have it.
pub async fn lacks_attributes_class(api: &Api) -> bool {
    match serves(api, STORAGE, "VolumeAttributesClass").await {
        Ok(served) => !served,
        Err(error) => {
            verbose!(2, err = %error, "Could not list the kinds that the API server serves");
            false
        }
    }
}

/// Whether the server has snapshots.
pub async fn has_snapshots(api: &Api) -> bool {
    match serves(api, "snapshot.storage.k8s.io/v1", "VolumeSnapshot").await {
        Ok(served) => served,
        Err(error) => {
            verbose!(2, err = %error, "Could not determine whether the API server serves VolumeSnapshots");
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
    let v1 = serves(api, STORAGE, "CSIStorageCapacity").await?;
    Ok(if v1 {
        CapacityVersion::V1
    } else {
        CapacityVersion::V1Beta1
    })
}
