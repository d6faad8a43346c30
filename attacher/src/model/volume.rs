//! PersistentVolume, and the volume specification that a VolumeAttachment may carry inline.
//!
//! A cluster has far more PersistentVolumes than any other of these objects. The cache therefore
//! stores the values that volumes share only once, and builds this record on each read.

use std::sync::Arc;

use uuid::Uuid;

use super::{List, Pairs, SecretRef, Text};

/// A PersistentVolume, as far as the attacher reads it. The cache stores it by name in a smaller
/// form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// `metadata.uid`, for events about the volume; `None` if it is not a UUID.
    pub uid: Option<Uuid>,
    /// `metadata.creationTimestamp`, in seconds since 1970; 0 if it cannot be parsed. For traces.
    pub created: u32,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.finalizers`; `None` if the field is absent, which needs a different patch than an
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

/// A PersistentVolumeSpec, as far as the attacher reads it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VolumeSpec {
    /// The volume's source.
    pub source: Source,
    /// `accessModes` as written; for an in-tree volume, the translated ones that its CSI driver
    /// receives.
    pub access_modes: List,
    /// Whether `volumeMode` is `Block`.
    pub block: bool,
    /// `mountOptions`, in order.
    pub mount_options: List,
}

/// The source of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// `csi`.
    Csi(CsiSource),
    /// A source of an in-tree plugin that a CSI driver replaced.
    InTree(Box<InTree>),
    /// Any other source, or none.
    Other,
}

impl Source {
    /// Whether the volume belongs to `driver`, directly or through the in-tree plugin that `driver`
    /// replaced.
    #[must_use]
    pub fn is_of(&self, driver: &str) -> bool {
        match self {
            Self::Csi(source) => *source.driver == *driver,
            Self::InTree(source) => source.driver == driver,
            Self::Other => false,
        }
    }

    /// The CSI source, written or translated.
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
    /// `driver`. It decides only whether the cache keeps the volume; as in upstream,
    /// `spec.attacher` of the VolumeAttachment alone names the driver that acts.
    pub driver: Text,
    /// `volumeHandle`: the driver's id for the volume.
    pub handle: Text,
    /// `readOnly`.
    pub read_only: bool,
    /// `fsType`, empty if unset.
    pub fs_type: Text,
    /// `volumeAttributes`: the volume context.
    pub attributes: Pairs,
    /// `controllerPublishSecretRef`.
    pub publish_secret: Option<Arc<SecretRef>>,
}

/// A source of an in-tree plugin, reduced to its CSI translation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InTree {
    /// Name of the CSI driver that replaced the plugin.
    pub driver: &'static str,
    /// The translated source, or why the translation failed.
    pub csi: Result<CsiSource, Text>,
}
