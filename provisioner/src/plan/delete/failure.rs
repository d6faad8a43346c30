//! Why an attempt on a PersistentVolume ended without reaching its goal.
//!
//! The texts end up in events, where people read them, and not every failure is an event.

use crate::keys::{MIGRATED_TO, PROVISIONED_BY};
use crate::model::{SecretRef, Text};
use crate::plan::outcome::{ApiError, RpcError};
use crate::plan::secret;

/// Why an attempt ended. Every failure is retried with back-off, without limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The source belongs to this other driver, maybe through migration of an in-tree plugin.
    #[error(
        "the source of the volume is one of the CSI driver {0}, not of this one: correct the annotation \
         {PROVISIONED_BY} or {MIGRATED_TO}"
    )]
    OtherDriver(Text),
    /// The source is of an in-tree plugin, and cannot be translated: the error.
    #[error("{0}")]
    Untranslatable(Text),
    /// The volume has no source that a CSI driver could know.
    #[error("the volume has no spec.csi, so that no driver knows it")]
    NotCsi,
    /// The driver lacks the capabilities to delete volumes.
    #[error(
        "the driver cannot delete volumes: it lacks CONTROLLER_SERVICE or CREATE_DELETE_VOLUME"
    )]
    Incapable,
    /// The class names no valid Secret.
    #[error("failed to get the Secret reference from the StorageClass: {0}")]
    Secret(secret::Error),
    /// A value of the Secret is not UTF-8, and a CSI request cannot carry it.
    #[error(
        "secret {} in namespace {} has a value that is not UTF-8, which CSI cannot carry",
        .0.name,
        .0.namespace
    )]
    SecretNotText(SecretRef),
    /// A VolumeAttachment names the volume (the first field): it may be in use on a node (the second).
    #[error("persistentvolume {0} is still attached to node {1}, waiting for detach")]
    Attached(Text, Text),
    /// VolumeAttachments may be missing from the cache, so that the volume may be attached.
    #[error("the watch of VolumeAttachments is interrupted: the volume may be attached")]
    AttachmentsMissed,
    /// The driver refused, failed, or did not answer in time.
    #[error("{0}")]
    Call(RpcError),
    /// The finalizer could not be added or removed.
    #[error("could not patch the finalizers: {0}")]
    FinalizerAction(ApiError),
    /// The volume is deleted, but its object could not be deleted.
    #[error("the driver deleted the volume, but the PersistentVolume could not be deleted: {0}")]
    Remove(ApiError),
    /// The volume is deleted, but the finalizer could not be removed from its object.
    #[error("the volume is deleted, the finalizer could not be removed: {0}")]
    Release(ApiError),
}

impl Failure {
    /// Whether it becomes an event on the volume; otherwise it is only logged.
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

    /// Whether nothing has failed: the volume waits until it is detached.
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
