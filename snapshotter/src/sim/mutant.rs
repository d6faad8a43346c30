//! Faulty snapshotters. Each breaks one rule; a simulation that misses one proves nothing.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "mutants differ from the real thing in one point"
)]

mod hears;

use std::sync::Arc;

use serde_json::Value;
use sidecar::controller::request::{Body, Patch};
use sidecar::snapshot::YES;

use super::world::Faults;
use crate::model::{Class, Content, Policy, Text};
use crate::plan::patch;
use crate::plan::reactor::{Change, Retry};
use crate::plan::request::{self, Call, ContentWrite, Purpose, Request, StatusWrite};
use crate::testing::DRIVER;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    /// The snapshotter that ships.
    None,
    /// Deletes as soon as the content is being deleted, even if its VolumeSnapshot is not.
    DeletesOnDeletionAlone,
    /// Calls CreateSnapshot without a mark on the content.
    ForgetsMark,
    /// Calls CreateSnapshot for a content without a finalizer.
    ForgetsProtection,
    /// Releases a content while a call's outcome is unknown.
    DeletesInDoubt,
    /// Ignores the deletion policy.
    DeletesRetained,
    /// Works for other drivers.
    TakesForeign,
    /// Polls snapshots that nobody wants to become ready.
    PollsWhatIsKept,
    /// Removes the mark before the handle is stored.
    UnmarksFirst,
    /// Releases the content before the snapshot is deleted.
    ReleasesFirst,
    /// Clears the handle before the snapshot is deleted.
    ClearsFirst,
    /// Patches contents of any version.
    PatchesAnyVersion,
    /// Releases a content along with all other holders.
    ReleasesForOthers,
    /// Requests each snapshot under a new name.
    NamesAnew,
    /// Calls without a Secret that it could not read.
    AsksWithoutSecret,
    /// Takes an expired deadline for success.
    BelievesTimeout,
    /// Takes an expired deadline for a final error.
    TakesTimeoutForFinal,
    /// Takes `ResourceExhausted` and the like for a final error.
    TakesUnavailableForFinal,
    /// Takes an unreachable driver for a refusal.
    TakesUnsentForFinal,
    /// Takes every result of a deletion for success.
    BelievesDeleted,
    /// Reports a cut snapshot as ready.
    TakesCutForReady,
    /// Takes the first entry of a list for the right one.
    TakesFirstEntry,
    /// Accepts an entry of a list only if its handle is spelled as requested.
    TakesOnlyEqual,
    /// Takes any snapshot in an answer for the one on record.
    TakesOther,
    /// Takes an existing snapshot for a group's member because of a copied annotation.
    TakesCopies,
    /// Does not retry failures.
    ForgetsRetries,
    /// Does not poll snapshots that are not ready.
    ForgetsUnready,
    /// Retries without back-off.
    RetriesAtOnce,
    /// Forgets that the driver called a request impossible.
    ForgetsImpossible,
    /// Ignores its own writes until the watch shows them.
    ForgetsOwnWrites,
    /// Misses changes of contents.
    OverhearsContents,
    /// Never removes the mark.
    LeavesMark,
    /// Calls the driver after its lease expired.
    AsksWithoutLease,
    /// Relies on marks that an older patch under way may remove.
    TakesNothingOver,
    /// Does not check again when a class passes to its driver.
    ForgetsForeignClasses,
    /// Ignores the topology of a snapshot.
    OverhearsTopology,
    /// Does not record the members of a group.
    ForgetsMembers,
    /// Overwrites the recorded members of a group.
    ResetsMembers,
    /// Deletes a group without listing its members.
    NamesNoMembers,
    /// Invents the missing parts of an answer about a group.
    CompletesAnswers,
    /// Clears the members of a group along with its handle, before the deletion is over.
    ClearsMembers,
}

