//! How an attempt that fails says so: in the content's status, then in an event.
//!
//! Taking and looking up a snapshot fail in the same way. A failed deletion is told in an event
//! alone.

use std::sync::Arc;

use sidecar::alike::alike;

use super::View;
use super::outcome::{Failure, Finality, Task};
use super::patch;
use super::request::{Announcement, ContentWrite, Request, StatusWrite};
use crate::model::{Content, Kind};

/// Why there is no group snapshot.
pub(super) const GROUP_CREATION_FAILED: &str = "GroupSnapshotCreationFailed";

/// How the attempt before failed, for what need not be said twice.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// Whether a write had no answer, or one that leaves open whether it was applied.
    unanswered: bool,
    /// The last event.
    announced: Option<Arc<str>>,
}

/// The attempt is about to end with a failure.
#[derive(Debug)]
pub(super) struct Failing {
    pub(super) failure: Failure,
    before: Before,
    /// Nothing is in doubt any more: the mark goes first.
    settled: bool,
    /// Whether the mark could not be taken away.
    stays_marked: bool,
    told: Told,
}

#[derive(Debug)]
enum Told {
    /// Not yet.
    Nothing,
    /// In the status, or that was not possible. This is next.
    InStatus(Announcement),
    /// All of it.
    All,
}

impl Failing {
    /// `uncalled`: the mark on the content is this process's, and no call followed it.
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

    /// What the next attempt is to know of it.
    pub(super) fn as_before(&self) -> Before {
        Before {
            unanswered: self.failure.is_unanswered(),
            announced: self.before.announced.clone(),
        }
    }

    /// Whether nobody else need hear of it: what the API server leaves open once is over soon.
    fn is_quiet(&self) -> bool {
        let lasts = self.before.unanswered && self.failure.is_unanswered();
        self.failure.is_quiet() && !lasts
    }

    /// Whether an event said so when the attempt before failed.
    fn is_known(&self, message: &str) -> bool {
        let before = self.before.announced.as_deref();
        before.is_some_and(|before| alike(before, message))
    }

    /// The next request if the content is to be deleted by now: the driver's last word is no event otherwise.
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

    /// Whether the mark is to go.
    pub(super) fn unmarks(&self, content: &Content) -> bool {
        self.settled && content.being_created && !self.stays_marked
    }

    /// The next request; `None` if all is said.
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
            // What is ready stays so, whatever could not be tidied up.
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

    /// The mark stays.
    pub(super) fn could_not_unmark(&mut self) {
        self.stays_marked = true;
    }

    /// The status says it, or cannot be made to.
    pub(super) fn is_in_status(&mut self, announcement: &Announcement) {
        self.told = Told::InStatus(announcement.clone());
    }

    /// The event is on its way.
    pub(super) fn is_announced(&mut self, message: &str) {
        self.told = Told::All;
        self.before.announced = Some(message.into());
    }
}
