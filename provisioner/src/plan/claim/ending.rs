//! What is written when the driver has answered, or cannot be asked.
//!
//! Separate from the way there, because here it is decided what is remembered: a doubt must be on
//! the claim before the process forgets it, and must not stay there once it is settled.

use std::sync::Arc;

use super::{Announcement, Answer, Attempt, Effect, End, Failure, Reached, Step};
use crate::keys::{DOUBT_FINALIZER, SELECTED_NODE};
use crate::plan::edit::Edit;
use crate::plan::memory::Outcome;
use crate::plan::request::Prepared;
use crate::plan::settings::Protection;
use crate::plan::view::View;

impl Attempt {
    /// The steps after the PersistentVolume is there.
    pub(super) fn conclude(&self, view: &View<'_>, end: End) -> Step {
        if end == End::Provisioned
            && let Some(prepared) = &self.frozen
        {
            if !view.gone && !self.concluded.announced {
                return Step::Announce(Announcement::Succeeded(prepared.name.clone()));
            }
            if let (Some(name), false) = (&prepared.release, self.concluded.released) {
                let namespace = &prepared.blueprint.claim.namespace;
                return Step::ReleaseSource(Edit::release_snapshot(namespace, name));
            }
        }
        if self.is_guarded(view) && !self.concluded.settled {
            let edit = Edit::of_claim(view.claim).unguard();
            return Step::Settle(edit, None);
        }
        match &self.refused {
            Some(error) => Step::Fail(Failure::Unguard(error.clone())),
            None => Step::Done(end),
        }
    }

    /// The steps after a failure.
    pub(super) fn give_up(&self, view: &View<'_>, failure: &Failure) -> Step {
        let step = match failure.effect() {
            Effect::NoChange => None,
            Effect::InBackground if view.settings.protection == Protection::Off => None,
            Effect::InBackground => {
                let prepared = self.frozen.as_ref();
                prepared.and_then(|prepared| self.guard(view, prepared))
            }
            Effect::Finished | Effect::Infeasible | Effect::Reschedule => {
                self.settle(view, failure)
            }
        };
        step.unwrap_or_else(|| Step::Fail(failure.clone()))
    }

    /// The one update that says that the driver works on nothing any more, and on which node it is
    /// not to be tried again.
    fn settle(&self, view: &View<'_>, failure: &Failure) -> Option<Step> {
        if self.concluded.settled || view.gone {
            return None;
        }
        let mut edit = Edit::of_claim(view.claim);
        // Before the call, a record is still all that is known.
        if self.called && self.is_guarded(view) {
            edit = edit.unguard();
        }
        let selected = view.claim.annotations.get(SELECTED_NODE).is_some();
        if failure.effect() == Effect::Reschedule && selected {
            edit = edit.unselect();
        }
        (!edit.is_empty()).then(|| Step::Settle(edit, Some(failure.clone())))
    }

    pub(super) fn settled(&mut self, edit: &Edit, failure: Option<&Failure>, answer: Answer) {
        self.concluded.settled = true;
        // What comes before a call is decided on what the update has changed.
        if let Some(failure) = failure {
            self.reached = Reached::Failed(failure.clone());
        }
        let there = !matches!(answer, Answer::Refused(_));
        match answer {
            Answer::Refused(error) if !error.is_not_found() => self.refused = Some(error),
            // A claim that is gone carries no record, and is not looked at again at once.
            Answer::Refused(_)
            | Answer::Done
            | Answer::Snapshot(_)
            | Answer::Content(_)
            | Answer::SourceClaim(_)
            | Answer::SourceVolume(_)
            | Answer::AttributesClass(_)
            | Answer::Secret(_)
            | Answer::SecretNotText
            | Answer::Created(_)
            | Answer::Failed(_)
            | Answer::Unsent(_) => {
                if edit.remove_finalizers.contains(&DOUBT_FINALIZER) {
                    self.guarded = Some(false);
                }
                self.unselected |= there && edit.unannotate.contains(&SELECTED_NODE);
            }
        }
    }

    /// What `failure`, with which this attempt ended, says about the volume.
    #[must_use]
    pub fn effect(&self, failure: &Failure) -> Effect {
        match failure.effect() {
            Effect::Finished | Effect::Infeasible | Effect::Reschedule
                if self.frozen.is_some() && !self.called =>
            {
                // An earlier call is as much in doubt as it was.
                Effect::NoChange
            }
            // Without another node it is tried again on this one.
            Effect::Reschedule if !self.unselected => Effect::Finished,
            effect @ (Effect::Finished
            | Effect::Infeasible
            | Effect::InBackground
            | Effect::NoChange
            | Effect::Reschedule) => effect,
        }
    }

    /// What is to be remembered of this attempt; `failure` is `None` where it did not fail.
    #[must_use]
    pub fn outcome(&self, failure: Option<&Failure>) -> Outcome<Prepared> {
        let Some(failure) = failure else {
            return Outcome::Over;
        };
        match (self.effect(failure), &self.frozen) {
            (Effect::NoChange, _) | (Effect::InBackground, None) => Outcome::Unchanged,
            (Effect::InBackground, Some(prepared)) => match (&self.unsaved, failure) {
                (Some(unsaved), Failure::Save(_)) => {
                    Outcome::Unsaved(Arc::clone(prepared), unsaved.clone())
                }
                (Some(_) | None, _) => Outcome::InDoubt(Arc::clone(prepared)),
            },
            (Effect::Infeasible, Some(prepared)) => Outcome::Final {
                infeasible: Some(prepared.class_uid.as_str().into()),
            },
            (Effect::Infeasible, None) | (Effect::Finished | Effect::Reschedule, _) => {
                Outcome::Final { infeasible: None }
            }
        }
    }

    /// Why a doubt with which this attempt ended is in this process's memory only; `None` if it is
    /// on the claim, or is to be nowhere else.
    #[must_use]
    pub fn unrecorded(&self, view: &View<'_>, failure: &Failure) -> Option<String> {
        let doubtful = self.effect(failure) == Effect::InBackground;
        if !doubtful || view.settings.protection == Protection::Off || self.is_guarded(view) {
            return None;
        }
        Some(match &self.refused {
            Some(error) => error.to_string(),
            None if view.gone => "the claim is gone".to_owned(),
            None => "the claim is being deleted, and takes no new finalizers".to_owned(),
        })
    }
}
