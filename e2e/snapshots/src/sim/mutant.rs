//! Faulty versions of the two programs. Each breaks one rule; a simulation that misses one proves
//! nothing.
//!
//! They wrap the reactors as shipped and change their input or their requests.
//!
//! | file | mutants |
//! |---|---|
//! | `controller` | those of the snapshot-controller |
//! | `group` | those that only groups can reveal |

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each mutant differs in one point"
)]

mod controller;
mod group;

use std::sync::Arc;

use sidecar::controller::CallError;
use sidecar::controller::request::{Body, Patch};
use sidecar::snapshot::CONTENT_BOUND;
use sidecar::text::Text;
use snapshotter::model::{Content, Kind, Policy};
use snapshotter::plan::patch;
use snapshotter::plan::request::{
    self, Call, Called, ContentWrite, Purpose, Reply, Request, StatusWrite,
};
use tonic::Code;

use super::world::Faults;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    /// The programs as shipped.
    None,
    // --- snapshot-controller
    /// Deletes contents despite their policy.
    IgnoresPolicy,
    /// Deletes a content of any version.
    DeletesAnything,
    /// Does not mark contents whose VolumeSnapshot is being deleted.
    ForgetsToAnnounce,
    /// Marks and deletes contents while their VolumeSnapshot exists.
    DeletesForTheLiving,
    /// Reports a VolumeSnapshot as ready as soon as it has a content.
    CallsReadyEarly,
    /// Does not read a content from the server that the cache lacks.
    TrustsTheCache,
    /// Misses changes of contents.
    ControllerOverhearsContents,
    /// Does not retry.
    ControllerForgetsRetries,
    /// Removes the finalizers of others.
    FreesForOthers,
    /// Creates contents without a finalizer, as upstream does.
    PostsWithoutFinalizer,
    /// Adds no finalizer to contents that an administrator made.
    LeavesContentsBare,
    /// Takes a lost snapshot a second time.
    TakesAnew,
    /// Does not look at a claim whose last VolumeSnapshot is gone.
    ForgetsClaims,
    /// Forgets the cause of a failure: changes of classes and volumes do not wake it.
    ForgetsTriggers,
    /// Misses the deletion of a VolumeSnapshot, and keeps its state.
    RemembersWhatIsGone,
    /// Replaces finalizers of any version.
    PatchesAnything,
    /// Warns users of conflicts.
    TellsOfConflicts,
    /// Ignores that claims are being restored.
    IgnoresRestores,
    /// Lets several attempts write to one claim at once.
    WritesAtOnce,
    /// Keeps a claim protected for a VolumeSnapshot that was not begun.
    CountsWhatNeverBegan,
    /// Keeps a claim protected for a VolumeSnapshot that lost its content.
    CountsWhatIsLost,
    /// Finds contents only by the names that it gives them, as upstream does.
    ForgetsWhatIsBound,
    /// Treats each claim of another namespace as permitted to restore.
    WaitsForStrangers,
    // --- csi-snapshotter
    /// Deletes as soon as the content is being deleted, even if its VolumeSnapshot is not.
    DeletesOnDeletionAlone,
    /// Calls CreateSnapshot without a mark on the content.
    ForgetsMark,
    /// Releases a content while a call's outcome is unknown.
    DeletesInDoubt,
    /// Ignores the deletion policy.
    DeletesRetained,
    /// Removes the mark before the handle is stored.
    UnmarksFirst,
    /// Releases the content before the snapshot is deleted.
    ReleasesFirst,
    /// Requests each snapshot under a new name.
    NamesAnew,
    /// Takes an expired deadline for a final error.
    TakesTimeoutForFinal,
    /// Takes every result of a deletion for success.
    BelievesDeleted,
    /// Reports a cut snapshot as ready.
    TakesCutForReady,
    /// Takes any snapshot in an answer for the one on record.
    TakesOther,
    /// Calls the driver after its lease expired.
    AsksWithoutLease,
    /// Notices contents only once.
    OverhearsContents,
    /// Does not retry.
    ForgetsRetries,
    // --- groups: snapshot-controller
    /// Adds no finalizer to a group.
    LeavesGroupsBare,
    /// Deletes contents of groups despite their policy.
    IgnoresGroupPolicy,
    /// Does not mark contents of groups whose group is being deleted.
    ForgetsToAnnounceGroups,
    /// Deletes a group as soon as it is ready.
    DeletesForLivingGroups,
    /// Releases a member that is being deleted before its group.
    FreesMembers,
    /// Writes the driver's first report into members again and again.
    ResetsMembers,
    /// Binds a member's content to any VolumeSnapshot.
    BindsWrongly,
    /// Writes the first snapshot of a group into the second member.
    MixesMembersUp,
    /// Ignores that claims are being restored.
    OverhearsRestores,
    /// Does not read a group's content from the server that the cache lacks.
    TrustsTheCacheOfGroups,
    /// Misses changes of contents of groups.
    ControllerOverhearsGroupContents,
    /// Ignores which VolumeSnapshots a group owns.
    OverhearsOwners,
    /// Gives detached members their owner back, as upstream does.
    AdoptsWhatIsLoose,
    // --- groups: csi-snapshotter
    /// Calls CreateSnapshot for a member.
    TakesMembers,
    /// Deletes the snapshot of a member along with its content.
    DeletesMembers,
    /// Deletes a group without listing its members.
    NamesNoMembers,
    /// Does not record the members of a group.
    ForgetsMembers,
    /// Clears the members of a group that is being deleted.
    ChangesMembers,
    /// Releases the content of a group while a call's outcome is unknown.
    DeletesGroupsInDoubt,
    /// Ignores the deletion policy of groups.
    DeletesRetainedGroups,
    /// Removes the mark before the handle of a group is stored.
    UnmarksGroupsFirst,
    /// Requests each group under a new name.
    NamesGroupsAnew,
    /// Takes every result of a group's deletion for success.
    BelievesGroupsDeleted,
    /// Invents the missing parts of an answer about a group.
    CompletesAnswers,
    /// Takes an answer about another group for its own.
    BelievesOtherGroups,
}

