//! Faulty resizers. Each breaks one rule; a simulation that does not notice proves nothing.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a model that meets anything else has failed, and mutants differ in one point"
)]

use std::sync::Arc;

use csi_proto::csi::ControllerExpandVolumeResponse;
use sidecar::controller::CallError;
use sidecar::controller::request::{Body, Part, Patch};
use tonic::Code;

use super::run::Faults;
use crate::keys::RESIZING;
use crate::model::{
    AttributesClass, Claim, ClaimDetail, Modify, ModifyPhase, Quantity, ResizeStatus, Text, Volume,
};
use crate::plan::Kind;
use crate::plan::in_flight::{InFlightState, Start};
use crate::plan::outcome::RpcError;
use crate::plan::patch;
use crate::plan::request::{Call, Called, ClaimWrite, Purpose, Reply, Request, VolumeWrite, Write};
use crate::testing::{about, condition, driver, size};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    /// The real thing.
    None,
    /// Asks the driver to expand before that is on the claim.
    ExpandsFirst,
    /// Asks the driver to modify before that is on the claim.
    ModifiesFirst,
    /// Reports the new size before the driver is asked.
    ReportsSizeFirst,
    /// Reports the new class before the driver is asked.
    ReportsClassFirst,
    /// Takes an expired deadline of an expansion for success.
    BelievesTimeout,
    /// Takes an expired deadline for a final answer.
    TakesTimeoutForFinal,
    /// Takes nothing for being in doubt after a restart, when it expands.
    ForgetsSize,
    /// Takes nothing for being in doubt after a restart, when it modifies.
    ForgetsTarget,
    /// Repeats what was infeasible without saying that it may be under way again.
    LeavesInfeasible,
    /// Writes what the driver answers on the volume, whatever is there.
    LowersVolumes,
    /// Lets two attempts call for the same volume.
    CallsAtOnce,
    /// Does not retry.
    ForgetsRetries,
    /// Does not look again when a class appears.
    ForgetsClasses,
    /// Does not look again when a volume appears or is bound.
    ForgetsVolumes,
    /// Does not notice what others changed just before its own write.
    OverhearsNews,
    /// Decides by the watch alone.
    ForgetsOwnWrites,
    /// Neither reads nor writes again what it is in doubt about.
    NeverReads,
    /// Leaves annotations on volumes.
    LeavesAnnotations,
    /// Takes a class of another driver for one of its own.
    TakesForeignClasses,
    /// Does not care for volumes whose claims have gone.
    ForgetsOrphans,
    /// Takes everything for being in doubt that a claim says.
    DoubtsWhatItNeverAsked,
    /// Takes a driver that could not be reached for one that was asked.
    TakesUnsentForAsked,
    /// Asks without the Secret that it could not get.
    AsksWithoutSecret,
    /// Works before its caches are full.
    OpensEarly,
    /// Tries again at once.
    RetriesAtOnce,
    /// Does not remember what the driver called impossible.
    ForgetsImpossible,
    /// Does not tell that what failed to be written was written after all.
    LeavesLastWordToFailure,
    /// Leaves sizes on volumes that the node refused.
    KeepsWhatTheNodeRefused,
    /// Asks the driver although its lease is over.
    AsksWithoutLease,
    /// Asks the API server although its lease is over.
    WritesWithoutLease,
    /// Patches claims whatever version they have.
    PatchesAnyVersion,
    /// Patches volumes whatever version they have.
    PatchesAnyVolume,
    /// Repeats a call without having written the claim before.
    TakesNothingOver,
    /// Does not wake who waits for the end of a call.
    EndsCallsUnheard,
    /// Does not wake the claim's other task.
    EndsTurnsUnheard,
    /// Keeps a call's place after its end.
    HoldsCalls,
    /// Takes a claim of which nothing is kept for one that is not there.
    TakesUnknownForGone,
}

