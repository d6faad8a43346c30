//! The script of a modification.
//!
//! The order of writes and calls makes a crash at any point harmless; the crash simulation runs
//! this very function.
//!
//! The claim has the target class before the driver is called, and its current class changes only
//! after the driver has succeeded. While an outcome is unknown, the target stays.

use csi_proto::csi::ControllerModifyVolumeRequest;
use serde_json::Value;
use sidecar::controller::{self, CallError, script};

use super::ask::Ask;
use super::attempt::{End, Flow, Log};
use super::fairness::Kind;
use super::marks::Marks;
use super::outcome::{Cause, Failure, Finality, RequeueTrigger, RpcError, classify};
use super::owner::owned;
use super::patch;
use super::request::{
    self, Announcement, Call, ClaimWrite, Purpose, Secrets, VolumeWrite, wording,
};
use super::view::View;
use crate::keys::MODIFYING_VOLUME;
use crate::model::{Claim, ClaimDetail, CsiSource, Modify, ModifyPhase, SecretRef, Text, Volume};

mod class;
mod goal;

use class::{Unusable, usable};
pub(super) use goal::targets;
use goal::{Goal, goal};

type Modified = controller::Call<ControllerModifyVolumeRequest, Text>;

/// Modifies the volume of a claim to another class.
pub(super) fn modify(ask: Ask<'_>, claim: &Claim) -> Flow<End> {
    ask.tell_left()?;
    let claim = claim.detail();
    let is_written = |what| ask.log().times(&Purpose::Claim(what)) > 0;
    if is_written(ClaimWrite::FinishModify) || is_written(ClaimWrite::CancelModify) {
        // A claim whose modification was cancelled may only have lost the condition; then nothing
        // is due.
        let more =
            |claim: &ClaimDetail| claim.wants_change() && !claim.has_condition(MODIFYING_VOLUME);
        return Ok(if claim.is_some_and(more) {
            End::Again
        } else {
            End::Done
        });
    }
    let target = match ask.log().called::<Modified>() {
        Some((call, Ok(_))) => &call.about,
        Some((call, Err(error))) => return Err(failed(&call.about, error).into()),
        None => return begin(ask, claim),
    };
    let claim = claim.ok_or(End::Done)?;
    let (volume, _) = owned(ask.view, claim)?;
    ask.volume_once(
        &claim.volume,
        VolumeWrite::SetClass,
        patch::set_class(volume, target),
    )?;
    ask.patch(
        ClaimWrite::FinishModify,
        patch::finish_modify(claim, target),
    )?;
    Ok(End::Done)
}

/// Everything up to the driver's response.
fn begin(ask: Ask<'_>, claim: Option<&ClaimDetail>) -> Flow<End> {
    let view = ask.view;
    let claim = claim.filter(|claim| claim.wants_change());
    let claim = claim.ok_or(End::Done)?;
    if !view.driver.abilities.modify || !view.settings.gates.attributes_class {
        return Ok(End::Done);
    }
    let (volume, source) = owned(view, claim)?;
    let message =
        |class, secrets: &Secrets| request::modify(claim, volume, class, view.settings, secrets);
    let take_over = || patch::take_over_modify(claim, view.now);
    let (target, class) = match goal(claim, ask.marks().settled) {
        Goal::Nothing => return Ok(End::Done),
        Goal::Cancel => {
            ask.patch(ClaimWrite::CancelModify, patch::cancel_modify(claim))?;
            return Ok(End::Done);
        }
        Goal::Continue(target) => {
            ask.take_over(take_over)?;
            let class = view.class.ok_or_else(|| Failure::NoClass(target.clone()))?;
            (target, class)
        }
        Goal::Start(target) => {
            let class = match usable(view, target) {
                Ok(class) => class,
                Err(unusable) => return wait_for_class(ask, claim, target, unusable),
            };
            let slow = || ask.is_slow(&wording(target, &message(class, &Secrets::new())));
            if claim
                .modify
                .as_ref()
                .is_some_and(|modify| modify.target == *target)
                && slow()
            {
                return Ok(End::Later);
            }
            let mark = patch::mark_modifying(claim, target, view.now);
            ask.mark(claim, ClaimWrite::MarkModifying, mark)?;
            ask.take_over(take_over)?;
            let name = &claim.name;
            let message = format!("external resizer is modifying volume {name} with vac {target}");
            ask.tell(Announcement::normal("VolumeModify", message))?;
            (target, class)
        }
    };
    let fails = |cause| Failure::Modify(None, cause);
    if volume.handle.is_empty() {
        return Err(fails(Cause::EmptyHandle).into());
    }
    let secrets = ask.secret(secret(volume, source))?.map_err(fails)?;
    let call = Modified::about(message(class, secrets), target.clone());
    script::call(Call::Modify(call))
}

