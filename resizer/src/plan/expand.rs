//! The script of an expansion.
//!
//! The order of writes and calls makes a crash at any point harmless; the crash simulation runs this
//! very function.
//!
//! The claim has the target size before the driver is called, and the PersistentVolume has the new
//! capacity before the claim has it. After a crash the next process therefore knows the size that may
//! have been reached, and repeats the call.
//!
//! | file | contents |
//! |---|---|
//! | `target` | the size that the driver is asked for |
//! | `answer` | the meaning of the driver's response |

use serde_json::Value;
use sidecar::controller::{self, CallError, script};

use super::ask::Ask;
use super::attempt::{End, Flow, Log};
use super::driver::Expansion as Who;
use super::fairness::Kind;
use super::outcome::{Cause, Failure, Finality, classify};
use super::owner::expandable;
use super::patch;
use super::patch::{Annotation, Capacity};
use super::request::{self, Announcement, Call, ClaimWrite, Purpose, VolumeWrite};
use super::view::View;
use crate::model::{Claim, ClaimDetail, Volume};

mod answer;
mod target;

pub(super) use answer::{Grown, required_on_node};
pub use target::{Facts, target};

/// Expands the volume of a claim.
pub(super) fn expand(ask: Ask<'_>, claim: &Claim) -> Flow<End> {
    ask.tell_left()?;
    let is_written = |what| ask.log().times(&Purpose::Claim(what)) > 0;
    let grown = Grown::of(ask.log());
    if is_written(ClaimWrite::MarkPendingOnNode) {
        return Ok(End::Done);
    }
    if is_written(ClaimWrite::FinishResize) {
        return finished(ask, claim, grown);
    }
    let grown = match grown {
        Some(Ok(grown)) => grown,
        Some(Err(error)) => return Err(failed(ask, error.into()).into()),
        None => begin(ask, claim)?,
    };
    record(ask, claim, &grown)
}

/// Everything up to the driver's response. Returns the result at once if the node does everything.
fn begin(ask: Ask<'_>, claim: &Claim) -> Flow<Grown> {
    let view = ask.view;
    tidy(ask, claim)?;
    let claim = claim.detail().filter(|claim| claim.wants_growth());
    let claim = claim.ok_or(End::Done)?;
    let who = view.driver.abilities.expansion;
    if who == Who::None {
        return Err(End::Done.into());
    }
    let (volume, source) = expandable(view, claim)?;
    let target = target(&Facts {
        claim,
        volume: volume.capacity,
        settled: ask.marks().settled,
        controller: who == Who::Controller,
    });
    let target = target.ok_or(End::Done)?;
    if claim.allocated == Some(target) && ask.is_slow(&target.value().to_string()) {
        return Err(End::Later.into());
    }
    let mark = patch::mark_resizing(claim, target, view.now);
    ask.mark(claim, ClaimWrite::MarkResizing, mark)?;
    ask.take_over(|| patch::take_over_resize(claim, view.now))?;
    if ask.marks().in_use && view.in_use && view.settings.handle_in_use {
        return Err(Failure::InUse(claim.key(), view.driver.name.clone()).into());
    }
    let message = format!("External resizer is resizing volume {}", claim.volume);
    ask.tell(Announcement::normal("Resizing", message))?;
    if who == Who::NodeOnly {
        return Ok(Grown::by_node(target));
    }
    let fails = |cause| failed(ask, cause);
    let source = source.map_err(fails)?;
    if volume.handle.is_empty() {
        return Err(fails(Cause::EmptyHandle).into());
    }
    let secrets = ask.secret(source.expand_secret.as_ref())?.map_err(fails)?;
    let message = request::expand((volume, source), view.driver, target.value(), secrets);
    let message = message
        .map_err(|error| Cause::AccessModes(claim.volume.clone(), error))
        .map_err(fails)?;
    let call = controller::Call::new(message, request::migrated(volume));
    script::call(Call::Expand(call))
}

