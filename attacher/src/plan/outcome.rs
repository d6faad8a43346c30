//! What a failed step means: its text, its code, where it is recorded and what would cure it.
//!
//! The texts end up in `attachError` and `detachError`, where people, scripts and the scheduler's
//! volume-limit logic read them. No text is ever parsed again in here.
//!
//! Every failure is retried with back-off, for ever: a code that CSI calls final says only that no
//! operation is running any more, not that the next one fails as well.

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

/// Which way a VolumeAttachment is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// The volume shall be on the node.
    Attach,
    /// The object is being deleted: the volume shall leave the node.
    Detach,
}

impl Direction {
    /// The way `attachment` is to go.
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
    /// The PersistentVolume is not there.
    #[error("persistentvolume {0:?} not found")]
    NoVolume(Text),
    /// The PersistentVolume is being deleted.
    #[error("PersistentVolume {0:?} is marked for deletion")]
    VolumeDeleting(Text),
    /// The PersistentVolume's finalizer could not be added.
    #[error("could not add PersistentVolume finalizer: {0}")]
    Protect(ApiError),
    /// The server took the patch and the finalizer is still not there.
    #[error(
        "could not add PersistentVolume finalizer: the API server accepted the patch but the finalizer is not there; \
         an admission webhook may remove it"
    )]
    ProtectIgnored,
    /// The source is one of an in-tree plugin and cannot be said in the words of its CSI driver.
    #[error("failed to translate in tree pv to CSI: {0}")]
    Untranslatable(Text),
    /// The volume's handle lacks what the node's id does not say.
    #[error("failed to repair volume handle: {0}")]
    Unrepaired(String),
    /// The source is neither CSI nor one that a CSI driver replaced.
    #[error("pv spec contained non-csi source that was not migrated")]
    NotCsi,
    /// The inline specification has no CSI source.
    #[error("inline volume spec contains nil CSI source")]
    InlineNotCsi,
    /// Access modes without a counterpart.
    #[error("{0}")]
    AccessModes(BadAccessModes),
    /// The Secret could not be read.
    #[error("failed to load secret \"{}/{}\": {}", .0.namespace, .0.name, .1)]
    Secret(SecretRef, ApiError),
    /// A value of the Secret is not text, so that no request can carry it.
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
    /// Finalizer and node id could not be saved.
    #[error("could not save VolumeAttachment: {0}")]
    Prepare(ApiError),
    /// The server took the patch and the object still lacks finalizer or node id.
    #[error(
        "could not save VolumeAttachment: the API server accepted the patch but finalizer or node id are not there; \
         an admission webhook may remove them"
    )]
    PrepareIgnored,
    /// The driver refused, failed or did not answer in time.
    #[error("{0}")]
    Call(RpcError),
    /// The driver is away, and was not asked.
    #[error("{0}")]
    Unreachable(RpcError),
    /// The volume is attached, but that could not be recorded.
    #[error("failed to mark as attached: {0}")]
    MarkAttached(ApiError),
    /// The volume is detached, but that could not be recorded.
    #[error("could not mark as detached: {0}")]
    MarkDetached(ApiError),
    /// The server took the patch and the finalizer is still there.
    #[error(
        "could not mark as detached: the API server accepted the patch but the finalizer is still there"
    )]
    ReleaseIgnored,
    /// Driver without publish calls: the status could not be written.
    #[error("failed to mark as attached: {0}")]
    MarkTrivial(ApiError),
    /// In doubt about the last write, and the object could not be read.
    #[error("could not read VolumeAttachment: {0}")]
    Reread(ApiError),
    /// The volume is none that is kept unasked, and could not be read.
    #[error("could not read PersistentVolume {0:?}: {1}")]
    ReadVolume(Text, ApiError),
    /// The volume's finalizer could not be removed.
    #[error("{0}")]
    ReleaseVolume(ApiError),
}

/// What would, when it appears, let a failed attempt succeed.
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
    /// What it means that a write failed; `None` if that changes nothing for the attempt.
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

    /// Why there are no values of this Secret.
    #[must_use]
    pub fn secret(secret: &SecretRef, error: &SecretError) -> Self {
        match error {
            SecretError::Unread(error) => Self::Secret(secret.clone(), error.clone()),
            SecretError::NotText => Self::SecretNotText,
        }
    }

    /// gRPC code of the failure, if it is one of a call.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        if let Self::Call(error) | Self::Unreachable(error) = self {
            return Some(error.code);
        }
        // As gRPC answers when asked to send such a string.
        matches!(self, Self::SecretNotText).then_some(Code::Internal)
    }

    /// What would cure it, so that the attachment need not wait for its next retry.
    #[must_use]
    pub fn trigger(&self) -> Option<RequeueTrigger> {
        if let Self::NoVolume(name) | Self::ReadVolume(name, _) = self {
            return Some(RequeueTrigger::Volume(name.clone()));
        }
        if let Self::NoCsiNode(node) | Self::NotRegistered { node, .. } = self {
            return Some(RequeueTrigger::CsiNode(node.clone()));
        }
        // A call that ran when the driver went ends as one that could not be made.
        let without_driver = matches!(self, Self::Unreachable(_))
            || matches!(self, Self::Call(error) if error.code == Code::Unavailable);
        without_driver.then_some(RequeueTrigger::Driver)
    }

    /// Whether the API server's view of the attachment must be read before the next attempt.
    #[must_use]
    pub fn needs_reread(&self) -> bool {
        if let Self::Prepare(error) | Self::MarkAttached(error) | Self::MarkDetached(error) = self {
            return error.is_unknown();
        }
        matches!(self, Self::Reread(_))
    }

    /// In doubt about the last write or about the volume, and the object could not be read: nothing was tried.
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
