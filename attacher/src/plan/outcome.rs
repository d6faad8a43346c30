//! Failures: message, gRPC code, where each is recorded, and which event would resolve it.
//!
//! The messages appear in `attachError` and `detachError`, where people, scripts and the
//! scheduler's volume-limit logic read them. This program never parses them.
//!
//! Every failure is retried with back-off, for ever: an error code that CSI calls final only says
//! that no operation is still running, not that the next one fails too.

use sidecar::controller::CallError;
use sidecar::controller::request::SecretError;
use tonic::Code;

pub use sidecar::refusal::{ApiError, Refusal};
pub use sidecar::rpc_code::RpcError;

use super::Driver;
use super::capability::BadAccessModes;
use super::request::Purpose;
use super::status::{self, ErrorField};
use crate::model::{Attachment, SecretRef, Text};

/// The direction of a VolumeAttachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// The volume should be published to the node.
    Attach,
    /// The object is being deleted: the volume should be unpublished.
    Detach,
}

impl Direction {
    /// The direction that `attachment` requests.
    #[must_use]
    pub fn of(attachment: &Attachment) -> Self {
        if attachment.deleting {
            Self::Detach
        } else {
            Self::Attach
        }
    }

    /// Lower-case name, for logs and metric labels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Attach => "attach",
            Self::Detach => "detach",
        }
    }

    /// The status field that records failures.
    #[must_use]
    pub fn error_field(self) -> ErrorField {
        match self {
            Self::Attach => ErrorField::Attach,
            Self::Detach => ErrorField::Detach,
        }
    }
}

/// Why an attempt ended without reaching its goal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Both sources are set.
    #[error("both InlineCSIVolumeSource and PersistentVolumeName specified in VA source")]
    TwoSources,
    /// No source is set.
    #[error("neither InlineCSIVolumeSource nor PersistentVolumeName specified in VA source")]
    NoSource,
    /// The PersistentVolume does not exist.
    #[error("persistentvolume {0:?} not found")]
    NoVolume(Text),
    /// The PersistentVolume is being deleted.
    #[error("PersistentVolume {0:?} is marked for deletion")]
    VolumeDeleting(Text),
    /// The PersistentVolume's finalizer could not be added.
    #[error("could not add PersistentVolume finalizer: {0}")]
    Protect(ApiError),
    /// The API server accepted the patch, but the finalizer is missing.
    #[error(
        "could not add PersistentVolume finalizer: the API server accepted the patch but the finalizer is not there; \
         an admission webhook may remove it"
    )]
    ProtectIgnored,
    /// The in-tree source cannot be translated for its CSI driver.
    #[error("failed to translate in tree pv to CSI: {0}")]
    Untranslatable(Text),
    /// The volume handle lacks parts that the node id does not supply.
    #[error("failed to repair volume handle: {0}")]
    Unrepaired(String),
    /// The source is neither CSI nor an in-tree source that a CSI driver replaced.
    #[error("pv spec contained non-csi source that was not migrated")]
    NotCsi,
    /// The inline specification has no CSI source.
    #[error("inline volume spec contains nil CSI source")]
    InlineNotCsi,
    /// Access modes that CSI cannot express.
    #[error("{0}")]
    AccessModes(BadAccessModes),
    /// The Secret could not be read.
    #[error("failed to load secret \"{}/{}\": {}", .0.namespace, .0.name, .1)]
    Secret(SecretRef, ApiError),
    /// A value of the Secret is not UTF-8, so that no request can carry it.
    #[error(
        "rpc error: code = Internal desc = grpc: error while marshaling: string field contains invalid UTF-8"
    )]
    SecretNotText,
    /// No CSINode object for the node.
    #[error("csinode.storage.k8s.io {0:?} not found")]
    NoCsiNode(Text),
    /// The driver is not registered on the node.
    #[error("CSINode {node} does not contain driver {driver}")]
    NotRegistered {
        /// The node.
        node: Text,
        /// The driver.
        driver: String,
    },
    /// Could not save finalizer and node id.
    #[error("could not save VolumeAttachment: {0}")]
    Prepare(ApiError),
    /// The API server accepted the patch, but finalizer or node id are missing.
    #[error(
        "could not save VolumeAttachment: the API server accepted the patch but finalizer or node id are not there; \
         an admission webhook may remove them"
    )]
    PrepareIgnored,
    /// The driver returned an error or did not answer in time.
    #[error("{0}")]
    Call(RpcError),
    /// The driver is unreachable; no call was made.
    #[error("{0}")]
    Unreachable(RpcError),
    /// The volume is published, but the status could not be written.
    #[error("failed to mark as attached: {0}")]
    MarkAttached(ApiError),
    /// The volume is unpublished, but that could not be written.
    #[error("could not mark as detached: {0}")]
    MarkDetached(ApiError),
    /// The API server accepted the patch, but the finalizer is still there.
    #[error(
        "could not mark as detached: the API server accepted the patch but the finalizer is still there"
    )]
    ReleaseIgnored,
    /// The status could not be written, for a driver without publish calls.
    #[error("failed to mark as attached: {0}")]
    MarkTrivial(ApiError),
    /// The outcome of the last write is unknown, and the object could not be read.
    #[error("could not read VolumeAttachment: {0}")]
    Reread(ApiError),
    /// The cache lacks the volume, and it could not be read.
    #[error("could not read PersistentVolume {0:?}: {1}")]
    ReadVolume(Text, ApiError),
    /// The volume's finalizer could not be removed.
    #[error("{0}")]
    ReleaseVolume(ApiError),
}

