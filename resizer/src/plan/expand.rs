//! The next step for a claim that is to grow.
//!
//! The order of writes and calls is what makes a crash at any point harmless, and the crash
//! simulation runs exactly this function.
//!
//! The size that the driver is about to be asked for is on the claim before it is asked; the
//! PersistentVolume is larger before the claim says so. Whoever comes after a crash therefore knows
//! what may have been reached, and repeats it.
//!
//! | file | contents |
//! |---|---|
//! | `target` | how large the volume is to be made |
//! | `answer` | what the driver's answer means |
//! | `marks` | what is remembered, and how an expansion is brought to an end |

use csi_proto::csi::{ControllerExpandVolumeRequest, ControllerExpandVolumeResponse};
use serde_json::Value;
use sidecar::controller::CallError;

use super::attempt::End;
use super::driver::Expansion as Who;
use super::fairness::Kind;
use super::in_flight::Start;
use super::outcome::{ApiError, Cause, Failure, Finality, Refusal, classify};
use super::owner::expandable;
use super::patch;
use super::patch::{Annotation, Capacity};
use super::request::{self, About, Announcement, Call, ClaimWrite, Request, VolumeWrite};
use super::secret::Loaded;
use super::view::View;
use crate::model::{Claim, ClaimDetail, CsiSource, Quantity, Text, Volume};

mod answer;
mod marks;
mod target;

use answer::Grown;
pub use marks::Marks;
use marks::{Finished, Unconfirmed};
pub use target::{Facts, target};

/// How often a claim that does not keep what is written is marked in one attempt.
const MARKS: u8 = 4;

/// One attempt.
pub(super) struct Expansion {
    about: About,
    pub(super) marks: Marks,
    /// What the driver was asked in this attempt and called impossible; `Some(None)` if it was asked
    /// and did not.
    pub(super) called: Option<Option<String>>,
    /// The size that was called impossible lately, in bytes.
    slow: Option<String>,
    /// The volume that carries the annotation of an earlier expansion.
    annotated: Option<Text>,
    tidied: bool,
    /// How often the claim was marked.
    marked: u8,
    announced: bool,
    pub(super) secrets: Loaded,
    grown: Option<Grown>,
    /// Whether the volume's new size is on the PersistentVolume.
    written: bool,
    finished: Option<Finished>,
}

impl Expansion {
    pub(super) fn new(about: &About, start: &Start) -> Self {
        Self {
            about: about.clone(),
            marks: start.expand.clone(),
            called: None,
            slow: start.slow.clone(),
            annotated: start.annotated.clone(),
            tidied: false,
            marked: 0,
            announced: false,
            secrets: Loaded::default(),
            grown: None,
            written: false,
            finished: None,
        }
    }

    /// The next request. `claim` is what the view shows of the claim that this is about.
    pub(super) fn decide(&self, view: &View<'_>, claim: &Claim) -> Result<Request, End> {
        if let Some(announcement) = self.marks.untold(claim) {
            return Ok(self.about.announce(announcement.clone()));
        }
        match (&self.finished, &self.grown) {
            (Some(finished), _) => finished.next(view, claim, &self.about),
            (None, Some(grown)) => self.record(view, claim, grown),
            (None, None) => self.begin(view, claim),
        }
    }

    /// Everything up to the driver's answer.
    fn begin(&self, view: &View<'_>, claim: &Claim) -> Result<Request, End> {
        if let Some(request) = self.tidy(view, claim) {
            return Ok(request);
        }
        let claim = claim.detail().filter(|claim| claim.wants_growth());
        let claim = claim.ok_or(End::Done)?;
        if view.driver.abilities.expansion == Who::None {
            return Err(End::Done);
        }
        let (volume, source) = expandable(view, claim)?;
        let target = target(&Facts {
            claim,
            volume: volume.capacity,
            settled: self.marks.settled,
            controller: view.driver.abilities.expansion == Who::Controller,
        });
        let target = target.ok_or(End::Done)?;
        let same = claim.allocated == Some(target);
        if same && self.slow.as_deref() == Some(&*target.value().to_string()) {
            return Err(End::Later);
        }
        if let Some(patch) = patch::mark_resizing(claim, target, view.now) {
            if self.marked < MARKS {
                return Ok(self.about.patch(ClaimWrite::MarkResizing, patch));
            }
            return Err(End::Failed(ignored(claim)));
        }
        if !self.marks.taken_over
            && let Some(patch) = patch::take_over_resize(claim, view.now)
        {
            return Ok(self.about.patch(ClaimWrite::TakeOver, patch));
        }
        self.ask(view, claim, (volume, source), target)
    }

