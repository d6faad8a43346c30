//! Checks whether the API server serves kinds that older servers lack or that belong to another
//! project.

use serde::Deserialize;

use super::api::{Api, ApiError};

/// Whether the server serves `kind` in this version, `GROUP/VERSION`.
///
/// # Errors
/// The request failed; a missing API version is not an error.
pub async fn serves(api: &Api, version: &str, kind: &str) -> Result<bool, ApiError> {
    match api.read(&format!("/apis/{version}")).await {
        Ok(list) => has(&list, kind).ok_or_else(|| ApiError::unreadable(&"no list of resources")),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether `kind` is in a list of resources; `None` if the list is unreadable.
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
    fn kinds_are_found_or_known_to_be_missing() {
        let list = r#"{"resources":[{"name":"x","kind":"VolumeAttributesClass"},{}]}"#;
        assert_eq!(has(list, "VolumeAttributesClass"), Some(true));
        assert_eq!(has(list, "VolumeSnapshot"), Some(false));
        assert_eq!(has("nothing", "VolumeSnapshot"), None);
    }
}
