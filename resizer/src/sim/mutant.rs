//! Faulty resizers. Each breaks one rule; a simulation that misses one proves nothing.

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
    /// The shipped resizer.
    None,
    /// Calls the driver to expand before the claim has the target.
    ExpandsFirst,
    /// Calls the driver to modify before the claim has the target.
    ModifiesFirst,
    /// Reports the new size before the call.
    ReportsSizeFirst,
    /// Reports the new class before the call.
    ReportsClassFirst,
    /// Takes an expired deadline of an expansion for a success.
    BelievesTimeout,
    /// Takes an expired deadline for a final error.
    TakesTimeoutForFinal,
    /// Assumes after a restart that no expansion has an unknown outcome.
    ForgetsSize,
    /// Assumes after a restart that no modification has an unknown outcome.
    ForgetsTarget,
    /// Repeats an infeasible request without marking it as in progress.
    LeavesInfeasible,
    /// Writes the driver's size to the volume even if that lowers the capacity.
    LowersVolumes,
    /// Allows two calls for the same volume at once.
    CallsAtOnce,
    /// Does not retry.
    ForgetsRetries,
    /// Does not requeue when a class appears.
    ForgetsClasses,
    /// Does not requeue when a volume appears or is bound.
    ForgetsVolumes,
    /// Misses changes that others made just before its own write.
    OverhearsNews,
    /// Ignores responses to its own writes, and sees only the watch.
    ForgetsOwnWrites,
    /// Neither reads nor rewrites objects whose last write has an unknown outcome.
    NeverReads,
    /// Leaves annotations on volumes.
    LeavesAnnotations,
    /// Treats a class of another driver as its own.
    TakesForeignClasses,
    /// Ignores volumes whose claims are gone.
    ForgetsOrphans,
    /// Treats everything that a claim records as having an unknown outcome.
    DoubtsWhatItNeverAsked,
    /// Takes an unreachable driver for one that was called.
    TakesUnsentForAsked,
    /// Calls without the Secret that it could not read.
    AsksWithoutSecret,
    /// Works before its caches are complete.
    OpensEarly,
    /// Retries at once.
    RetriesAtOnce,
    /// Forgets what the driver called infeasible.
    ForgetsImpossible,
    /// Does not send the event when a patch that seemed to fail was applied after all.
    LeavesLastWordToFailure,
    /// Leaves capacities on volumes that the node has refused.
    KeepsWhatTheNodeRefused,
    /// Calls the driver without a lease.
    AsksWithoutLease,
    /// Sends requests to the API server without a lease.
    WritesWithoutLease,
    /// Patches claims without a resource version.
    PatchesAnyVersion,
    /// Patches volumes without a resource version.
    PatchesAnyVolume,
    /// Repeats a call without writing the claim first.
    TakesNothingOver,
    /// Does not requeue the tasks that wait for the end of a call.
    EndsCallsUnheard,
    /// Does not requeue the claim's other task.
    EndsTurnsUnheard,
    /// Keeps the guard of a call after its end.
    HoldsCalls,
    /// Takes a claim that the cache lacks for a deleted one.
    TakesUnknownForGone,
}

impl Mutant {
    /// The faults under which each mutant must be caught, and the violation.
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

    /// Changes the input of a mutant's attempt.
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

    /// Changes the claim that a mutant sees.
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

    /// Changes the volume that a mutant sees.
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

    /// Changes the class that a mutant sees.
    pub(super) fn sees_class(self, class: Arc<AttributesClass>) -> Arc<AttributesClass> {
        match self {
            Self::TakesForeignClasses => Arc::new(AttributesClass {
                driver: driver().name.into(),
                ..AttributesClass::clone(&class)
            }),
            _ => class,
        }
    }

    /// Changes a mutant's request; `None` ends the attempt.
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
                    Some(patch) => {
                        Request::Write(about(claim).patch(ClaimWrite::FinishResize, patch))
                    }
                    None => Request::Call(Call::Expand(call)),
                })
            }
            (Self::ReportsClassFirst, Request::Call(Call::Modify(call)), Some(claim)) => {
                let patch = patch::finish_modify(claim, &call.about);
                Some(match patch {
                    Some(patch) => {
                        Request::Write(about(claim).patch(ClaimWrite::FinishModify, patch))
                    }
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

    /// Changes the reply that a mutant gets.
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

    /// Changes a mutant's state before a call.
    pub(super) fn calls(self, request: &Request, in_flight: &mut InFlightState) {
        if let (Self::CallsAtOnce, Request::Call(call)) = (self, request) {
            drop(in_flight.calls.end(&call.handle().into()));
        }
    }

    /// Handle of the volume whose guard a mutant keeps after a call.
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
