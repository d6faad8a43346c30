//! What the API server serves: kinds that older servers lack, or that come with another project.

use serde::Deserialize;
use sidecar::kube::api::Api;
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
