//! Why an attempt on a PersistentVolume ended without reaching its goal.
//!
//! The texts end up in events, where people read them, and not every failure is an event.

use crate::keys::{MIGRATED_TO, PROVISIONED_BY};
use crate::model::{SecretRef, Text};
use crate::plan::outcome::{ApiError, RpcError};
use crate::plan::secret;

/// Why an attempt ended. Every one is retried with back-off, for ever.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The source is one of this other driver, be it through migration of an in-tree plugin.
    #[error(
        "the source of the volume is one of the CSI driver {0}, not of this one: correct the annotation \
         {PROVISIONED_BY} or {MIGRATED_TO}"
    )]
    OtherDriver(Text),
    /// The source is of an in-tree plugin, and cannot be said in the driver's words: why.
    #[error("{0}")]
    Untranslatable(Text),
    /// There is no source that a CSI driver could know.
    #[error("the volume has no spec.csi, so that no driver knows it")]
    NotCsi,
    /// The driver cannot delete volumes.
    #[error(
        "the driver cannot delete volumes: it lacks CONTROLLER_SERVICE or CREATE_DELETE_VOLUME"
    )]
    Incapable,
    /// The class does not say which Secret is needed.
    #[error("failed to get the Secret reference from the StorageClass: {0}")]
    Secret(secret::Error),
    /// A value of the Secret is not text, so that no request can carry it.
    #[error(
        "secret {} in namespace {} has a value that is not UTF-8, which CSI cannot carry",
        .0.name,
        .0.namespace
    )]
    SecretNotText(SecretRef),
    /// A VolumeAttachment says that the volume, with its name, may be in use on a node.
    #[error("persistentvolume {0} is still attached to node {1}, waiting for detach")]
    Attached(Text, Text),
    /// Nobody knows at the moment whether a VolumeAttachment names the volume.
    #[error("the watch of VolumeAttachments is interrupted: the volume may be attached")]
    AttachmentsMissed,
    /// The driver refused, failed or did not answer in time.
    #[error("{0}")]
    Call(RpcError),
    /// The finalizer could not be added or removed.
    #[error("could not patch the finalizers: {0}")]
    FinalizerAction(ApiError),
    /// The volume is gone, the object could not be deleted.
    #[error("the driver deleted the volume, but the PersistentVolume could not be deleted: {0}")]
    Remove(ApiError),
    /// The volume is gone, the finalizer could not be removed.
    #[error("the volume is deleted, the finalizer could not be removed: {0}")]
    Release(ApiError),
}

impl Failure {
    /// Whether it is an event on the volume; otherwise it is only logged.
    #[must_use]
    pub fn is_event(&self) -> bool {
        match self {
            Self::OtherDriver(_)
            | Self::Untranslatable(_)
            | Self::NotCsi
            | Self::Incapable
            | Self::Secret(_)
            | Self::SecretNotText(_)
            | Self::Attached(..)
            | Self::Call(_) => true,
            Self::AttachmentsMissed
            | Self::FinalizerAction(_)
            | Self::Remove(_)
            | Self::Release(_) => false,
        }
    }

    /// Whether nothing has failed: the volume only waits for the nodes that use it.
    #[must_use]
    pub fn is_wait(&self) -> bool {
        matches!(self, Self::Attached(..))
    }

    /// Whether it counts as a failed deletion in the metrics.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        !self.is_wait() && !matches!(self, Self::AttachmentsMissed | Self::FinalizerAction(_))
    }
}
