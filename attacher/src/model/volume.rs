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
    /// `accessModes`, as written.
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
    InTree(InTree),
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

/// In-tree volume plugins whose volumes a CSI driver serves today.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InTree {
    /// `awsElasticBlockStore`.
    AwsElasticBlockStore,
    /// `gcePersistentDisk`.
    GcePersistentDisk,
    /// `cinder`.
    Cinder,
    /// `azureDisk`.
    AzureDisk,
    /// `azureFile`.
    AzureFile,
    /// `vsphereVolume`.
    VsphereVolume,
    /// `portworxVolume`.
    PortworxVolume,
}

impl InTree {
    /// Name of the in-tree plugin, such as `kubernetes.io/aws-ebs`.
    #[must_use]
    pub fn plugin(self) -> &'static str {
        match self {
            Self::AwsElasticBlockStore => "kubernetes.io/aws-ebs",
            Self::GcePersistentDisk => "kubernetes.io/gce-pd",
            Self::Cinder => "kubernetes.io/cinder",
            Self::AzureDisk => "kubernetes.io/azure-disk",
            Self::AzureFile => "kubernetes.io/azure-file",
            Self::VsphereVolume => "kubernetes.io/vsphere-volume",
            Self::PortworxVolume => "kubernetes.io/portworx-volume",
        }
    }
}
