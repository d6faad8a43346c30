//! Kubernetes' own objects: their wire types and resource names.
//!
//! Several controllers read the same kinds. Each keeps its own records; the wire fields are defined
//! here once. Nothing an API server may send fails to decode: absent and `null` are the same
//! everywhere.

pub mod attachment;
pub mod claim;
pub mod class;
pub mod node;
pub mod node_selector;
pub mod volume;

use serde::Deserialize;

use super::interner::Interner;
use super::lean::{Text, interned};
use super::reflect::Resource;
use crate::quantity::Quantity;
use crate::secret::SecretRef;

const STORAGE: &str = "storage.k8s.io";

/// PersistentVolumeClaims.
pub const CLAIMS: Resource = Resource::new("", "v1", "persistentvolumeclaims");
/// PersistentVolumes.
pub const VOLUMES: Resource = Resource::new("", "v1", "persistentvolumes");
/// Events.
pub const EVENTS: Resource = Resource::new("", "v1", "events");
/// Pods.
pub const PODS: Resource = Resource::new("", "v1", "pods");
/// Nodes.
pub const NODES: Resource = Resource::new("", "v1", "nodes");
/// CSINodes.
pub const CSI_NODES: Resource = Resource::new(STORAGE, "v1", "csinodes");
/// StorageClasses.
pub const STORAGE_CLASSES: Resource = Resource::new(STORAGE, "v1", "storageclasses");
/// VolumeAttributesClasses.
pub const ATTRIBUTES_CLASSES: Resource = Resource::new(STORAGE, "v1", "volumeattributesclasses");
/// VolumeAttachments.
pub const ATTACHMENTS: Resource = Resource::new(STORAGE, "v1", "volumeattachments");

/// A reference to an object of a known kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct Reference<'a> {
    /// `namespace`
    pub namespace: Option<Text<'a>>,
    /// `name`
    pub name: Option<Text<'a>>,
    /// `uid`
    pub uid: Option<Text<'a>>,
}

impl Reference<'_> {
    /// The Secret that this reference names.
    #[must_use]
    pub fn secret(&self, strings: &Interner) -> SecretRef {
        SecretRef {
            namespace: interned(&self.namespace, strings),
            name: interned(&self.name, strings),
        }
    }
}

/// A status of which only the phase is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct Phase<'a> {
    /// `phase`
    pub phase: Option<Text<'a>>,
    /// `lastPhaseTransitionTime`, which only PersistentVolumes have
    pub last_phase_transition_time: Option<Text<'a>>,
}

impl Phase<'_> {
    /// The phase, empty if absent.
    #[must_use]
    pub fn text(&self) -> &str {
        self.phase.as_deref().unwrap_or_default()
    }
}

/// Parses a quantity; `None` for a text that the API server would not have accepted.
#[must_use]
pub fn quantity(text: Option<&Text<'_>>) -> Option<Quantity> {
    text.and_then(|text| text.parse().ok())
}
