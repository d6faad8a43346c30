//! PersistentVolume, and the volume specification that a VolumeAttachment may carry inline.
//!
//! Separate, because PersistentVolumes are by far the most numerous objects: every field here
//! costs memory times their number, and everything that repeats is shared.

use std::sync::Arc;

use uuid::Uuid;

use super::{List, Pairs, Text};

/// What the attacher reads of a PersistentVolume. The name is the key under which it is cached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// `metadata.uid`, for events about the volume; `None` where it is not a UUID. Sixteen bytes
    /// instead of a string, because there is one per volume of the cluster.
    pub uid: Option<Uuid>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.finalizers`; `None` where the field is absent, which needs another patch than an
    /// empty list.
    pub finalizers: Option<List>,
    /// Annotation [`MIGRATED_TO_ANNOTATION`](crate::keys::MIGRATED_TO_ANNOTATION).
    pub migrated_to: Option<Text>,
    /// `spec`.
    pub spec: VolumeSpec,
}

impl Volume {
    /// Whether `finalizer` is among the object's finalizers.
    #[must_use]
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizer_index(finalizer).is_some()
    }

    /// Position of the first `finalizer` in the object's list.
    #[must_use]
    pub fn finalizer_index(&self, finalizer: &str) -> Option<usize> {
        self.finalizers
            .as_deref()?
            .iter()
            .position(|held| &**held == finalizer)
    }
}

/// What the attacher reads of a PersistentVolumeSpec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSpec {
    /// The volume's source.
    pub source: Source,
    /// `accessModes`, as written; of an in-tree volume those that its CSI driver is to be asked for.
    pub access_modes: List,
    /// Whether `volumeMode` is `Block`.
    pub block: bool,
    /// `mountOptions`, in order.
    pub mount_options: List,
}

/// Where a volume comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// `csi`.
    Csi(CsiSource),
    /// A source of an in-tree plugin that was replaced by a CSI driver.
    InTree(Box<InTree>),
    /// Any other source, or none.
    Other,
}

/// `spec.csi` of a PersistentVolume. Its `driver` is not kept: the VolumeAttachment's attacher
/// alone says which driver acts, as it always did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiSource {
    /// `volumeHandle`: the driver's id of the volume.
    pub handle: Text,
    /// `readOnly`.
    pub read_only: bool,
    /// `fsType`, empty where unset.
    pub fs_type: Text,
    /// `volumeAttributes`: the volume context.
    pub attributes: Pairs,
    /// `controllerPublishSecretRef`.
    pub publish_secret: Option<Arc<SecretRef>>,
}

/// Reference to a Secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SecretRef {
    /// Namespace of the Secret.
    pub namespace: Text,
    /// Name of the Secret.
    pub name: Text,
}

/// Source of an in-tree plugin, of which nothing is kept but what the CSI driver is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InTree {
    /// Name of the CSI driver that replaced the plugin.
    pub driver: &'static str,
    /// The source in that driver's words, or why it cannot be said in them.
    pub csi: Result<CsiSource, Text>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_small() {
        // What in-tree sources need on top is beside it, so that no other volume pays for them.
        assert!(size_of::<Volume>() <= 160, "{}", size_of::<Volume>());
        assert_eq!(size_of::<Source>(), size_of::<CsiSource>());
    }
}
