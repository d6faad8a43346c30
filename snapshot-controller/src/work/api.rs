//! The kinds of objects, and what failures of requests mean here.

use sidecar::kube::api;
use sidecar::kube::reflect::Resource;
use sidecar::snapshot::{self, VERSION};

use crate::plan::step::{ApiError, ErrorKind};

/// VolumeSnapshots.
pub const SNAPSHOTS: Resource = of(snapshot::SNAPSHOT);
/// VolumeSnapshotContents.
pub const CONTENTS: Resource = of(snapshot::CONTENT);
/// VolumeSnapshotClasses.
pub const CLASSES: Resource = of(snapshot::CLASS);
/// VolumeGroupSnapshots.
pub const GROUP_SNAPSHOTS: Resource = of(snapshot::GROUP_SNAPSHOT);
/// VolumeGroupSnapshotContents.
pub const GROUP_CONTENTS: Resource = of(snapshot::GROUP_CONTENT);
/// VolumeGroupSnapshotClasses.
pub const GROUP_CLASSES: Resource = of(snapshot::GROUP_CLASS);
/// PersistentVolumeClaims.
pub const CLAIMS: Resource = Resource::new("", "v1", "persistentvolumeclaims");
/// PersistentVolumes.
pub const VOLUMES: Resource = Resource::new("", "v1", "persistentvolumes");
/// Nodes.
pub const NODES: Resource = Resource::new("", "v1", "nodes");

const fn of(kind: snapshot::Kind) -> Resource {
    Resource::new(kind.group, VERSION, kind.plural)
}

impl From<api::ApiError> for ApiError {
    fn from(error: api::ApiError) -> Self {
        let kind = if error.is_not_found() {
            ErrorKind::NotFound
        } else if error.is_already_exists() {
            ErrorKind::Exists
        } else if error.is_conflict() {
            ErrorKind::Conflict
        } else if error.is_unknown() {
            ErrorKind::Unknown
        } else {
            ErrorKind::Refused
        };
        Self {
            kind,
            message: error.message,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_apart() {
        for (code, reason, kind) in [
            (404, "NotFound", ErrorKind::NotFound),
            (409, "AlreadyExists", ErrorKind::Exists),
            (409, "Conflict", ErrorKind::Conflict),
            (403, "Forbidden", ErrorKind::Refused),
            (422, "Invalid", ErrorKind::Refused),
            (500, "InternalError", ErrorKind::Unknown),
            (0, "", ErrorKind::Unknown),
        ] {
            let error = api::ApiError {
                message: "m".to_owned(),
                refusal: api::Refusal::of(code, reason),
            };
            assert_eq!(ApiError::from(error).kind, kind, "{code} {reason}");
        }
    }
}