/// The change that lets a failed attempt succeed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RequeueTrigger {
    /// The driver's entry in the CSINode of this name.
    CsiNode(Text),
    /// The PersistentVolume of this name.
    Volume(Text),
    /// The driver itself.
    Driver,
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Unreachable(error) => Self::Unreachable(error),
            CallError::Failed(error) => Self::Call(error),
        }
    }
}

impl Failure {
    /// The failure that a failed write causes; `None` if the attempt's result does not depend on
    /// it.
    #[must_use]
    pub fn of_write(purpose: Purpose, error: ApiError) -> Option<Self> {
        Some(match purpose {
            Purpose::Protect => Self::Protect(error),
            Purpose::Prepare => Self::Prepare(error),
            Purpose::MarkAttached => Self::MarkAttached(error),
            Purpose::Release | Purpose::MarkDetached => Self::MarkDetached(error),
            Purpose::MarkTrivial => Self::MarkTrivial(error),
            Purpose::ReleaseVolume => Self::ReleaseVolume(error),
            Purpose::Record => return None,
        })
    }

    /// The failure to obtain the values of this Secret.
    #[must_use]
    pub fn secret(secret: &SecretRef, error: &SecretError) -> Self {
        match error {
            SecretError::Unread(error) => Self::Secret(secret.clone(), error.clone()),
            SecretError::NotText => Self::SecretNotText,
        }
    }

    /// The gRPC code, if a call failed.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        if let Self::Call(error) | Self::Unreachable(error) = self {
            return Some(error.code);
        }
        // The code gRPC returns for a string that is not UTF-8.
        matches!(self, Self::SecretNotText).then_some(Code::Internal)
    }

    /// The change that would resolve the failure, so that the attachment need not wait for its
    /// back-off.
    #[must_use]
    pub fn trigger(&self) -> Option<RequeueTrigger> {
        if let Self::NoVolume(name) | Self::ReadVolume(name, _) = self {
            return Some(RequeueTrigger::Volume(name.clone()));
        }
        if let Self::NoCsiNode(node) | Self::NotRegistered { node, .. } = self {
            return Some(RequeueTrigger::CsiNode(node.clone()));
        }
        // A call that the driver's exit interrupts fails with `Unavailable`.
        let without_driver = matches!(self, Self::Unreachable(_))
            || matches!(self, Self::Call(error) if error.code == Code::Unavailable);
        without_driver.then_some(RequeueTrigger::Driver)
    }

    /// Whether the next attempt must first read the attachment from the API server.
    #[must_use]
    pub fn needs_reread(&self) -> bool {
        if let Self::Prepare(error) | Self::MarkAttached(error) | Self::MarkDetached(error) = self {
            return error.is_unknown();
        }
        matches!(self, Self::Reread(_))
    }

    /// The attachment or volume could not be read, so the attempt did nothing.
    #[must_use]
    pub fn is_unread(&self) -> bool {
        matches!(self, Self::Reread(_) | Self::ReadVolume(..))
    }

    /// Whether the failure is recorded on the object; otherwise it is only logged.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        let unrecorded = matches!(
            self,
            Self::MarkAttached(_) | Self::MarkTrivial(_) | Self::ReleaseVolume(_)
        );
        !unrecorded && !self.is_unread()
    }

    /// Patch of the status that records this failure at `time`; `None` if it is only logged.
    #[must_use]
    pub fn status_patch(
        &self,
        attachment: &Attachment,
        direction: Direction,
        driver: &Driver,
        time: &str,
    ) -> Option<serde_json::Value> {
        let code = match direction {
            Direction::Attach if driver.error_codes => self.code().map(i32::from),
            Direction::Attach | Direction::Detach => None,
        };
        let field = direction.error_field();
        self.is_recorded()
            .then(|| status::failed(attachment, field, &self.to_string(), code, time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_call_reads_as_in_go() {
        let error = RpcError {
            code: Code::Cancelled,
            message: "boom".into(),
        };
        assert_eq!(error.to_string(), "rpc error: code = Canceled desc = boom");
    }

    #[test]
    fn what_triggers_the_attempt_after_a_failure_is_known() {
        let node = Text::from("node1");
        let lost = RpcError {
            code: Code::Unavailable,
            message: "lost".into(),
        };
        let rows = [
            (
                Failure::NoVolume("pv1".into()),
                Some(RequeueTrigger::Volume("pv1".into())),
            ),
            (
                Failure::NoCsiNode(node.clone()),
                Some(RequeueTrigger::CsiNode(node.clone())),
            ),
            (
                Failure::NotRegistered {
                    node: node.clone(),
                    driver: "d".into(),
                },
                Some(RequeueTrigger::CsiNode(node)),
            ),
            (
                Failure::Unreachable(lost.clone()),
                Some(RequeueTrigger::Driver),
            ),
            (Failure::Call(lost), Some(RequeueTrigger::Driver)),
            (
                Failure::Call(RpcError {
                    code: Code::Internal,
                    message: "full".into(),
                }),
                None,
            ),
            (Failure::NotCsi, None),
        ];
        for (failure, trigger) in rows {
            assert_eq!(failure.trigger(), trigger, "{failure}");
        }
    }
}
