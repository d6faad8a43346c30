//! The script of a claim whose volume is to be modified.
//!
//! The order of writes and calls is what makes a crash at any point harmless, and the crash
//! simulation runs exactly this function.
//!
//! The target is on the claim before the driver is asked, and becomes the current class only after
//! the driver has done it. While an outcome is unknown, the target is not changed.

use csi_proto::csi::ControllerModifyVolumeRequest;
use serde_json::Value;
use sidecar::controller;
use sidecar::controller::CallError;

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

/// Gives the volume of a claim another class.
pub(super) fn modify(ask: Ask<'_>, claim: &Claim) -> Flow<End> {
    ask.tell_left()?;
    let claim = claim.detail();
    let is_written = |what| ask.log().times(&Purpose::Claim(what)) > 0;
    if is_written(ClaimWrite::FinishModify) || is_written(ClaimWrite::CancelModify) {
        // A claim that took its wish back may have the condition no longer, and that is all.
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

/// Everything up to the driver's answer.
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
    ask.call(Call::Modify(call))
}

/// There is no class, or none for this driver: that is said, and the claim waits for one. Of
/// a class for another driver users and tests expect to find what they find after the driver
/// itself has refused one.
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

/// The Secret for the call: the one that the volume was made with, else the one for expansions.
fn secret<'a>(volume: &'a Volume, source: &'a CsiSource) -> Option<&'a SecretRef> {
    let named = volume.kind.modify_secret.as_ref();
    named.or(source.expand_secret.as_ref())
}

/// Name of the class that the view is to show.
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

/// What is told once it is on the claim.
pub(super) fn modified(claim: &str, target: &Text) -> Announcement {
    let message =
        format!("external resizer modified volume {claim} with vac {target} successfully");
    Announcement::normal("VolumeModifySuccessful", message)
}

pub(super) fn canceled() -> Announcement {
    Announcement::normal("VolumeModifyCanceled", "Cancelled modify.")
}

/// The patch of a volume whose claim has gone since the driver was asked.
pub(super) fn of_orphan(log: &Log, volume: &Volume) -> Option<Value> {
    patch::set_class(volume, target(log)?)
}

/// The patch that records why it failed.
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