/// A mutant, the faults under which it must be caught, the violation, and a seed whose run shows it: the
/// first one, until the simulation changes. `seeds` prints them.
pub(super) type Caught = (Mutant, Faults, &'static str, u64);

impl Mutant {
    /// All mutants that need no groups.
    pub(super) const CAUGHT_BY: [Caught; 37] = [
        (Self::IgnoresPolicy, Faults::None, "was to be kept", 1),
        (Self::DeletesAnything, Faults::None, "was to be kept", 46),
        (
            Self::ForgetsToAnnounce,
            Faults::None,
            "stays Terminating",
            0,
        ),
        (Self::DeletesForTheLiving, Faults::None, "lives", 0),
        (Self::CallsReadyEarly, Faults::None, "too early", 0),
        (Self::TrustsTheCache, Faults::All, "goes before", 29),
        (Self::ControllerOverhearsContents, Faults::None, "", 0),
        (Self::ControllerForgetsRetries, Faults::All, "", 20),
        (Self::FreesForOthers, Faults::None, "loses", 10),
        (
            Self::PostsWithoutFinalizer,
            Faults::None,
            "not protected",
            0,
        ),
        (Self::LeavesContentsBare, Faults::None, "is nobody's", 63),
        (Self::TakesAnew, Faults::All, "although it was taken", 349),
        (Self::ForgetsClaims, Faults::Strips, "held for ever", 0),
        (Self::ForgetsTriggers, Faults::None, "never ready", 4),
        (Self::RemembersWhatIsGone, Faults::None, "left behind: [", 0),
        (Self::PatchesAnything, Faults::None, "loses", 34),
        (
            Self::TellsOfConflicts,
            Faults::None,
            "tells of a conflict",
            1,
        ),
        (Self::IgnoresRestores, Faults::None, "being restored", 8),
        (Self::WritesAtOnce, Faults::None, "not protected", 11),
        (Self::CountsWhatNeverBegan, Faults::None, "held for ever", 1),
        (Self::CountsWhatIsLost, Faults::All, "held for ever", 349),
        (
            Self::ForgetsWhatIsBound,
            Faults::None,
            "beside what it is",
            2,
        ),
        (Self::WaitsForStrangers, Faults::None, "Terminating", 0),
        (
            Self::DeletesOnDeletionAlone,
            Faults::None,
            "nobody asked",
            10,
        ),
        (Self::ForgetsMark, Faults::None, "not marked", 0),
        (Self::DeletesInDoubt, Faults::All, "is nobody's", 2),
        (Self::DeletesRetained, Faults::None, "retained", 8),
        (Self::UnmarksFirst, Faults::None, "is nobody's", 0),
        (Self::ReleasesFirst, Faults::None, "is nobody's", 0),
        (Self::NamesAnew, Faults::None, "another name", 0),
        (Self::TakesTimeoutForFinal, Faults::All, "is nobody's", 26),
        (Self::BelievesDeleted, Faults::All, "is cleared before", 30),
        (Self::TakesCutForReady, Faults::None, "cannot be used", 0),
        (
            Self::TakesOther,
            Faults::All,
            "its snapshot is not there",
            273,
        ),
        (Self::AsksWithoutLease, Faults::Crashes, "", 88),
        (Self::OverhearsContents, Faults::None, "", 0),
        (Self::ForgetsRetries, Faults::All, "", 0),
    ];

    /// The content as a faulty snapshotter sees it.
    pub(super) fn sees(self, content: &Arc<Content>) -> Arc<Content> {
        let mut seen = Arc::clone(content);
        match self {
            Self::DeletesOnDeletionAlone if seen.deleting => {
                Arc::make_mut(&mut seen).being_deleted = true;
            }
            Self::ForgetsMark => Arc::make_mut(&mut seen).being_created = true,
            Self::DeletesInDoubt if seen.deleting => {
                Arc::make_mut(&mut seen).being_created = false;
            }
            Self::DeletesRetained => Arc::make_mut(&mut seen).policy = Policy::Delete,
            _ => self.sees_of_group(&mut seen),
        }
        seen
    }

    pub(super) fn snapshotter_wants(
        self,
        request: Request,
        name: &Text,
        content: Option<&Content>,
    ) -> Request {
        let Some(content) = content.filter(|_| self != Self::None) else {
            return request;
        };
        let write = |what, body| Request::Write(request::patch(name, Purpose::Content(what), body));
        match (self, request) {
            (Self::UnmarksFirst, Request::Write(asked))
                if matches!(asked.purpose, Purpose::Status(StatusWrite::Report(_)))
                    && content.being_created =>
            {
                write(ContentWrite::Unmark, patch::unmark(content))
            }
            (Self::UnmarksGroupsFirst, Request::Write(asked))
                if matches!(asked.purpose, Purpose::Status(StatusWrite::Report(_)))
                    && content.being_created
                    && content.kind() == Kind::Group =>
            {
                write(ContentWrite::Unmark, patch::unmark(content))
            }
            (Self::ReleasesFirst, Request::Call(Call::Delete(_))) if content.is_protected() => {
                write(ContentWrite::Release, patch::release(content))
            }
            (Self::NamesAnew, Request::Call(Call::Create(mut call))) => {
                call.name = format!("{}-{}", call.name, content.version);
                Request::Call(Call::Create(call))
            }
            (Self::ForgetsMark, Request::Write(mut asked))
                if asked.purpose == Purpose::Content(ContentWrite::Mark) =>
            {
                if let Body::Patch(_, Patch::Merge(body)) = &mut asked.body {
                    let metadata = body["metadata"].as_object_mut().unwrap();
                    metadata.remove("annotations");
                    metadata.insert("finalizers".to_owned(), [CONTENT_BOUND].as_slice().into());
                }
                Request::Write(asked)
            }
            (_, request) => self.wants_of_group(request, content),
        }
    }

    pub(super) fn snapshotter_hears(self, reply: Reply, content: Option<&Content>) -> Reply {
        match reply {
            Reply::Call(called, took) => Reply::Call(self.hears_call(called, content), took),
            reply => reply,
        }
    }

    fn hears_call(self, called: Called, content: Option<&Content>) -> Called {
        match (self, called) {
            (
                Self::TakesTimeoutForFinal,
                Called::Create(call, Err(CallError::Failed(mut error))),
            ) if error.code == Code::DeadlineExceeded => {
                error.code = Code::Internal;
                Called::Create(call, Err(CallError::Failed(error)))
            }
            (Self::BelievesDeleted, Called::Delete(call, Err(CallError::Failed(_)))) => {
                Called::Delete(call, Ok(Default::default()))
            }
            (Self::TakesCutForReady, Called::Create(call, Ok(mut response))) => {
                if let Some(snapshot) = &mut response.snapshot {
                    snapshot.ready_to_use = true;
                }
                Called::Create(call, Ok(response))
            }
            (Self::TakesOther, Called::Create(call, Ok(mut response))) => {
                let record = content.and_then(|content| content.handle());
                if let (Some(record), Some(snapshot)) = (record, &mut response.snapshot) {
                    snapshot.snapshot_id = record.to_string();
                }
                Called::Create(call, Ok(response))
            }
            (_, called) => self.hears_of_group(called, content),
        }
    }
}
