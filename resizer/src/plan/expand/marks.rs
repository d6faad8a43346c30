//! What is remembered of a claim's expansion, and how it is brought to an end.

use crate::model::{Claim, Quantity};
use crate::plan::attempt::End;
use crate::plan::outcome::{Cause, Failure};
use crate::plan::request::{About, Announcement, ClaimWrite, Request};
use crate::plan::view::View;

/// What is remembered of a claim's expansion from attempt to attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Nothing is in doubt: the driver's last word was a final error, or it was not asked for what
    /// the claim says. Lost with the process, so that after a restart what was asked last is in
    /// doubt.
    pub settled: bool,
    /// No patch that may still be on its way fits the claim: this process has written it since.
    pub taken_over: bool,
    /// The driver's last word was that the volume must not be in use.
    pub in_use: bool,
    /// No answer came to the patch that says what the driver has done.
    pub unconfirmed: Option<Unconfirmed>,
}

/// The driver has expanded the volume, and nobody knows whether the claim says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unconfirmed {
    /// What the claim has then; none if the node is next.
    capacity: Option<Quantity>,
    /// What is to be told, last first.
    left: Vec<Announcement>,
}

impl Unconfirmed {
    /// `write` was sent of a volume that is so large now.
    pub(super) fn new(write: ClaimWrite, grown: Option<Quantity>, left: Vec<Announcement>) -> Self {
        Self {
            capacity: grown.filter(|_| write == ClaimWrite::FinishResize),
            left,
        }
    }

    fn is_on(&self, claim: &Claim) -> bool {
        match self.capacity {
            Some(capacity) => claim.capacity().is_some_and(|held| held >= capacity),
            None => claim
                .detail()
                .is_some_and(|claim| claim.is_file_system_pending()),
        }
    }
}

impl Marks {
    /// The next event that is left to be told of an expansion whose last patch was applied after
    /// all.
    pub(super) fn untold(&self, claim: &Claim) -> Option<&Announcement> {
        let left = self.unconfirmed.as_ref()?;
        left.left.last().filter(|_| left.is_on(claim))
    }

    /// Whether `announcement` is one that was left to be told.
    pub(super) fn told(&mut self, announcement: &Announcement) -> bool {
        let Some(left) = &mut self.unconfirmed else {
            return false;
        };
        let told = left.left.last() == Some(announcement);
        if told {
            left.left.pop();
        }
        if left.left.is_empty() {
            self.unconfirmed = None;
        }
        told
    }
}

/// The claim is written.
pub(super) struct Finished {
    /// What is left to be told, last first.
    pub(super) left: Vec<Announcement>,
    /// Whether more may be due at once; otherwise the node is next.
    pub(super) again: bool,
    /// The driver gave less than it was asked for.
    pub(super) short: Option<Cause>,
}

impl Finished {
    pub(super) fn next(
        &self,
        view: &View<'_>,
        claim: &Claim,
        about: &About,
    ) -> Result<Request, End> {
        if let Some(announcement) = self.left.last() {
            return Ok(about.announce(announcement.clone()));
        }
        let more = claim.detail().filter(|claim| claim.wants_growth());
        Err(match (more, &self.short) {
            (Some(claim), Some(cause)) => {
                let driver = view.driver.name.clone();
                End::Failed(Failure::Expand(claim.volume.clone(), driver, cause.clone()))
            }
            (Some(_), None) if self.again => End::Again,
            (Some(_), None) | (None, _) => End::Done,
        })
    }
}
