//! What an attempt asks for, and what it is told.
//!
//! The executor and the crash simulation speak this language and need nothing else.

use csi_proto::csi::{
    ControllerExpandVolumeRequest, ControllerExpandVolumeResponse, ControllerModifyVolumeRequest,
};
use serde_json::Value;
use sidecar::csi::Migrated;

use super::outcome::{ApiError, Failure, RequeueTrigger, RpcError};
use super::request::Secrets;
use crate::model::{SecretRef, Text};

/// The one next thing to do, complete in every detail.
#[derive(Debug)]
pub enum Step {
    /// GET of the claim: what the cache knows may be behind, or nothing.
    ReadClaim,
    /// GET of the PersistentVolume of this name: what the cache knows may be behind, or nothing.
    ReadVolume(Text),
    /// Strategic merge patch of the claim's `status` subresource.
    PatchClaim(ClaimWrite, Value),
    /// Strategic merge patch of the PersistentVolume of this name.
    PatchVolume(Text, VolumeWrite, Value),
    /// Event on the claim.
    Announce(Announcement),
    /// GET of a Secret.
    LoadSecret(SecretRef),
    /// `ControllerExpandVolume`; never two calls at once for one `volume_id`.
    Expand(Box<ControllerExpandVolumeRequest>, Migrated),
    /// `ControllerModifyVolume` to the class of this name; never two calls at once for one `volume_id`.
    Modify(Text, Box<ControllerModifyVolumeRequest>),
    /// The attempt is over.
    End(End),
}

/// What a patch of a claim is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimWrite {
    /// Before the driver is asked to expand.
    MarkResizing,
    /// Before the driver is asked again for what the claim says already. The claim gets another
    /// version by it, so that no older patch, of this process or of one before, still fits.
    TakeOver,
    /// The driver refused to expand.
    RecordResizeError,
    /// The driver expanded, the node is next.
    MarkPendingOnNode,
    /// The volume is as large as it is going to be.
    FinishResize,
    /// Before the driver is asked to modify.
    MarkModifying,
    /// There is no class to modify the volume by.
    MarkPendingClass,
    /// The driver refused to modify.
    RecordModifyError,
    /// The driver modified.
    FinishModify,
    /// The wish for a modification was taken back.
    CancelModify,
}

impl ClaimWrite {
    /// Whether it is the last patch of an expansion.
    #[must_use]
    pub fn ends_expansion(self) -> bool {
        matches!(self, Self::MarkPendingOnNode | Self::FinishResize)
    }

    /// Whether it records a failure.
    #[must_use]
    pub fn is_record(self) -> bool {
        matches!(self, Self::RecordResizeError | Self::RecordModifyError)
    }
}

/// What a patch of a PersistentVolume is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeWrite {
    /// The annotation [`PRE_RESIZE_CAPACITY`](crate::keys::PRE_RESIZE_CAPACITY) has done its duty.
    RemoveAnnotation,
    /// The driver expanded.
    Grow,
    /// The driver modified.
    SetClass,
}

/// An event on the claim, of component `external-resizer <driver>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// `type`: `Warning` instead of `Normal`.
    pub warning: bool,
    /// `reason`.
    pub reason: &'static str,
    /// `message`.
    pub message: String,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing is left to do, or not now.
    Done,
    /// There is more to do: at once again.
    Again,
    /// The driver called it impossible a while ago: it is tried again when that was long enough ago.
    Later,
    /// It goes on when this appears.
    Waits(RequeueTrigger),
    /// Somebody else's call for the same volume is in flight, whose end brings this task back. Made
    /// by the executor, when [`InFlightState::calls`](super::in_flight::InFlightState::calls) says so.
    Parked,
    /// It failed, and is tried again.
    Failed(Failure),
}

/// What came of a step.
pub enum Answer {
    /// Done: the patch was applied, the event is on its way, the object was read. The view shows the
    /// result from now on.
    Done,
    /// The API server refused, or did not answer.
    Refused(ApiError),
    /// The Secret.
    Secret(Secrets),
    /// The Secret has a value that is not UTF-8.
    SecretNotText,
    /// The driver expanded.
    Expanded(ControllerExpandVolumeResponse),
    /// The driver modified.
    Modified,
    /// The call failed.
    Failed(RpcError),
    /// The driver cannot be reached, and nothing was sent to it.
    Unreachable(RpcError),
}
