//! What is remembered of a claim's modification, and how it is brought to an end.

use crate::keys::MODIFYING_VOLUME;
use crate::model::{Claim, ClaimDetail, Text};
use crate::plan::attempt::End;
use crate::plan::request::{About, Announcement, Request};

/// What is remembered of a claim's modification from attempt to attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The driver certainly does not work on the target in the claim's status. Lost with the process,
    /// so that after a restart it is in doubt.
    pub settled: bool,
    /// No patch that may still be on its way fits the claim: this process has written it since.
    pub taken_over: bool,
    /// No answer came to the patch that says what the driver has applied.
    pub unconfirmed: Option<Unconfirmed>,
}

/// The driver has modified the volume, and nobody knows whether the claim says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unconfirmed {
    target: Text,
    announcement: Announcement,
}

impl Unconfirmed {
    pub(super) fn new(claim: &str, target: &Text) -> Self {
        Self {
            target: target.clone(),
            announcement: modified(claim, target),
        }
    }
}

impl Marks {
    /// The event that is left to be told of a modification whose last patch was applied after all.
    pub(super) fn untold(&self, claim: &Claim) -> Option<&Announcement> {
        let left = self.unconfirmed.as_ref()?;
        let done = claim
            .detail()
            .is_none_or(|claim| claim.modify.is_none() && claim.current_class == left.target);
        done.then_some(&left.announcement)
    }

    /// Whether `announcement` is what was left to be told.
    pub(super) fn told(&mut self, announcement: &Announcement) -> bool {
        let left = self.unconfirmed.as_ref();
        let told = left.is_some_and(|left| left.announcement == *announcement);
        if told {
            self.unconfirmed = None;
        }
        told
    }
}

/// The claim is written.
pub(super) struct Finished {
    /// What is left to be told.
    pub(super) left: Option<Announcement>,
}

impl Finished {
    pub(super) fn next(&self, claim: Option<&ClaimDetail>, about: &About) -> Result<Request, End> {
        if let Some(announcement) = &self.left {
            return Ok(about.announce(announcement.clone()));
        }
        // A claim that took its wish back may have the condition no longer, and that is all.
        let more = claim
            .is_some_and(|claim| claim.wants_change() && !claim.has_condition(MODIFYING_VOLUME));
        Err(if more { End::Again } else { End::Done })
    }
}

pub(super) fn modified(claim: &str, target: &Text) -> Announcement {
    Announcement {
        warning: false,
        reason: "VolumeModifySuccessful",
        message: format!("external resizer modified volume {claim} with vac {target} successfully"),
    }
}

pub(super) fn canceled() -> Announcement {
    Announcement {
        warning: false,
        reason: "VolumeModifyCanceled",
        message: "Cancelled modify.".to_owned(),
    }
}
