//! Patches of a claim during an expansion.

use serde_json::{Value, json};

use super::claim::Draft;
use crate::keys::{
    CONTROLLER_RESIZE_ERROR, FILE_SYSTEM_RESIZE_PENDING, NODE_EXPANSION_NOT_REQUIRED,
    RESIZE_CONDITIONS, RESIZING,
};
use crate::model::{ClaimDetail, Condition, Quantity, ResizeStatus};

const PENDING_MESSAGE: &str =
    "Waiting for user to (re-)start a pod to finish file system resize of volume on node.";

/// Sent before a call for `target`.
///
/// A claim that already records it is left alone, and keeps the time of its condition. An infeasible
/// expansion, or one that waits for the node, becomes in progress again: if the outcome of this call
/// stays unknown, the next process must know that it was made.
#[must_use]
pub fn mark_resizing(claim: &ClaimDetail, target: Quantity, now: &str) -> Option<Value> {
    use ResizeStatus::{ControllerInProgress, NodeInfeasible};
    let same = claim.allocated == Some(target);
    let mut draft = Draft::new(claim);
    let resizing = claim.condition(RESIZING);
    let holds = resizing.is_some_and(Condition::is_true);
    if !same {
        let others = RESIZE_CONDITIONS.iter().filter(|kind| **kind != RESIZING);
        draft.drop(&others.copied().collect::<Vec<_>>());
    }
    if !holds || !same {
        draft.set(condition(RESIZING, "", now));
    }
    if !same {
        draft.field("allocatedResources", storage(&target.to_string()));
    }
    // After kubelet's refusal the table leads to the same size anyway.
    let again = !matches!(claim.resize, Some(ControllerInProgress | NodeInfeasible));
    if again || (!same && claim.resize != Some(ControllerInProgress)) {
        draft.field(
            "allocatedResourceStatuses",
            storage(ControllerInProgress.name()),
        );
    }
    if claim.node_expansion_not_required.is_some() {
        let name = NODE_EXPANSION_NOT_REQUIRED.to_owned();
        draft.annotations.insert(name, Value::Null);
    }
    draft.finish()
}

/// Sent before a call that the claim already records. It forces a new resource version, so that no
/// older patch fits any more.
#[must_use]
pub fn take_over_resize(claim: &ClaimDetail, now: &str) -> Option<Value> {
    let mut draft = Draft::new(claim);
    draft.renew(condition(RESIZING, "", now), now);
    draft.finish()
}

/// The driver failed with a final error, whose text is `message`.
#[must_use]
pub fn resize_error(
    claim: &ClaimDetail,
    message: &str,
    infeasible: bool,
    now: &str,
) -> Option<Value> {
    use ResizeStatus::ControllerInfeasible;
    let mut draft = Draft::new(claim);
    let held = claim.condition(CONTROLLER_RESIZE_ERROR);
    if !held.is_some_and(|held| held.is_true() && *held.message == *message) {
        draft.set(condition(CONTROLLER_RESIZE_ERROR, message, now));
    }
    if infeasible && claim.resize != Some(ControllerInfeasible) {
        draft.field(
            "allocatedResourceStatuses",
            storage(ControllerInfeasible.name()),
        );
    }
    draft.finish()
}

/// The driver has finished, the node has to act next.
#[must_use]
pub fn pending_on_node(claim: &ClaimDetail, now: &str) -> Option<Value> {
    let mut draft = Draft::new(claim);
    let held = claim.condition(FILE_SYSTEM_RESIZE_PENDING);
    if !held.is_some_and(|held| held.is_true() && *held.message == *PENDING_MESSAGE) {
        draft.set(condition(FILE_SYSTEM_RESIZE_PENDING, PENDING_MESSAGE, now));
    }
    if claim.resize != Some(ResizeStatus::NodePending) {
        let pending = storage(ResizeStatus::NodePending.name());
        draft.field("allocatedResourceStatuses", pending);
    }
    draft.finish()
}

/// The volume has its `capacity`, and the node has nothing to do.
#[must_use]
pub fn finish_resize(claim: &ClaimDetail, capacity: Quantity) -> Option<Value> {
    let mut draft = Draft::new(claim);
    draft.drop(&RESIZE_CONDITIONS);
    // A driver that returns less than the current capacity is not believed.
    if claim.capacity.is_none_or(|held| held < capacity) {
        draft.field("capacity", storage(&capacity.to_string()));
    }
    if claim.resize.is_some() {
        draft.field("allocatedResourceStatuses", Value::Null);
    }
    if claim.node_expansion_not_required.as_deref() != Some("true") {
        let name = NODE_EXPANSION_NOT_REQUIRED.to_owned();
        draft.annotations.insert(name, json!("true"));
    }
    draft.finish()
}

fn storage(value: &str) -> Value {
    json!({ "storage": value })
}

fn condition(kind: &str, message: &str, now: &str) -> Condition {
    Condition {
        kind: kind.into(),
        status: "True".into(),
        message: message.into(),
        changed: Some(now.into()),
        ..Condition::default()
    }
}