/// The class does not exist, or belongs to another driver: reports it, and the claim waits for one.
/// For a class of another driver, users and tests expect the same state as after a driver's own
/// refusal.
fn wait_for_class(
    ask: Ask<'_>,
    claim: &ClaimDetail,
    target: &Text,
    Unusable { message, code }: Unusable,
) -> Flow<End> {
    let (phase, patch) = match code {
        None => (ModifyPhase::Pending, patch::pending_class(claim)),
        Some(code) => {
            let message = message.clone();
            let error = RpcError { code, message };
            let refused = (Finality::Infeasible, &error);
            let patch = patch::modify_error(claim, target, refused, ask.view.now);
            (ModifyPhase::Infeasible, patch)
        }
    };
    let marked =
        |modify: &Modify| modify.phase == phase && (code.is_none() || modify.target == *target);
    if !claim.modify.as_ref().is_some_and(marked) && !ask.is_marked(ClaimWrite::MarkPendingClass) {
        ask.patch(ClaimWrite::MarkPendingClass, patch)?;
    }
    ask.tell(Announcement::warning("VolumeModifyFailed", message))?;
    Ok(End::Waits(RequeueTrigger::Class(target.clone())))
}

fn failed(target: &Text, error: &CallError) -> Failure {
    let in_doubt = match error {
        CallError::Failed(error) => classify(Kind::Modify, error.code) == Finality::InDoubt,
        CallError::Unreachable(_) => false,
    };
    Failure::Modify(in_doubt.then(|| target.clone()), error.into())
}

/// The Secret for the call: the one from the provisioning, else the one for expansions.
fn secret<'a>(volume: &'a Volume, source: &'a CsiSource) -> Option<&'a SecretRef> {
    let named = volume.kind.modify_secret.as_ref();
    named.or(source.expand_secret.as_ref())
}

/// Name of the class that the view has to show.
pub(super) fn class(claim: &ClaimDetail, marks: &Marks) -> Option<Text> {
    match goal(claim, marks.settled) {
        Goal::Continue(target) | Goal::Start(target) => Some(target.clone()),
        Goal::Nothing | Goal::Cancel => None,
    }
}

/// The class that the driver has applied.
pub(super) fn target(log: &Log) -> Option<&Text> {
    let (call, result) = log.called::<Modified>()?;
    result.is_ok().then_some(&call.about)
}

/// The event to send once the claim has the new class.
pub(super) fn modified(claim: &str, target: &Text) -> Announcement {
    let message =
        format!("external resizer modified volume {claim} with vac {target} successfully");
    Announcement::normal("VolumeModifySuccessful", message)
}

pub(super) fn canceled() -> Announcement {
    Announcement::normal("VolumeModifyCanceled", "Cancelled modify.")
}

/// The patch of a volume whose claim was deleted after the call.
pub(super) fn of_orphan(log: &Log, volume: &Volume) -> Option<Value> {
    patch::set_class(volume, target(log)?)
}

/// The patch that records the failure.
pub(super) fn record_error(
    view: &View<'_>,
    (claim, cause): (&ClaimDetail, &Cause),
) -> Option<Value> {
    let Cause::Call(error) = cause else {
        return None;
    };
    let target = &claim.modify.as_ref()?.target;
    let finality = classify(Kind::Modify, error.code);
    patch::modify_error(claim, target, (finality, error), view.now)
}

#[cfg(test)]
mod tests;
