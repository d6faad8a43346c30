//! The next step for a claim whose volume is to be modified.
//!
//! The order of writes and calls is what makes a crash at any point harmless, and the crash
//! simulation runs exactly this function.
//!
//! The target is on the claim before the driver is asked, and becomes the current class only after
//! the driver has done it. While an outcome is unknown, the target is not changed.

use csi_proto::csi::ControllerModifyVolumeRequest;

use super::fairness::Kind;
use super::in_flight::Start;
use super::outcome::{
    ApiError, Cause, Failure, Finality, Refusal, RequeueTrigger, RpcError, classify,
};
use super::owner::owned;
use super::secret::Loaded;
use super::step::{Announcement, Answer, ClaimWrite, End, Step, VolumeWrite};
use super::view::View;
use super::{patch, request};
use crate::model::{
    AttributesClass, Claim, ClaimDetail, CsiSource, ModifyPhase, SecretRef, Text, Volume,
};

mod class;
mod goal;
mod marks;

use class::{Unusable, usable};
pub(super) use goal::targets;
use goal::{Goal, goal};
pub use marks::Marks;
use marks::{Finished, Unconfirmed, canceled, modified};

/// How often a claim that does not keep what is written is marked in one attempt.
const MARKS: u8 = 4;

/// One attempt.
pub(super) struct Modification {
    pub(super) marks: Marks,
    /// What the driver was asked in this attempt and called impossible; `Some(None)` if it was asked
    /// and did not.
    pub(super) called: Option<Option<String>>,
    /// The request that was called impossible lately.
    slow: Option<String>,
    /// How often the claim was marked.
    marked: u8,
    /// What was told before the driver is asked.
    announced: Option<Announcement>,
    secrets: Loaded,
    /// The class that the driver has applied.
    modified: Option<Text>,
    /// Whether that is on the PersistentVolume.
    written: bool,
    finished: Option<Finished>,
}

impl Modification {
    pub(super) fn new(start: &Start) -> Self {
        Self {
            marks: start.modify.clone(),
            called: None,
            slow: start.slow.clone(),
            marked: 0,
            announced: None,
            secrets: Loaded::default(),
            modified: None,
            written: false,
            finished: None,
        }
    }

    /// Name of the class that the view is to show.
    pub(super) fn class(&self, claim: &ClaimDetail) -> Option<Text> {
        match goal(claim, self.marks.settled) {
            Goal::Continue(target) | Goal::Start(target) => Some(target.clone()),
            Goal::Nothing | Goal::Cancel => None,
        }
    }

    /// The next step. `claim` is what the view shows, if it is the claim that this is about.
    pub(super) fn decide(&self, view: &View<'_>, claim: Option<&Claim>) -> Step {
        if let Some(announcement) = claim.and_then(|claim| self.marks.untold(claim)) {
            return Step::Announce(announcement.clone());
        }
        let claim = claim.and_then(Claim::detail);
        let step = match (&self.finished, &self.modified) {
            (Some(finished), _) => Ok(finished.next(claim)),
            (None, Some(target)) => self.record(view, claim, target),
            (None, None) => self.begin(view, claim),
        };
        step.unwrap_or_else(Step::End)
    }

    fn begin(&self, view: &View<'_>, claim: Option<&ClaimDetail>) -> Result<Step, End> {
        let claim = claim
            .filter(|claim| claim.wants_change())
            .ok_or(End::Done)?;
        if !view.driver.abilities.modify || !view.settings.gates.attributes_class {
            return Err(End::Done);
        }
        let (volume, source) = owned(view, claim)?;
        match goal(claim, self.marks.settled) {
            Goal::Nothing => Err(End::Done),
            Goal::Cancel => {
                let patch = patch::cancel_modify(claim).ok_or(End::Done)?;
                Ok(Step::PatchClaim(ClaimWrite::CancelModify, patch))
            }
            Goal::Continue(target) => {
                if let Some(step) = self.take_over(view, claim) {
                    return Ok(step);
                }
                let class = view.class;
                let class = class.ok_or_else(|| End::Failed(Failure::NoClass(target.clone())))?;
                self.ask(view, claim, (volume, source), (target, class))
            }
            Goal::Start(target) => {
                let class = match usable(view, target) {
                    Ok(class) => class,
                    Err(unusable) => return self.wait_for_class(view, claim, target, unusable),
                };
                if self.is_slow(view, claim, volume, (target, class)) {
                    return Err(End::Later);
                }
                if let Some(patch) = patch::mark_modifying(claim, target, view.now) {
                    return if self.marked < MARKS {
                        Ok(Step::PatchClaim(ClaimWrite::MarkModifying, patch))
                    } else {
                        Err(End::Failed(ignored(claim)))
                    };
                }
                if let Some(step) = self.take_over(view, claim) {
                    return Ok(step);
                }
                if let Some(step) = self.announce(modifying(claim, target)) {
                    return Ok(step);
                }
                self.ask(view, claim, (volume, source), (target, class))
            }
        }
    }

