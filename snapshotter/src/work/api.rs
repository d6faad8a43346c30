//! The kinds of objects that are asked for.
//!
//! Only PATCH writes, and GET for Secrets and for contents in doubt.

use sidecar::kube::reflect::Resource;
use sidecar::snapshot::{CLASS, CONTENT, VERSION};

pub use sidecar::kube::api::key;

/// VolumeSnapshotContents.
pub const CONTENTS: Resource = Resource::new(CONTENT.group, VERSION, CONTENT.plural);
/// VolumeSnapshotClasses.
pub const CLASSES: Resource = Resource::new(CLASS.group, VERSION, CLASS.plural);
