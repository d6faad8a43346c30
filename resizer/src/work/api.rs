//! The kinds of objects that are asked for, and what failures of requests mean here.
//!
//! Only PATCH writes, and GET for Secrets and for objects in doubt.

use sidecar::kube::reflect::Resource;

pub use sidecar::kube::api::key;

/// PersistentVolumeClaims.
pub const CLAIMS: Resource = Resource::new("", "v1", "persistentvolumeclaims");
/// PersistentVolumes.
pub const VOLUMES: Resource = Resource::new("", "v1", "persistentvolumes");
/// Pods.
pub const PODS: Resource = Resource::new("", "v1", "pods");
/// VolumeAttributesClasses.
pub const CLASSES: Resource = Resource::new("storage.k8s.io", "v1", "volumeattributesclasses");