    fn take_over(&self, view: &View<'_>, claim: &ClaimDetail) -> Option<Step> {
        let patch = patch::take_over_modify(claim, view.now).filter(|_| !self.marks.taken_over);
        Some(Step::PatchClaim(ClaimWrite::TakeOver, patch?))
    }

    /// There is no class, or none for this driver: that is said, and the claim waits for one. Of
    /// a class for another driver users and tests expect to find what they find after the driver
    /// itself has refused one.
    fn wait_for_class(
        &self,
        view: &View<'_>,
        claim: &ClaimDetail,
        target: &Text,
        Unusable { message, code }: Unusable,
    ) -> Result<Step, End> {
        let (phase, patch) = match code {
            None => (ModifyPhase::Pending, patch::pending_class(claim)),
            Some(code) => {
                let text = message.clone();
                let refused = (
                    Finality::Infeasible,
                    &RpcError {
                        code,
                        message: text,
                    },
                );
                let patch = patch::modify_error(claim, target, refused, view.now);
                (ModifyPhase::Infeasible, patch)
            }
        };
        let marked = |modify: &crate::model::Modify| {
            modify.phase == phase && (code.is_none() || modify.target == *target)
        };
        if !claim.modify.as_ref().is_some_and(marked)
            && self.marked < MARKS
            && let Some(patch) = patch
        {
            return Ok(Step::PatchClaim(ClaimWrite::MarkPendingClass, patch));
        }
        let announcement = Announcement {
            warning: true,
            reason: "VolumeModifyFailed",
            message,
        };
        let told = self.announce(announcement);
        told.ok_or_else(|| End::Waits(RequeueTrigger::Class(target.clone())))
    }

    /// Tells it, unless it was told last: the class, or the wish for it, may have changed since.
    fn announce(&self, announcement: Announcement) -> Option<Step> {
        let told = self.announced.as_ref() == Some(&announcement);
        (!told).then_some(Step::Announce(announcement))
    }

    fn is_slow(
        &self,
        view: &View<'_>,
        claim: &ClaimDetail,
        volume: &Volume,
        (target, class): (&Text, &AttributesClass),
    ) -> bool {
        let same = claim
            .modify
            .as_ref()
            .is_some_and(|modify| modify.target == *target);
        let Some(slow) = self.slow.as_ref().filter(|_| same) else {
            return false;
        };
        let none = request::Secrets::new();
        let request = request::modify(claim, volume, class, view.settings, &none);
        *slow == wording(target, &request)
    }

    fn ask(
        &self,
        view: &View<'_>,
        claim: &ClaimDetail,
        (volume, source): (&Volume, &CsiSource),
        (target, class): (&Text, &AttributesClass),
    ) -> Result<Step, End> {
        if volume.handle.is_empty() {
            return Err(End::Failed(Failure::Modify(None, Cause::EmptyHandle)));
        }
        let secrets = match self.secrets.values(secret(volume, source)) {
            Ok(secrets) => secrets,
            Err(step) => return Ok(step),
        };
        let request = request::modify(claim, volume, class, view.settings, secrets);
        Ok(Step::Modify(target.clone(), Box::new(request)))
    }

    /// What the driver did goes onto the volume, then onto the claim.
    fn record(
        &self,
        view: &View<'_>,
        claim: Option<&ClaimDetail>,
        target: &Text,
    ) -> Result<Step, End> {
        let claim = claim.ok_or(End::Done)?;
        let (volume, _) = owned(view, claim)?;
        if !self.written
            && let Some(patch) = patch::set_class(volume, target)
        {
            let name = claim.volume.clone();
            return Ok(Step::PatchVolume(name, VolumeWrite::SetClass, patch));
        }
        let patch = patch::finish_modify(claim, target).ok_or(End::Done)?;
        Ok(Step::PatchClaim(ClaimWrite::FinishModify, patch))
    }

    /// The patch of a volume whose claim has gone since the driver was asked.
    pub(super) fn for_orphan(&self, volume: &Volume) -> Option<serde_json::Value> {
        let target = self.modified.as_ref().filter(|_| !self.written)?;
        patch::set_class(volume, target)
    }

