//! The next step for a claim whose volume is to be modified.
//!
//! The order of writes and calls is what makes a crash at any point harmless, and the crash
//! simulation runs exactly this function.
//!
//! The target is on the claim before the driver is asked, and becomes the current class only after
//! the driver has done it. While an outcome is unknown, the target is not changed.

use csi_proto::csi::ControllerModifyVolumeRequest;
use sidecar::controller;

use super::attempt::End;
use super::fairness::Kind;
use super::in_flight::Start;
use super::outcome::{
    ApiError, Cause, Failure, Finality, Refusal, RequeueTrigger, RpcError, classify,
};
use super::owner::owned;
use super::patch;
use super::request::{self, About, Announcement, Call, ClaimWrite, Request, Secrets, VolumeWrite};
use super::secret::Loaded;
use super::view::View;
use crate::model::{
    AttributesClass, Claim, ClaimDetail, CsiSource, ModifyPhase, SecretRef, Text, Volume,
};

mod class;
mod goal;
mod marks;
mod reply;

use class::{Unusable, usable};
pub(super) use goal::targets;
use goal::{Goal, goal};
use marks::Finished;
pub use marks::Marks;

/// How often a claim that does not keep what is written is marked in one attempt.
const MARKS: u8 = 4;

/// One attempt.
pub(super) struct Modification {
    about: About,
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
    pub(super) fn new(about: &About, start: &Start) -> Self {
        Self {
            about: about.clone(),
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

    /// The next request. `claim` is what the view shows of the claim that this is about.
    pub(super) fn decide(&self, view: &View<'_>, claim: &Claim) -> Result<Request, End> {
        if let Some(announcement) = self.marks.untold(claim) {
            return Ok(self.about.announce(announcement.clone()));
        }
        let claim = claim.detail();
        match (&self.finished, &self.modified) {
            (Some(finished), _) => finished.next(claim, &self.about),
            (None, Some(target)) => self.record(view, claim, target),
            (None, None) => self.begin(view, claim),
        }
    }

    fn begin(&self, view: &View<'_>, claim: Option<&ClaimDetail>) -> Result<Request, End> {
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
                Ok(self.about.patch(ClaimWrite::CancelModify, patch))
            }
            Goal::Continue(target) => {
                if let Some(request) = self.take_over(view, claim) {
                    return Ok(request);
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
                        Ok(self.about.patch(ClaimWrite::MarkModifying, patch))
                    } else {
                        Err(End::Failed(ignored(claim)))
                    };
                }
                if let Some(request) = self.take_over(view, claim) {
                    return Ok(request);
                }
                if let Some(request) = self.announce(modifying(claim, target)) {
                    return Ok(request);
                }
                self.ask(view, claim, (volume, source), (target, class))
            }
        }
    }

    fn take_over(&self, view: &View<'_>, claim: &ClaimDetail) -> Option<Request> {
        let patch = patch::take_over_modify(claim, view.now).filter(|_| !self.marks.taken_over);
        Some(self.about.patch(ClaimWrite::TakeOver, patch?))
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
    ) -> Result<Request, End> {
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
            return Ok(self.about.patch(ClaimWrite::MarkPendingClass, patch));
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
    fn announce(&self, announcement: Announcement) -> Option<Request> {
        let told = self.announced.as_ref() == Some(&announcement);
        (!told).then(|| self.about.announce(announcement))
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
        let none = Secrets::new();
        let request = request::modify(claim, volume, class, view.settings, &none);
        *slow == wording(target, &request)
    }

    fn ask(
        &self,
        view: &View<'_>,
        claim: &ClaimDetail,
        (volume, source): (&Volume, &CsiSource),
        (target, class): (&Text, &AttributesClass),
    ) -> Result<Request, End> {
        if volume.handle.is_empty() {
            return Err(End::Failed(Failure::Modify(None, Cause::EmptyHandle)));
        }
        let secrets = match self.secrets.values(secret(volume, source)) {
            Ok(secrets) => secrets,
            Err(request) => return Ok(request),
        };
        let message = request::modify(claim, volume, class, view.settings, secrets);
        let call = controller::Call::about(message, target.clone());
        Ok(Request::Call(Call::Modify(call)))
    }

    /// What the driver did goes onto the volume, then onto the claim.
    fn record(
        &self,
        view: &View<'_>,
        claim: Option<&ClaimDetail>,
        target: &Text,
    ) -> Result<Request, End> {
        let claim = claim.ok_or(End::Done)?;
        let (volume, _) = owned(view, claim)?;
        if !self.written
            && let Some(patch) = patch::set_class(volume, target)
        {
            return Ok(request::patch_volume(
                &claim.volume,
                VolumeWrite::SetClass,
                patch,
            ));
        }
        let patch = patch::finish_modify(claim, target).ok_or(End::Done)?;
        Ok(self.about.patch(ClaimWrite::FinishModify, patch))
    }

    /// The patch of a volume whose claim has gone since the driver was asked.
    pub(super) fn for_orphan(&self, volume: &Volume) -> Option<serde_json::Value> {
        let target = self.modified.as_ref().filter(|_| !self.written)?;
        patch::set_class(volume, target)
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
