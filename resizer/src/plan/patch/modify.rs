//! Patches of a claim during a modification.

use serde_json::{Map, Value, json};

use super::claim::Draft;
use crate::keys::{MODIFY_VOLUME_ERROR, MODIFYING_VOLUME};
use crate::model::{ClaimDetail, Condition, ModifyPhase, Text};
use crate::plan::outcome::{Finality, RpcError};

/// Sent before the first call for `target`, and before a new call after a refusal.
#[must_use]
pub fn mark_modifying(claim: &ClaimDetail, target: &Text, now: &str) -> Option<Value> {
    let message = in_progress(target);
    let mut draft = Draft::new(claim);
    set_status(&mut draft, claim, ModifyPhase::InProgress, target);
    set_condition(&mut draft, claim, MODIFYING_VOLUME, ("", &message), now);
    draft.finish()
}

/// Sent before a call that the claim already records. It forces a new resource version, so that no
/// older patch fits any more.
#[must_use]
pub fn take_over_modify(claim: &ClaimDetail, now: &str) -> Option<Value> {
    let target = claim.modify.as_ref().map(|modify| &modify.target);
    let mut draft = Draft::new(claim);
    let otherwise = Condition {
        kind: MODIFYING_VOLUME.into(),
        status: "True".into(),
        message: in_progress(target.unwrap_or(&claim.class)).into(),
        changed: Some(now.into()),
        ..Condition::default()
    };
    draft.renew(otherwise, now);
    draft.finish()
}

fn in_progress(target: &Text) -> String {
    format!("Modifying volume to {target:?} is in progress.")
}

/// The class does not exist; the target stays.
#[must_use]
pub fn pending_class(claim: &ClaimDetail) -> Option<Value> {
    let target = claim.modify.as_ref().map(|modify| modify.target.clone());
    let mut draft = Draft::new(claim);
    let target = target.unwrap_or_default();
    set_status(&mut draft, claim, ModifyPhase::Pending, &target);
    draft.finish()
}

/// The call for `target` failed.
#[must_use]
pub fn modify_error(
    claim: &ClaimDetail,
    target: &Text,
    (finality, error): (Finality, &RpcError),
    now: &str,
) -> Option<Value> {
    let (phase, how) = match finality {
        Finality::InDoubt => (ModifyPhase::InProgress, "is still in progress."),
        Finality::Final => (ModifyPhase::InProgress, "failed. Waiting for retry."),
        Finality::Infeasible => (ModifyPhase::Infeasible, "failed. Waiting for retry."),
    };
    let message = format!("Modifying volume to {target:?} {how}");
    let reason = sidecar::rpc_code::name(error.code);
    let mut draft = Draft::new(claim);
    set_status(&mut draft, claim, phase, target);
    set_condition(&mut draft, claim, MODIFYING_VOLUME, ("", &message), now);
    let text = (reason, error.message.as_str());
    set_condition(&mut draft, claim, MODIFY_VOLUME_ERROR, text, now);
    draft.finish()
}

/// The driver modified the volume to `target`.
#[must_use]
pub fn finish_modify(claim: &ClaimDetail, target: &Text) -> Option<Value> {
    let mut draft = Draft::new(claim);
    draft.drop(&[MODIFYING_VOLUME, MODIFY_VOLUME_ERROR]);
    if claim.modify.is_some() {
        draft.field("modifyVolumeStatus", Value::Null);
    }
    if claim.current_class != *target {
        draft.field("currentVolumeAttributesClassName", json!(&**target));
    }
    draft.finish()
}

/// The request was withdrawn, and no call is under way.
#[must_use]
pub fn cancel_modify(claim: &ClaimDetail) -> Option<Value> {
    let mut draft = Draft::new(claim);
    draft.drop(&[MODIFYING_VOLUME]);
    draft.finish()
}

fn set_status(draft: &mut Draft<'_>, claim: &ClaimDetail, phase: ModifyPhase, target: &Text) {
    let before = claim.modify.as_ref();
    let mut status = Map::new();
    if before.is_none_or(|before| before.phase != phase) {
        status.insert("status".to_owned(), json!(phase.name()));
    }
    let held = before.map_or("", |before| &before.target);
    if *held != **target {
        let name = "targetVolumeAttributesClassName".to_owned();
        status.insert(name, json!(&**target));
    }
    if !status.is_empty() {
        draft.field("modifyVolumeStatus", status.into());
    }
}

/// Sets the condition, unless the claim already has it. Its transition time stays while reason and
/// status are the same.
fn set_condition(
    draft: &mut Draft<'_>,
    claim: &ClaimDetail,
    kind: &str,
    (reason, message): (&str, &str),
    now: &str,
) {
    let now: Text = now.into();
    let mut condition = Condition {
        kind: kind.into(),
        status: "True".into(),
        reason: reason.into(),
        message: message.into(),
        changed: Some(now.clone()),
        probed: Some(now),
    };
    if let Some(held) = claim.condition(kind) {
        let same = held.is_true() && held.reason == condition.reason;
        if same && held.message == condition.message {
            return;
        }
        if same && held.changed.is_some() {
            condition.changed.clone_from(&held.changed);
        }
    }
    draft.set(condition);
}