    /// The call and what comes right before it.
    fn ask(
        &self,
        view: &View<'_>,
        claim: &ClaimDetail,
        (volume, source): (&Volume, Result<&CsiSource, Cause>),
        target: Quantity,
    ) -> Result<Request, End> {
        let driver = &view.driver.name;
        if self.marks.in_use && view.in_use && view.settings.handle_in_use {
            let failure = Failure::InUse(claim.key(), driver.clone());
            return Err(End::Failed(failure));
        }
        if !self.announced {
            return Ok(self.about.announce(resizing(&claim.volume)));
        }
        if view.driver.abilities.expansion == Who::NodeOnly {
            return self.record_for(view, claim, volume, &Grown::by_node(target));
        }
        let fails = |cause| {
            let failure = Failure::Expand(claim.volume.clone(), driver.clone(), cause);
            End::Failed(failure)
        };
        let source = source.map_err(fails)?;
        if volume.handle.is_empty() {
            return Err(fails(Cause::EmptyHandle));
        }
        let secrets = match self.secrets.values(source.expand_secret.as_ref()) {
            Ok(secrets) => secrets,
            Err(request) => return Ok(request),
        };
        let message = request::expand((volume, source), view.driver, target.value(), secrets);
        let message =
            message.map_err(|error| fails(Cause::AccessModes(claim.volume.clone(), error)))?;
        let call = sidecar::controller::Call::new(message, request::migrated(volume));
        Ok(Request::Call(Call::Expand(call)))
    }

    /// What the driver answered goes onto the volume, then onto the claim.
    fn record(&self, view: &View<'_>, claim: &Claim, grown: &Grown) -> Result<Request, End> {
        let claim = claim.detail().ok_or(End::Done)?;
        let (volume, _) = expandable(view, claim)?;
        self.record_for(view, claim, volume, grown)
    }

    fn record_for(
        &self,
        view: &View<'_>,
        claim: &ClaimDetail,
        volume: &Volume,
        grown: &Grown,
    ) -> Result<Request, End> {
        // With nothing gained there is nothing for the node to do, and nobody to wait for.
        if let Some(cause) = grown.shortfall().filter(|_| grown.on_node)
            && claim.capacity.is_some_and(|held| held >= grown.capacity)
        {
            let driver = view.driver.name.clone();
            let failure = Failure::Expand(claim.volume.clone(), driver, cause);
            return Err(End::Failed(failure));
        }
        if !self.written {
            let annotation = match (view.settings.gates.annotate, grown.on_node, claim.capacity) {
                (true, true, Some(before)) => Annotation::Add(before),
                (true, false, _) => Annotation::Remove,
                (true, true, None) | (false, _, _) => Annotation::Keep,
            };
            let capacity = grown.on_volume(claim.capacity);
            if let Some(patch) = patch::grow(volume, capacity, annotation) {
                return Ok(request::patch_volume(
                    &claim.volume,
                    VolumeWrite::Grow,
                    patch,
                ));
            }
        }
        let (write, patch) = if grown.on_node {
            let patch = patch::pending_on_node(claim, view.now);
            (ClaimWrite::MarkPendingOnNode, patch)
        } else {
            let patch = patch::finish_resize(claim, grown.capacity);
            (ClaimWrite::FinishResize, patch)
        };
        // There is nothing to be written only if the node was waited for already.
        patch.map_or(Err(End::Done), |patch| Ok(self.about.patch(write, patch)))
    }

    /// The patch of a volume whose claim has gone since the driver was asked. There is nobody left
    /// for whom the node, or the annotation, would matter.
    pub(super) fn for_orphan(&self, volume: &Volume) -> Option<Value> {
        let grown = self.grown.as_ref().filter(|_| !self.written)?;
        patch::grow(volume, Capacity::AtLeast(grown.capacity), Annotation::Keep)
    }

    /// The request that takes the annotation of an earlier expansion away, once that is over: before a
    /// new one begins, which has to write it anew.
    fn tidy(&self, view: &View<'_>, claim: &Claim) -> Option<Request> {
        let volume = view
            .volume
            .filter(|_| view.settings.gates.annotate && !self.tidied)?;
        volume.pre_resize.as_ref()?;
        if !volume.is_served_by(&view.driver.name) {
            return None;
        }
        let held = claim.capacity();
        let over = volume
            .capacity
            .is_some_and(|size| held.is_some_and(|held| held >= size));
        let of = volume.claim.as_ref().map(|claim| &claim.uid);
        if !over || of != Some(claim.uid()) {
            return None;
        }
        let name = match claim {
            Claim::Open(claim) => Some(&claim.volume),
            Claim::Quiet(_) => self.annotated.as_ref(),
        };
        let what = VolumeWrite::RemoveAnnotation;
        Some(request::patch_volume(
            name?,
            what,
            patch::remove_annotation(),
        ))
    }

