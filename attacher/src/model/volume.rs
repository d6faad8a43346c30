//! PersistentVolume, and the volume specification that a VolumeAttachment may carry inline.
//!
//! PersistentVolumes are by far the most numerous objects. What is said of one here is put together
//! when it is looked at: the cache keeps apart what repeats.

use std::sync::Arc;

use uuid::Uuid;

use super::{List, Pairs, SecretRef, Text};

/// What the attacher reads of a PersistentVolume. The cache keeps it in fewer bytes, under its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// `metadata.uid`, for events about the volume; `None` where it is not a UUID.
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// `csi`.
    Csi(CsiSource),
    /// A source of an in-tree plugin that was replaced by a CSI driver.
    InTree(Box<InTree>),
    /// Any other source, or none.
    Other,
}

impl Source {
    /// Whether it is of `driver`, or of the in-tree plugin that it replaced.
    #[must_use]
    pub fn is_of(&self, driver: &str) -> bool {
        match self {
            Self::Csi(source) => *source.driver == *driver,
            Self::InTree(source) => source.driver == driver,
            Self::Other => false,
        }
    }

    /// What the CSI driver is told of it.
    pub fn csi_mut(&mut self) -> Option<&mut CsiSource> {
        match self {
            Self::Csi(source) => Some(source),
            Self::InTree(source) => source.csi.as_mut().ok(),
            Self::Other => None,
        }
    }
}

/// `spec.csi` of a PersistentVolume.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CsiSource {
    /// `driver`. It says whether the volume is kept unasked and nothing else: the VolumeAttachment's
    /// attacher alone says which driver acts, as it always did.
    pub driver: Text,
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

/// Source of an in-tree plugin, of which nothing is kept but what the CSI driver is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InTree {
    /// Name of the CSI driver that replaced the plugin.
    pub driver: &'static str,
    /// The source in that driver's words, or why it cannot be said in them.
    pub csi: Result<CsiSource, Text>,
}
