//! Discovers whether the API server serves kinds that older servers lack, or that come with another project.

use sidecar::kube::api::Api;
use sidecar::kube::discovery::serves;
use sidecar::verbose;

/// Whether the server is known to lack VolumeAttributesClass. If discovery fails, the server counts as having it.
pub async fn lacks_attributes_class(api: &Api) -> bool {
    match serves(api, "storage.k8s.io/v1", "VolumeAttributesClass").await {
        Ok(served) => !served,
        Err(error) => {
            verbose!(2, err = %error, "Could not list the kinds that the API server serves");
            false
        }
    }
}

/// Whether the server has VolumeSnapshots.
pub async fn has_snapshots(api: &Api) -> bool {
    match serves(api, "snapshot.storage.k8s.io/v1", "VolumeSnapshot").await {
        Ok(served) => served,
        Err(error) => {
            verbose!(2, err = %error, "Could not determine whether the API server serves VolumeSnapshots");
            false
        }
    }
}