    /// Takes in what came of `step`, which is none that failed at the API server. `claim` is the
    /// claim's name.
    pub(super) fn fold(&mut self, step: &Step, answer: Answer, claim: &str) -> Result<(), Failure> {
        match step {
            Step::PatchClaim(ClaimWrite::MarkModifying, _) => {
                // Nothing was asked yet, and nothing that was asked before is in doubt.
                self.marks.settled = true;
                self.marks.taken_over = true;
                self.marked += 1;
            }
            Step::PatchClaim(ClaimWrite::TakeOver, _) => self.marks.taken_over = true,
            Step::PatchClaim(ClaimWrite::MarkPendingClass, _) => self.marked += 1,
            Step::PatchClaim(write, _) => {
                let left = match (write, &self.modified) {
                    (ClaimWrite::CancelModify, _) => Some(canceled()),
                    (_, Some(target)) => Some(modified(claim, target)),
                    (_, None) => None,
                };
                self.marks.unconfirmed = None;
                self.marks.taken_over = false;
                self.finished = Some(Finished { left });
            }
            Step::PatchVolume(..) => self.written = true,
            Step::Announce(announcement) => match &mut self.finished {
                Some(finished) => finished.left = None,
                None if self.marks.told(announcement) => {}
                None => self.announced = Some(announcement.clone()),
            },
            Step::LoadSecret(reference) => {
                let loaded = self.secrets.fold(reference, answer);
                return loaded.map_err(|cause| Failure::Modify(None, cause));
            }
            Step::Modify(target, request) => return self.answered(target, request, answer),
            Step::ReadClaim | Step::ReadVolume(_) | Step::Expand(..) | Step::End(_) => {}
        }
        Ok(())
    }

    /// A patch of the claim was refused, or nobody knows.
    pub(super) fn refused(&mut self, write: ClaimWrite, refusal: Refusal, claim: &str) {
        self.marks.taken_over &= refusal != Refusal::Unknown;
        match (write, refusal) {
            // It is begun only where nothing is in doubt, and the driver was not asked since.
            (
                ClaimWrite::MarkModifying,
                Refusal::Forbidden | Refusal::AlreadyExists | Refusal::Unknown | Refusal::Other,
            ) => {
                self.marks.settled = true;
            }
            (ClaimWrite::FinishModify, Refusal::Unknown) => {
                let target = self.modified.as_ref();
                self.marks.unconfirmed = target.map(|target| Unconfirmed::new(claim, target));
            }
            _ => {}
        }
    }

    fn answered(
        &mut self,
        target: &Text,
        request: &ControllerModifyVolumeRequest,
        answer: Answer,
    ) -> Result<(), Failure> {
        match answer {
            Answer::Modified => {
                // Until it is recorded, nothing else is begun.
                self.marks = Marks {
                    taken_over: self.marks.taken_over,
                    ..Marks::default()
                };
                self.called = Some(None);
                self.modified = Some(target.clone());
                Ok(())
            }
            Answer::Failed(error) => {
                let finality = classify(Kind::Modify, error.code);
                self.marks.settled = finality != Finality::InDoubt;
                let infeasible = finality == Finality::Infeasible;
                self.called = Some(infeasible.then(|| wording(target, request)));
                let still = (finality == Finality::InDoubt).then(|| target.clone());
                Err(Failure::Modify(still, Cause::Call(error)))
            }
            Answer::Unreachable(error) => Err(Failure::Modify(None, Cause::Unreachable(error))),
            Answer::Done
            | Answer::Refused(_)
            | Answer::Secret(_)
            | Answer::SecretNotText
            | Answer::Expanded(_) => Ok(()),
        }
    }

    /// The patch that records why it failed.
    pub(super) fn record_error(
        view: &View<'_>,
        claim: &ClaimDetail,
        cause: &Cause,
    ) -> Option<serde_json::Value> {
        let Cause::Call(error) = cause else {
            return None;
        };
        let target = &claim.modify.as_ref()?.target;
        let finality = classify(Kind::Modify, error.code);
        patch::modify_error(claim, target, (finality, error), view.now)
    }
}

/// The Secret for the call: the one that the volume was made with, else the one for expansions.
fn secret<'a>(volume: &'a Volume, source: &'a CsiSource) -> Option<&'a SecretRef> {
    let named = volume.kind.modify_secret.as_ref();
    named.or(source.expand_secret.as_ref())
}

/// The request without its Secret, to tell whether it would be the same again.
fn wording(target: &Text, request: &ControllerModifyVolumeRequest) -> String {
    let parameters: std::collections::BTreeMap<_, _> = request.mutable_parameters.iter().collect();
    format!("{target} {parameters:?}")
}

fn modifying(claim: &ClaimDetail, target: &Text) -> Announcement {
    let name = &claim.name;
    Announcement {
        warning: false,
        reason: "VolumeModify",
        message: format!("external resizer is modifying volume {name} with vac {target}"),
    }
}

fn ignored(claim: &ClaimDetail) -> Failure {
    let message = "the API server accepts the patch, but status or condition are not there \
                   afterwards; an admission webhook may remove them";
    let error = ApiError {
        message: message.to_owned(),
        refusal: Refusal::Other,
    };
    Failure::Claim(ClaimWrite::MarkModifying, claim.key(), error)
}

#[cfg(test)]
mod tests;