impl Mutant {
    /// Under which faults each must be caught, and by what.
    pub(super) const CAUGHT_BY: [(Self, Faults, &'static str); 37] = [
        (Self::ExpandsFirst, Faults::None, "not recorded"),
        (Self::ModifiesFirst, Faults::None, "not recorded"),
        (Self::ReportsSizeFirst, Faults::None, "above the confirmed"),
        (Self::ReportsClassFirst, Faults::None, "not the driver's"),
        (Self::BelievesTimeout, Faults::All, "above the confirmed"),
        (Self::TakesTimeoutForFinal, Faults::All, "in doubt"),
        (Self::ForgetsSize, Faults::Crashes, "is in doubt"),
        (Self::ForgetsTarget, Faults::Crashes, "given up"),
        (Self::LeavesInfeasible, Faults::All, "not recorded"),
        (Self::LowersVolumes, Faults::All, "volume lowered"),
        (Self::CallsAtOnce, Faults::Aliases, "two calls at once"),
        (Self::ForgetsRetries, Faults::All, "ns/c"),
        (Self::ForgetsClasses, Faults::None, "is not modified"),
        (Self::ForgetsVolumes, Faults::None, "ns/c"),
        (Self::OverhearsNews, Faults::None, "ns/c"),
        (Self::ForgetsOwnWrites, Faults::None, "calls for"),
        (Self::NeverReads, Faults::All, "not recorded"),
        (
            Self::LeavesAnnotations,
            Faults::None,
            "keeps the annotation",
        ),
        (
            Self::TakesForeignClasses,
            Faults::None,
            "a class of another driver",
        ),
        (
            Self::ForgetsOrphans,
            Faults::None,
            "does not say what it is",
        ),
        (
            Self::DoubtsWhatItNeverAsked,
            Faults::All,
            "wanted by nobody",
        ),
        (Self::TakesUnsentForAsked, Faults::All, "wanted by nobody"),
        (Self::AsksWithoutSecret, Faults::All, "without its Secret"),
        (Self::OpensEarly, Faults::None, "said to be missing"),
        (Self::RetriesAtOnce, Faults::Lasting, "requests at once"),
        (Self::ForgetsImpossible, Faults::Lasting, "too soon"),
        (
            Self::LeavesLastWordToFailure,
            Faults::All,
            "was told that it failed",
        ),
        (
            Self::KeepsWhatTheNodeRefused,
            Faults::NodeOnly,
            "does not grow",
        ),
        (Self::AsksWithoutLease, Faults::Crashes, "two calls at once"),
        (
            Self::WritesWithoutLease,
            Faults::Crashes,
            "was not announced",
        ),
        (Self::PatchesAnyVersion, Faults::Crashes, "in doubt"),
        (Self::PatchesAnyVolume, Faults::All, "volume lowered"),
        (Self::TakesNothingOver, Faults::All, "not recorded"),
        (Self::EndsCallsUnheard, Faults::Aliases, "ns/c"),
        (Self::EndsTurnsUnheard, Faults::None, "ns/c"),
        (Self::HoldsCalls, Faults::None, "ns/c"),
        (
            Self::TakesUnknownForGone,
            Faults::Crashes,
            "keeps the annotation",
        ),
    ];

    /// What a mutant begins an attempt with.
    pub(super) fn begins(self, kind: Kind, start: &mut Start) {
        match self {
            Self::ForgetsSize if kind == Kind::Expand => start.marks.settled = true,
            Self::ForgetsTarget if kind == Kind::Modify => start.marks.settled = true,
            Self::NeverReads => {
                start.doubts.clear();
                start.marks.taken_over = true;
            }
            Self::DoubtsWhatItNeverAsked => start.marks.settled = false,
            Self::ForgetsImpossible => start.slow = None,
            Self::TakesNothingOver => start.marks.taken_over = true,
            Self::LeavesLastWordToFailure => start.marks.left = None,
            _ => {}
        }
    }

    /// What a mutant takes the claim for.
    pub(super) fn sees(self, claim: Arc<Claim>) -> Arc<Claim> {
        let Some(detail) = claim.detail().filter(|_| self != Self::None) else {
            return claim;
        };
        let mut seen = detail.clone();
        match self {
            Self::ExpandsFirst if seen.resize.is_none() => {
                seen.allocated = seen.request;
                seen.resize = Some(ResizeStatus::ControllerInProgress);
                seen.conditions = [condition(RESIZING, "")].into();
            }
            Self::LeavesInfeasible
                if seen.resize == Some(ResizeStatus::ControllerInfeasible)
                    && seen.allocated == seen.request =>
            {
                seen.resize = Some(ResizeStatus::ControllerInProgress);
            }
            Self::ModifiesFirst if seen.modify.is_none() && !seen.class.is_empty() => {
                seen.modify = Some(Modify {
                    phase: ModifyPhase::InProgress,
                    target: seen.class.clone(),
                });
            }
            _ => return claim,
        }
        Arc::new(Claim::Open(seen.into()))
    }

    /// What a mutant takes the volume for.
    pub(super) fn sees_volume(self, volume: Arc<Volume>) -> Arc<Volume> {
        if self == Self::None {
            return volume;
        }
        let mut seen = Volume::clone(&volume);
        match self {
            Self::LowersVolumes => seen.capacity = None,
            Self::LeavesAnnotations => seen.pre_resize = None,
            _ => return volume,
        }
        Arc::new(seen)
    }

    /// What a mutant takes the class for.
    pub(super) fn sees_class(self, class: Arc<AttributesClass>) -> Arc<AttributesClass> {
        match self {
            Self::TakesForeignClasses => Arc::new(AttributesClass {
                driver: driver().name.into(),
                ..AttributesClass::clone(&class)
            }),
            _ => class,
        }
    }

    /// What a mutant makes of the decision; `None` is the end of the attempt.
    pub(super) fn decides(
        self,
        request: Request,
        claim: Option<&ClaimDetail>,
        held: Option<Quantity>,
    ) -> Option<Request> {
        match (self, request, claim) {
            (Self::PatchesAnyVersion, Request::Write(write), _)
                if matches!(write.purpose, Purpose::Claim(_)) =>
            {
                Some(Request::Write(unversioned(write)))
            }
            (Self::PatchesAnyVolume, Request::Write(write), _)
                if matches!(write.purpose, Purpose::Volume(_)) =>
            {
                Some(Request::Write(unversioned(write)))
            }
            (Self::ReportsSizeFirst, Request::Call(Call::Expand(call)), Some(claim)) => {
                let bytes = call.capacity_range.as_ref().unwrap().required_bytes;
                let patch = patch::finish_resize(claim, Quantity::from_bytes(bytes));
                Some(match patch {
                    Some(patch) => about(claim).patch(ClaimWrite::FinishResize, patch),
                    None => Request::Call(Call::Expand(call)),
                })
            }
            (Self::ReportsClassFirst, Request::Call(Call::Modify(call)), Some(claim)) => {
                let patch = patch::finish_modify(claim, &call.about);
                Some(match patch {
                    Some(patch) => about(claim).patch(ClaimWrite::FinishModify, patch),
                    None => Request::Call(Call::Modify(call)),
                })
            }
            (Self::ForgetsOrphans, Request::Write(write), None)
                if matches!(
                    write.purpose,
                    Purpose::Volume(VolumeWrite::Grow | VolumeWrite::SetClass)
                ) =>
            {
                None
            }
            (Self::KeepsWhatTheNodeRefused, Request::Write(mut write), _)
                if write.purpose == Purpose::Volume(VolumeWrite::Grow) =>
            {
                let capacity = write.body.patch().pointer("/spec/capacity/storage");
                let capacity = capacity.map(|text| size(text.as_str().unwrap()));
                if capacity.is_some_and(|capacity| Some(capacity) < held) {
                    let nothing = serde_json::json!({});
                    write.body = Body::Patch(Part::Main, Patch::Strategic(nothing));
                }
                Some(Request::Write(write))
            }
            (_, request, _) => Some(request),
        }
    }

    /// What a mutant makes of a reply.
    pub(super) fn hears(self, reply: Reply) -> Reply {
        match (self, reply) {
            (Self::AsksWithoutSecret, Reply::Secret(secret, Err(_))) => {
                Reply::Secret(secret, Ok([].into()))
            }
            (
                Self::BelievesTimeout,
                Reply::Call(Called::Expand(call, Err(CallError::Failed(error))), took),
            ) if error.code == Code::DeadlineExceeded => {
                let response = ControllerExpandVolumeResponse {
                    capacity_bytes: call.capacity_range.as_ref().unwrap().required_bytes,
                    node_expansion_required: false,
                };
                Reply::Call(Called::Expand(call, Ok(response)), took)
            }
            (_, Reply::Call(Called::Expand(call, Err(error)), took)) => {
                Reply::Call(Called::Expand(call, Err(self.hears_error(error))), took)
            }
            (_, Reply::Call(Called::Modify(call, Err(error)), took)) => {
                Reply::Call(Called::Modify(call, Err(self.hears_error(error))), took)
            }
            (_, reply) => reply,
        }
    }

    fn hears_error(self, error: CallError) -> CallError {
        match (self, error) {
            (Self::TakesUnsentForAsked, CallError::Unreachable(error)) => {
                CallError::Failed(RpcError {
                    code: Code::DeadlineExceeded,
                    ..error
                })
            }
            (Self::TakesTimeoutForFinal, CallError::Failed(error))
                if error.code == Code::DeadlineExceeded =>
            {
                CallError::Failed(RpcError {
                    code: Code::Internal,
                    ..error
                })
            }
            (_, error) => error,
        }
    }

    /// What a mutant does to the books before a call.
    pub(super) fn calls(self, request: &Request, in_flight: &mut InFlightState) {
        if let (Self::CallsAtOnce, Request::Call(call)) = (self, request) {
            drop(in_flight.calls.end(&call.handle().into()));
        }
    }

    /// The volume that a mutant goes on to hold after a call.
    pub(super) fn holds(self, reply: &Reply) -> Option<Text> {
        match (self, reply) {
            (Self::HoldsCalls, Reply::Call(called, _)) => Some(called.handle().into()),
            _ => None,
        }
    }
}

fn unversioned(mut write: Write) -> Write {
    if let Body::Patch(_, Patch::Strategic(patch)) = &mut write.body {
        let metadata = patch["metadata"].as_object_mut();
        metadata.unwrap().remove("resourceVersion");
    }
    write
}
