//! The kinds of objects that are asked for, and what failures of requests mean here.
//!
//! Only PATCH writes, and GET for Secrets and for objects in doubt.

use sidecar::kube::api;
use sidecar::kube::key::Key;
use sidecar::kube::reflect::Resource;

use crate::plan::outcome::{ApiError, Refusal};

/// PersistentVolumeClaims.
pub const CLAIMS: Resource = Resource::new("", "v1", "persistentvolumeclaims");
/// PersistentVolumes.
pub const VOLUMES: Resource = Resource::new("", "v1", "persistentvolumes");
/// Pods.
pub const PODS: Resource = Resource::new("", "v1", "pods");
/// VolumeAttributesClasses.
pub const CLASSES: Resource = Resource::new("storage.k8s.io", "v1", "volumeattributesclasses");

impl From<api::ApiError> for ApiError {
    fn from(error: api::ApiError) -> Self {
        let refusal = if error.is_not_found() {
            Refusal::NotFound
        } else if error.is_conflict() {
            Refusal::Conflict
        } else if error.is_unknown() {
            Refusal::Unknown
        } else {
            Refusal::Refused
        };
        Self {
            message: error.message,
            refusal,
        }
    }
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
        for (code, reason, expected) in [
            (404, "NotFound", Refusal::NotFound),
            (409, "Conflict", Refusal::Conflict),
            (500, "", Refusal::Unknown),
            (0, "", Refusal::Unknown),
            (422, "Invalid", Refusal::Refused),
            (403, "Forbidden", Refusal::Refused),
        ] {
            let (message, reason) = ("m".to_owned(), reason.to_owned());
            let error = api::ApiError {
                message,
                code,
                reason,
            };
            assert_eq!(ApiError::from(error).refusal, expected, "{code}");
        }
    }
}