    /// The PersistentVolume is written.
    pub(super) fn volume_written(&mut self, what: VolumeWrite) {
        match what {
            VolumeWrite::RemoveAnnotation => self.tidied = true,
            VolumeWrite::Grow | VolumeWrite::SetClass => self.written = true,
        }
    }

    /// The claim is written.
    pub(super) fn written(&mut self, what: ClaimWrite, patch: &Value) {
        if what == ClaimWrite::TakeOver {
            self.marks.taken_over = true;
        } else if what == ClaimWrite::MarkResizing {
            self.marked += 1;
            self.marks.taken_over = true;
            self.begins(patch);
        } else {
            self.finish(what);
        }
    }

    /// Users are told.
    pub(super) fn announced(&mut self, announcement: &Announcement) {
        match &mut self.finished {
            Some(finished) => drop(finished.left.pop()),
            None if self.marks.told(announcement) => {}
            None => self.announced = true,
        }
    }

    /// What came of the call.
    pub(super) fn called(
        &mut self,
        request: &ControllerExpandVolumeRequest,
        result: Result<ControllerExpandVolumeResponse, CallError>,
    ) -> Result<(), Cause> {
        let range = request.capacity_range.as_ref();
        let asked = range.map_or(0, |range| range.required_bytes);
        match result {
            Ok(response) => {
                self.marks = Marks {
                    taken_over: self.marks.taken_over,
                    ..Marks::default()
                };
                self.called = Some(None);
                self.grown = Some(Grown::answered(&response, asked));
                Ok(())
            }
            Err(CallError::Failed(error)) => {
                let finality = classify(Kind::Expand, error.code);
                self.marks.settled = finality != Finality::InDoubt;
                self.marks.in_use = error.code == tonic::Code::FailedPrecondition;
                let infeasible = finality == Finality::Infeasible;
                self.called = Some(infeasible.then(|| asked.to_string()));
                Err(Cause::Call(error))
            }
            Err(CallError::Unreachable(error)) => Err(Cause::Unreachable(error)),
        }
    }

    /// A new expansion is recorded where none was under way: the driver does not work on it before
    /// it is asked.
    fn begins(&mut self, patch: &Value) {
        let recorded = patch.pointer("/status/allocatedResourceStatuses");
        self.marks.settled |= recorded.is_some();
    }

    /// A patch of the claim was refused, or nobody knows.
    pub(super) fn refused(&mut self, write: ClaimWrite, patch: &Value, refusal: Refusal) {
        self.marks.taken_over &= refusal != Refusal::Unknown;
        match (write, refusal) {
            (
                ClaimWrite::MarkResizing,
                Refusal::Forbidden | Refusal::AlreadyExists | Refusal::Unknown | Refusal::Other,
            ) => self.begins(patch),
            (write, Refusal::Unknown) if write.ends_expansion() => {
                let left = self.to_tell();
                let grown = self.grown.as_ref().map(|grown| grown.capacity);
                self.marks.unconfirmed = Some(Unconfirmed::new(write, grown, left));
            }
            _ => {}
        }
    }

    /// The claim is written.
    fn finish(&mut self, write: ClaimWrite) {
        let on_node = write != ClaimWrite::FinishResize;
        self.marks.unconfirmed = None;
        self.marks.taken_over = false;
        let short = self.grown.as_ref().and_then(Grown::shortfall);
        self.finished = Some(Finished {
            left: self.to_tell(),
            again: !on_node,
            short: short.filter(|_| !on_node),
        });
    }

    /// What there is to tell once the claim is written, last first.
    fn to_tell(&self) -> Vec<Announcement> {
        let grown = self.grown.as_ref();
        grown.map_or_else(|| vec![answer::required_on_node()], Grown::announcements)
    }

    /// The patch that records why it failed.
    pub(super) fn record_error(
        view: &View<'_>,
        claim: &ClaimDetail,
        cause: &Cause,
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
}

fn resizing(volume: &Text) -> Announcement {
    Announcement {
        warning: false,
        reason: "Resizing",
        message: format!("External resizer is resizing volume {volume}"),
    }
}

fn ignored(claim: &ClaimDetail) -> Failure {
    let message = "the API server accepts the patch, but status or condition are not there \
                   afterwards; an admission webhook may remove them";
    let error = ApiError {
        message: message.to_owned(),
        refusal: Refusal::Other,
    };
    Failure::Claim(ClaimWrite::MarkResizing, claim.key(), error)
}

#[cfg(test)]
mod tests;