/// A mutant, the faults under which it must be caught, and the violation.
pub(super) type Caught = (Mutant, Faults, &'static str);

impl Mutant {
    /// Mutants that only groups can reveal.
    pub(super) const CAUGHT_WITH_GROUPS: [Caught; 5] = [
        (Self::ForgetsMembers, Faults::None, "without its members"),
        (Self::ResetsMembers, Faults::All, "another member"),
        (Self::NamesNoMembers, Faults::None, "without its members"),
        (Self::ClearsMembers, Faults::None, "another member"),
        (Self::CompletesAnswers, Faults::All, "without its members"),
    ];

    /// Mutants that only single snapshots can reveal.
    pub(super) const CAUGHT_ALONE: [Caught; 4] = [
        (Self::TakesOnlyEqual, Faults::All, "snapcontent-"),
        (Self::TakesOther, Faults::All, "called ready, and gone"),
        (Self::TakesFirstEntry, Faults::None, "another size"),
        (
            Self::OverhearsTopology,
            Faults::None,
            "without its topology",
        ),
    ];

    /// All other mutants.
    pub(super) const CAUGHT_BY: [Caught; 31] = [
        (Self::TakesCopies, Faults::None, "is left behind"),
        (
            Self::DeletesOnDeletionAlone,
            Faults::None,
            "nobody asked for",
        ),
        (Self::ForgetsMark, Faults::None, "not marked"),
        (Self::ForgetsProtection, Faults::None, "not protected"),
        (Self::DeletesInDoubt, Faults::All, "is nobody's"),
        (Self::DeletesRetained, Faults::None, "what is retained"),
        (Self::TakesForeign, Faults::None, "another driver"),
        (Self::PollsWhatIsKept, Faults::None, "nobody wants"),
        (Self::UnmarksFirst, Faults::None, "is nobody's"),
        (Self::ReleasesFirst, Faults::None, "is nobody's"),
        (Self::ClearsFirst, Faults::None, "cleared before"),
        (Self::PatchesAnyVersion, Faults::Crashes, "x/y is lost"),
        (Self::ReleasesForOthers, Faults::None, "x/y is lost"),
        (Self::NamesAnew, Faults::None, "another name"),
        (Self::AsksWithoutSecret, Faults::All, "without its Secret"),
        (Self::BelievesTimeout, Faults::All, "an unknown handle"),
        (Self::TakesTimeoutForFinal, Faults::All, "is nobody's"),
        (Self::TakesUnavailableForFinal, Faults::All, "is nobody's"),
        (Self::TakesUnsentForFinal, Faults::All, "is nobody's"),
        (Self::BelievesDeleted, Faults::All, "cleared before"),
        (Self::TakesCutForReady, Faults::None, "ready too early"),
        (Self::ForgetsRetries, Faults::All, "snapcontent-"),
        (Self::ForgetsUnready, Faults::None, "is not ready"),
        (Self::RetriesAtOnce, Faults::Lasting, "requests at once"),
        (Self::ForgetsImpossible, Faults::Lasting, "too soon"),
        (Self::ForgetsOwnWrites, Faults::None, "snapcontent-"),
        (Self::OverhearsContents, Faults::None, "snapcontent-"),
        (Self::LeavesMark, Faults::None, "snapcontent-"),
        (Self::AsksWithoutLease, Faults::Crashes, "is nobody's"),
        (Self::TakesNothingOver, Faults::All, "is nobody's"),
        (Self::ForgetsForeignClasses, Faults::All, "snapcontent-"),
    ];

    /// The content as the mutant sees it.
    pub(super) fn sees(self, content: Arc<Content>) -> Arc<Content> {
        let mut seen = Content::clone(&content);
        match self {
            Self::DeletesOnDeletionAlone if seen.deleting => seen.being_deleted = true,
            Self::ForgetsMark => seen.being_created = true,
            Self::ForgetsProtection if !seen.deleting => {
                seen.finalizers = [seen.kind().finalizer().into()].into();
            }
            Self::DeletesInDoubt if seen.deleting => seen.being_created = false,
            // A member is deleted along with its group.
            Self::TakesCopies if seen.member && seen.deleting => seen.policy = Policy::Retain,
            Self::DeletesRetained => seen.policy = Policy::Delete,
            Self::TakesForeign => seen.driver = DRIVER.into(),
            Self::PollsWhatIsKept if seen.policy == Policy::Retain && !seen.deleting => {
                seen.being_deleted = false;
            }
            Self::ReleasesForOthers => {
                let finalizer = seen.kind().finalizer();
                let ours = seen.finalizers.iter().filter(|held| ***held == *finalizer);
                seen.finalizers = ours.cloned().collect();
            }
            _ => return content,
        }
        Arc::new(seen)
    }

    /// The class as the mutant sees it.
    pub(super) fn sees_class(self, class: Arc<Class>) -> Arc<Class> {
        match self {
            Self::TakesForeign => Arc::new(Class {
                driver: DRIVER.into(),
                ..Class::clone(&class)
            }),
            _ => class,
        }
    }

    /// The mutant's request in place of the right one.
    pub(super) fn decides(
        self,
        request: Request,
        name: &Text,
        content: Option<&Content>,
    ) -> Request {
        let Some(content) = content.filter(|_| self != Self::None) else {
            return request;
        };
        let write = |purpose, body| Request::Write(request::patch(name, purpose, body));
        match (self, request) {
            (Self::ReleasesFirst, Request::Call(Call::Delete(_) | Call::DeleteGroup(_)))
                if content.is_protected() =>
            {
                let purpose = Purpose::Content(ContentWrite::Release);
                write(purpose, patch::release(content))
            }
            (
                Self::ClearsFirst,
                request @ Request::Call(Call::Delete(_) | Call::DeleteGroup(_)),
            ) => match patch::clear(content) {
                Some(body) => write(Purpose::Status(StatusWrite::Clear), body),
                None => request,
            },
            (Self::NamesAnew, Request::Call(Call::Create(mut call))) => {
                call.name = format!("{}-{}", call.name, content.version);
                Request::Call(Call::Create(call))
            }
            (Self::NamesAnew, Request::Call(Call::CreateGroup(mut call))) => {
                call.name = format!("{}-{}", call.name, content.version);
                Request::Call(Call::CreateGroup(call))
            }
            (Self::NamesNoMembers, Request::Call(Call::DeleteGroup(mut call))) => {
                call.snapshot_ids.clear();
                Request::Call(Call::DeleteGroup(call))
            }
            (Self::UnmarksFirst, Request::Write(asked))
                if matches!(asked.purpose, Purpose::Status(StatusWrite::Report(_)))
                    && content.being_created =>
            {
                let purpose = Purpose::Content(ContentWrite::Unmark);
                write(purpose, patch::unmark(content))
            }
            (Self::LeavesMark, Request::Write(asked))
                if asked.purpose == Purpose::Content(ContentWrite::Unmark) =>
            {
                Request::Get(name.clone())
            }
            (_, Request::Write(mut asked)) => {
                if let Body::Patch(_, Patch::Merge(body)) = &mut asked.body {
                    self.writes(&asked.purpose, body, content);
                }
                Request::Write(asked)
            }
            (_, request) => request,
        }
    }

    /// Changes a patch as the mutant would write it.
    fn writes(self, purpose: &Purpose, body: &mut Value, content: &Content) {
        match (self, purpose) {
            (Self::PatchesAnyVersion, Purpose::Content(_)) => {
                let metadata = body["metadata"].as_object_mut();
                metadata.unwrap().remove("resourceVersion");
            }
            (Self::ForgetsMark, Purpose::Content(ContentWrite::Mark)) => {
                let metadata = body["metadata"].as_object_mut();
                metadata.unwrap().remove("annotations");
            }
            (Self::TakesNothingOver, Purpose::Content(ContentWrite::Mark))
                if content.being_created =>
            {
                let value = if content.marked_again {
                    patch::AGAIN
                } else {
                    YES
                };
                body["metadata"]["annotations"][content.kind().being_created()] = value.into();
            }
            (Self::ForgetsMembers, Purpose::Status(_)) => {
                let status = body["status"].as_object_mut().unwrap();
                status.remove("volumeSnapshotInfoList");
            }
            (Self::ResetsMembers, Purpose::Status(StatusWrite::Report(_)))
                if content.handle().is_some() =>
            {
                if let Some(list) = body["status"].get_mut("volumeSnapshotInfoList") {
                    list.as_array_mut().unwrap().reverse();
                }
            }
            (Self::ClearsMembers, Purpose::Status(StatusWrite::Clear)) => {
                body["status"]["volumeSnapshotInfoList"] = Value::Array(Vec::new());
            }
            _ => {}
        }
    }

    /// Whether the mutant notices a change.
    pub(super) fn is_told(self, change: &Change<'_>) -> bool {
        match (self, change) {
            (Self::OverhearsContents, Change::Content { old, .. }) => old.is_none(),
            (Self::ForgetsForeignClasses, Change::Class { .. }) => false,
            _ => true,
        }
    }

    /// Whether the mutant retries.
    pub(super) fn retries(self, retry: &Retry) -> bool {
        match self {
            Self::ForgetsRetries => !matches!(retry, Retry::Failed(_)),
            Self::ForgetsUnready => *retry != Retry::NotReady,
            _ => true,
        }
    }
}
