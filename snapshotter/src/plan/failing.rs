//! Reports a failure: in the content's status, then in an event.
//!
//! Creation and look-up share this. A failed deletion is reported in an event only.

use sidecar::alike::alike;
use sidecar::controller::script;
use sidecar::visible::visible;

use super::ask::Ask;
use super::attempt::{End, Flow};
use super::outcome::{Failure, Task};
use super::patch;
use super::request::{Announcement, ContentWrite, Purpose, StatusWrite};
use crate::model::{Content, Kind};

/// Reason of the event if a group snapshot could not be created.
pub(super) const GROUP_CREATION_FAILED: &str = "GroupSnapshotCreationFailed";

/// A failure that is being reported.
pub(super) struct Failing {
    pub(super) failure: Failure,
    /// No call has an unknown outcome any more: the mark is removed first.
    settled: bool,
}

impl Failing {
    /// `uncalled`: this process has marked the content, and has not called the driver since.
    pub(super) fn new(failure: Failure, uncalled: bool) -> Self {
        let settled = failure.is_final() || (uncalled && failure.is_before_the_call());
        Self { failure, settled }
    }
}

/// Reports the failure, as far as it is not known yet.
pub(super) fn report(ask: Ask<'_>, failing: &Failing) -> Flow<()> {
    let (view, content, failure) = (ask.view, ask.view.content, &failing.failure);
    if failing.settled {
        unmark(ask, failure)?;
    }
    if let Some(announcement) = in_status(ask) {
        return announce_once(ask, announcement.clone());
    }
    let lasts = ask.attempt.start.before.unanswered && failure.is_unanswered();
    if failure.is_quiet() && !lasts {
        return Ok(());
    }
    if failure.task == Task::Delete {
        let announcement = of_deletion(failure);
        return announcement.map_or(Ok(()), |announcement| ask.announce(announcement));
    }
    let announcement = announcement(failure, content);
    let status = content.status.as_ref();
    let stored = status.and_then(|status| status.error.as_deref());
    let known = stored.is_some_and(|stored| alike(stored, &announcement.message));
    // A ready snapshot stays ready, even if the clean-up failed.
    if known || content.is_ready() {
        return Ok(());
    }
    let body = patch::fail(content, &announcement.message, view.now);
    let write = view.patch_status(StatusWrite::Fail(announcement), body);
    script::write(Some(write))
}

/// The event with the driver's final response, if the content is to be deleted by now; it would get no
/// event otherwise.
pub(super) fn last_word(ask: Ask<'_>, failing: &Failing) -> Flow<()> {
    let failure = &failing.failure;
    match in_status(ask) {
        Some(announcement) => announce_once(ask, announcement.clone()),
        None if failure.is_final() => announce_once(ask, announcement(failure, ask.view.content)),
        None => Ok(()),
    }
}

/// Removes the mark, unless that was tried in vain.
fn unmark(ask: Ask<'_>, failure: &Failure) -> Flow<()> {
    let content = ask.view.content;
    let written = ask.log().written(&Purpose::Content(ContentWrite::Unmark));
    let due = content.being_created && written.is_none_or(|result| result.is_ok());
    let body = due.then(|| patch::unmark(content));
    let write = body.map(|body| ask.view.patch(ContentWrite::Unmark, body));
    let fails = || End::Failed(Box::new(failure.clone()));
    ask.log().mark(write, 1, fails)
}

/// What the attempt has written to the status, or failed to write.
fn in_status(ask: Ask<'_>) -> Option<&Announcement> {
    let mut writes = ask.log().writes();
    writes.find_map(|(write, _)| match &write.purpose {
        Purpose::Status(StatusWrite::Fail(announcement)) => Some(announcement),
        Purpose::Content(_) | Purpose::Status(StatusWrite::Report(_) | StatusWrite::Clear) => None,
    })
}

/// Sends an event, unless this attempt or the previous one has sent one with its message.
fn announce_once(ask: Ask<'_>, announcement: Announcement) -> Flow<()> {
    let before = ask.attempt.start.before.announced.as_deref();
    if before.is_some_and(|before| alike(before, &announcement.message)) {
        return Ok(());
    }
    ask.announce(announcement)
}

fn of_deletion(failure: &Failure) -> Option<Announcement> {
    let reason = match failure.kind {
        Kind::Single => "SnapshotDeleteError",
        Kind::Group => "GroupSnapshotDeleteError",
    };
    let message = failure.of_deletion()?.into();
    Some(Announcement { reason, message })
}

fn announcement(failure: &Failure, content: &Content) -> Announcement {
    let first = failure.task == Task::Create && content.status.is_none();
    let (reason, prefix) = match (failure.kind, first) {
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
        message: visible(&format!("{prefix}: {failure}")).into(),
    }
}
