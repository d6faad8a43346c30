//! The writes after the driver's answer or a failure.
//!
//! This decides what the in-flight state keeps: the requests that an attempt leaves there stay in the journal, and all
//! others of the claim are settled.

use std::sync::Arc;

use super::{Announcement, Attempt, End, Failure, ProvisioningState, Reached, Step, announcement};
use crate::keys::SELECTED_NODE;
use crate::model::Claim;
use crate::plan::edit;
use crate::plan::in_flight::{Asked, Outcome};
use crate::plan::journal::Intent;
use crate::plan::pv::Unusable;
use crate::plan::request::PinnedRequest;
use crate::plan::view::View;

impl Attempt {
    /// The steps once the PersistentVolume exists.
    pub(super) fn conclude(&self, view: &View<'_>, end: End) -> Step {
        if end == End::Provisioned
            && let Some(prepared) = &self.pinned
        {
            if !view.gone && !self.settling && !self.concluded.announced {
                let succeeded = Announcement::Succeeded(prepared.name.clone());
                return announcement(view, succeeded);
            }
            if let (Some(name), false) = (&prepared.release, self.concluded.released) {
                let namespace = &prepared.pv_template.claim.namespace;
                return Step::Ask(edit::release_snapshot(namespace, name));
            }
        }
        Step::Done(end)
    }

    /// The steps after a failure: where the node is the reason, the update that removes the selected node.
    pub(super) fn give_up(&self, view: &View<'_>, failure: &Failure) -> Step {
        let selected = view.claim.annotations.get(SELECTED_NODE).is_some();
        let needed = !view.gone && !self.settling;
        let moves = failure.state() == ProvisioningState::Reschedule && selected && needed;
        if moves && !self.concluded.unselected {
            Step::Ask(edit::unselect(view.claim, failure))
        } else {
            Step::Fail(failure.clone())
        }
    }

    pub(super) fn tried_to_unselect(&mut self, failure: Failure, unselected: bool) {
        self.concluded.unselected = true;
        // The checks before a call read the annotation that the update has changed.
        self.reached = Reached::Failed(failure);
        self.unselected = unselected;
    }

    /// The consequence of `failure`, with which this attempt ended.
    #[must_use]
    pub fn state(&self, failure: &Failure) -> ProvisioningState {
        match failure.state() {
            ProvisioningState::Finished
            | ProvisioningState::Infeasible
            | ProvisioningState::Reschedule
                if self.pinned.is_some() && !self.called =>
            {
                // The outcome of an earlier call is as unknown as before.
                ProvisioningState::NoChange
            }
            // Without another node, the attempt is retried on this one.
            ProvisioningState::Reschedule if !self.unselected => ProvisioningState::Finished,
            state @ (ProvisioningState::Finished
            | ProvisioningState::Infeasible
            | ProvisioningState::InBackground
            | ProvisioningState::NoChange
            | ProvisioningState::Reschedule) => state,
        }
    }

    /// The state to keep after this attempt: the outcome of its last request, and the other unsettled requests.
    #[must_use]
    pub fn outcome(
        &self,
        over: Result<End, &Failure>,
    ) -> (Outcome<PinnedRequest>, Vec<Arc<PinnedRequest>>) {
        let mut unsettled = self.unsettled.clone();
        let failure = match over {
            Ok(end) => {
                unsettled.extend(self.pinned.clone().filter(|_| end == End::LeftUnsettled));
                return (Outcome::Over, unsettled);
            }
            Err(failure) => failure,
        };
        let outcome = match (self.state(failure), &self.pinned) {
            (ProvisioningState::NoChange, Some(prepared))
                if (self.settling || self.was_unsettled) && self.unsaved.is_none() =>
            {
                // A request that cannot be sent now must not block the other unsettled ones or today's.
                unsettled.push(Arc::clone(prepared));
                Outcome::Final { infeasible: None }
            }
            (ProvisioningState::NoChange, _) | (ProvisioningState::InBackground, None) => {
                Outcome::Unchanged
            }
            (ProvisioningState::InBackground, Some(prepared)) => match (&self.unsaved, failure) {
                (
                    Some(unsaved),
                    Failure::Save(_)
                    | Failure::Contradicted { .. }
                    | Failure::Orphan(Unusable::Unrecorded { .. }, _),
                ) => Outcome::Unsaved(Arc::clone(prepared), unsaved.clone()),
                // The other unsettled requests have their turn first.
                (None, _) if self.settling => Outcome::Unsettled(Arc::clone(prepared)),
                (Some(_) | None, _) => Outcome::Unknown(Arc::clone(prepared)),
            },
            (state, Some(prepared)) => {
                let class_uid = prepared.class_uid.as_str();
                let infeasible =
                    state == ProvisioningState::Infeasible && !self.settling && !self.was_unsettled;
                let name_in_use =
                    failure.is_name_in_use() && !self.settling && !unsettled.is_empty();
                let name_in_use = name_in_use && !self.was_unsettled;
                // The existing volume of the name comes from an earlier call for this claim.
                let first = name_in_use.then(|| unsettled.remove(0));
                let mut sent_earlier = self.sent_earlier.iter();
                let sent_earlier = sent_earlier.any(|before| before.asks_the_same(prepared));
                if self.outcome_unknown && !failure.settles_outcome(prepared, sent_earlier) {
                    unsettled.push(Arc::clone(prepared));
                }
                match first {
                    Some(first) => Outcome::RepeatUnsettled(first),
                    None => Outcome::Final {
                        infeasible: infeasible.then(|| class_uid.into()),
                    },
                }
            }
            (
                ProvisioningState::Finished
                | ProvisioningState::Infeasible
                | ProvisioningState::Reschedule,
                None,
            ) => Outcome::Final { infeasible: None },
        };
        (outcome, unsettled)
    }

    /// The content of the journal while `prepared` is sent for `claim`.
    #[must_use]
    pub fn intent(&self, claim: &Claim, prepared: &Arc<PinnedRequest>) -> Intent {
        let others = self
            .unsettled
            .iter()
            .filter(|other| !other.asks_the_same(prepared));
        let mut unsettled: Vec<_> = others.cloned().collect();
        let mut asked = Some(Arc::clone(prepared));
        if self.settling {
            unsettled.extend(asked.take());
        }
        Intent::with_unsettled(claim, asked, unsettled)
    }
}
