//! Reports a failure: in the content's status, then in an event.
//!
//! Creation and look-up share this. A failed deletion is reported in an event only.

use std::sync::Arc;

use sidecar::alike::alike;

use super::View;
use super::outcome::{Failure, Finality, Task};
use super::patch;
use super::request::{Announcement, ContentWrite, Request, StatusWrite};
use crate::model::{Content, Kind};

/// Reason of the event if a group snapshot could not be created.
pub(super) const GROUP_CREATION_FAILED: &str = "GroupSnapshotCreationFailed";

/// Failure of the previous attempt, to avoid repeated reports.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// Whether the outcome of a write was unknown.
    unanswered: bool,
    /// The last event's message.
    announced: Option<Arc<str>>,
}

/// A failure that is being reported.
#[derive(Debug)]
pub(super) struct Failing {
    pub(super) failure: Failure,
    before: Before,
    /// No call has an unknown outcome any more: the mark is removed first.
    settled: bool,
    /// The mark could not be removed.
    stays_marked: bool,
    told: Told,
}

#[derive(Debug)]
enum Told {
    /// Not reported yet.
    Nothing,
    /// Written to the status, or that failed. This event is next.
    InStatus(Announcement),
    /// Fully reported.
    All,
}

impl Failing {
    /// `uncalled`: this process has marked the content, and has not called the driver since.
    pub(super) fn new(failure: Failure, uncalled: bool, before: &Before) -> Self {
        let said = failure.finality();
        let refused = matches!(said, Some(Finality::Final | Finality::Infeasible));
        Self {
            settled: refused || (uncalled && failure.is_before_the_call()),
            failure,
            before: before.clone(),
            stays_marked: false,
            told: Told::Nothing,
        }
    }

    /// The failure, for the next attempt.
    pub(super) fn as_before(&self) -> Before {
        Before {
            unanswered: self.failure.is_unanswered(),
            announced: self.before.announced.clone(),
        }
    }

    /// Whether it is not reported: an unknown outcome of one write resolves itself soon.
    fn is_quiet(&self) -> bool {
        let lasts = self.before.unanswered && self.failure.is_unanswered();
        self.failure.is_quiet() && !lasts
    }

    /// Whether the previous attempt sent an event with this message.
    fn is_known(&self, message: &str) -> bool {
        let before = self.before.announced.as_deref();
        before.is_some_and(|before| alike(before, message))
    }

    /// The event with the driver's final response, if the content is to be deleted by now; it would get no
    /// event otherwise.
    pub(super) fn last_word(&self, view: &View<'_>) -> Option<Request> {
        let said = self.failure.finality();
        let refused = matches!(said, Some(Finality::Final | Finality::Infeasible));
        let announcement = match &self.told {
            Told::InStatus(announcement) => announcement.clone(),
            Told::Nothing if refused => self.announcement(view.content),
            Told::Nothing | Told::All => return None,
        };
        let known = self.is_known(&announcement.message);
        (!known).then(|| view.announce(announcement))
    }

    /// Whether the mark has to be removed.
    pub(super) fn unmarks(&self, content: &Content) -> bool {
        self.settled && content.being_created && !self.stays_marked
    }

    /// The next request; `None` once everything is reported.
    pub(super) fn decide(&self, view: &View<'_>) -> Option<Request> {
        let content = view.content;
        if self.unmarks(content) {
            return Some(view.patch(ContentWrite::Unmark, patch::unmark(content)));
        }
        match &self.told {
            Told::All => None,
            Told::InStatus(announcement) if self.is_known(&announcement.message) => None,
            Told::InStatus(announcement) => Some(view.announce(announcement.clone())),
            Told::Nothing if self.is_quiet() => None,
            Told::Nothing if self.failure.task == Task::Delete => {
                let message = self.failure.of_deletion()?;
                let reason = match self.failure.kind {
                    Kind::Single => "SnapshotDeleteError",
                    Kind::Group => "GroupSnapshotDeleteError",
                };
                Some(view.announce(Announcement { reason, message }))
            }
            // A ready snapshot stays ready, even if the clean-up failed.
            Told::Nothing if content.is_ready() => None,
            Told::Nothing => {
                let announcement = self.announcement(content);
                let message = &announcement.message;
                let status = content.status.as_ref();
                let stored = status.and_then(|status| status.error.as_deref());
                if stored.is_some_and(|stored| alike(stored, message)) {
                    return None;
                }
                let body = patch::fail(content, message, view.now);
                Some(view.patch_status(StatusWrite::Fail(announcement), body))
            }
        }
    }

    fn announcement(&self, content: &Content) -> Announcement {
        let first = self.failure.task == Task::Create && content.status.is_none();
        let (reason, prefix) = match (self.failure.kind, first) {
            (Kind::Single, true) => ("SnapshotCreationFailed", "Failed to create snapshot"),
            (Kind::Single, false) => (
                "SnapshotContentCheckandUpdateFailed",
                "Failed to check and update snapshot content",
            ),
            (Kind::Group, true) => (GROUP_CREATION_FAILED, "Failed to create group snapshot"),
            (Kind::Group, false) => (
                "GroupSnapshotContentCheckandUpdateFailed",
                "Failed to check and update group snapshot content",
            ),
        };
        Announcement {
            reason,
            message: sidecar::visible::visible(&format!("{prefix}: {}", self.failure)).into_owned(),
        }
    }

    /// The mark could not be removed.
    pub(super) fn could_not_unmark(&mut self) {
        self.stays_marked = true;
    }

    /// The status has the error, or could not be written.
    pub(super) fn is_in_status(&mut self, announcement: &Announcement) {
        self.told = Told::InStatus(announcement.clone());
    }

    /// The event is about to be sent.
    pub(super) fn is_announced(&mut self, message: &str) {
        self.told = Told::All;
        self.before.announced = Some(message.into());
    }
}
