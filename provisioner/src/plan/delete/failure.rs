//! Why an attempt on a PersistentVolume ended without reaching its goal.
//!
//! The texts end up in events, where people read them, and not every failure is an event.

use std::fmt;

use crate::keys::{MIGRATED_TO, PROVISIONED_BY};
use crate::model::{SecretRef, Text};
use crate::plan::outcome::{ApiError, RpcError};
use crate::plan::secret;

/// Why an attempt ended. Every one is retried with back-off, for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The source is one of this other driver, be it through migration of an in-tree plugin.
    OtherDriver(Text),
    /// The source is of an in-tree plugin, and cannot be said in the driver's words: why.
    Untranslatable(Text),
    /// There is no source that a CSI driver could know.
    NotCsi,
    /// The driver cannot delete volumes.
    Incapable,
    /// The class does not say which Secret is needed.
    Secret(secret::Error),
    /// A value of the Secret is not text, so that no request can carry it.
    SecretNotText(SecretRef),
    /// A VolumeAttachment says that the volume, with its name, may be in use on a node.
    Attached(Text, Text),
    /// Nobody knows at the moment whether a VolumeAttachment names the volume.
    AttachmentsMissed,
    /// The driver refused, failed or did not answer in time.
    Call(RpcError),
    /// The finalizer could not be added or removed.
    FinalizerAction(ApiError),
    /// The volume is gone, the object could not be deleted.
    Remove(ApiError),
    /// The volume is gone, the finalizer could not be removed.
    Release(ApiError),
}

impl Failure {
    /// Whether it is an event `VolumeFailedDelete` on the volume; otherwise it is only logged.
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

    /// Whether it counts as a failed deletion in the metrics.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        !matches!(self, Self::FinalizerAction(_) | Self::AttachmentsMissed)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherDriver(driver) => write!(
                out,
                "the source of the volume is one of the CSI driver {driver}, not of this one: correct the \
                 annotation {PROVISIONED_BY} or {MIGRATED_TO}"
            ),
            Self::Untranslatable(why) => out.write_str(why),
            Self::NotCsi => out.write_str("the volume has no spec.csi, so that no driver knows it"),
            Self::Incapable => out.write_str(
                "the driver cannot delete volumes: it lacks CONTROLLER_SERVICE or \
                 CREATE_DELETE_VOLUME",
            ),
            Self::Secret(error) => {
                write!(
                    out,
                    "failed to get the Secret reference from the StorageClass: {error}"
                )
            }
            Self::SecretNotText(SecretRef { namespace, name }) => write!(
                out,
                "secret {name} in namespace {namespace} has a value that is not UTF-8, which CSI \
                 cannot carry"
            ),
            Self::Attached(volume, node) => write!(
                out,
                "persistentvolume {volume} is still attached to node {node}"
            ),
            Self::AttachmentsMissed => out.write_str(
                "the watch of VolumeAttachments is interrupted: the volume may be attached",
            ),
            Self::Call(error) => write!(out, "{error}"),
            Self::FinalizerAction(error) => write!(out, "could not patch the finalizers: {error}"),
            Self::Remove(error) => {
                write!(
                    out,
                    "the volume is deleted, its PersistentVolume could not be: {error}"
                )
            }
            Self::Release(error) => write!(
                out,
                "the volume is deleted, the finalizer could not be removed: {error}"
            ),
        }
    }
}

impl std::error::Error for Failure {}