/// Removes the annotation of an earlier expansion that is complete: before a new one begins, which has
/// to write it again.
fn tidy(ask: Ask<'_>, claim: &Claim) -> Flow<()> {
    let View {
        driver, settings, ..
    } = ask.view;
    let annotated = |volume: &&Volume| {
        let of = volume.claim.as_ref().map(|claim| &claim.uid);
        volume.pre_resize.is_some()
            && volume.is_served_by(&driver.name)
            && of == Some(claim.uid())
            && volume
                .capacity
                .is_some_and(|size| claim.capacity() >= Some(size))
    };
    let over = ask.view.volume.filter(annotated).is_some() && settings.gates.annotate;
    let patch = over.then(patch::remove_annotation);
    ask.volume_once(&ask.volume_name(), VolumeWrite::RemoveAnnotation, patch)
}

/// Writes the new size to the PersistentVolume, then to the claim.
fn record(ask: Ask<'_>, claim: &Claim, grown: &Grown) -> Flow<End> {
    let view = ask.view;
    let claim = claim.detail().ok_or(End::Done)?;
    let (volume, _) = expandable(view, claim)?;
    // If the size has not grown, the node has nothing to do, and waiting for it would never end.
    if let Some(cause) = grown.shortfall().filter(|_| grown.on_node)
        && claim.capacity.is_some_and(|held| held >= grown.capacity)
    {
        return Err(failed(ask, cause).into());
    }
    let annotation = match (view.settings.gates.annotate, grown.on_node, claim.capacity) {
        (true, true, Some(before)) => Annotation::Add(before),
        (true, false, _) => Annotation::Remove,
        (true, true, None) | (false, _, _) => Annotation::Keep,
    };
    let patch = patch::grow(volume, grown.on_volume(claim.capacity), annotation);
    ask.volume_once(&claim.volume, VolumeWrite::Grow, patch)?;
    // The patch is empty only if the claim already waits for the node.
    if grown.on_node {
        let patch = patch::pending_on_node(claim, view.now);
        ask.patch(ClaimWrite::MarkPendingOnNode, patch)?;
    } else {
        let patch = patch::finish_resize(claim, grown.capacity);
        ask.patch(ClaimWrite::FinishResize, patch)?;
    }
    Ok(End::Done)
}

/// The claim has its new capacity: requeues at once if it requests even more.
fn finished(ask: Ask<'_>, claim: &Claim, grown: Option<Result<Grown, &CallError>>) -> Flow<End> {
    if claim.detail().is_none_or(|claim| !claim.wants_growth()) {
        return Ok(End::Done);
    }
    match grown
        .and_then(Result::ok)
        .and_then(|grown| grown.shortfall())
    {
        Some(cause) => Err(failed(ask, cause).into()),
        None => Ok(End::Again),
    }
}

fn failed(ask: Ask<'_>, cause: Cause) -> Failure {
    Failure::Expand(ask.volume_name(), ask.view.driver.name.clone(), cause)
}

/// The patch of a volume whose claim was deleted after the call. Node and annotation do not matter
/// without a claim.
pub(super) fn of_orphan(log: &Log, volume: &Volume) -> Option<Value> {
    let grown = Grown::of(log)?.ok()?;
    patch::grow(volume, Capacity::AtLeast(grown.capacity), Annotation::Keep)
}

/// The patch that records the failure.
pub(super) fn record_error(
    view: &View<'_>,
    (claim, cause): (&ClaimDetail, &Cause),
) -> Option<Value> {
    let Cause::Call(error) = cause else {
        return None;
    };
    let finality = classify(Kind::Expand, error.code);
    if finality == Finality::InDoubt {
        return None;
    }
    let message = format!("failed to expand pvc with {error}");
    patch::resize_error(claim, &message, finality == Finality::Infeasible, view.now)
}

#[cfg(test)]
mod tests;
