//! Faulty programs, either of the two. Each breaks one rule; a simulation that does not notice proves
//! nothing.
//!
//! They sit around the reactors that ship: what these see and hear is changed, or what they want.
//!
//! | file | mutants |
//! |---|---|
//! | `controller` | of the snapshot-controller |
//! | `group` | such as only groups can show |

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each mutant differs in one point"
)]

mod controller;
mod group;

use std::sync::Arc;

use sidecar::controller::CallError;
use sidecar::controller::request::{Body, Part, Patch};
use sidecar::snapshot::CONTENT_BOUND;
use sidecar::text::Text;
use snapshotter::model::{Content, Kind, Policy};
use snapshotter::plan::patch;
use snapshotter::plan::request::{
    Call, Called, ContentWrite, Purpose, Reply, Request, StatusWrite, Write,
};
use tonic::Code;

use super::world::Faults;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    /// The real things.
    None,
    // --- snapshot-controller
    /// Deletes contents whatever their policy.
    IgnoresPolicy,
    /// Deletes a content of whatever version.
    DeletesAnything,
    /// Does not tell contents that their VolumeSnapshot is being deleted.
    ForgetsToAnnounce,
    /// Tells contents, and deletes them, while their VolumeSnapshot lives.
    DeletesForTheLiving,
    /// Calls a VolumeSnapshot ready as soon as there is a content.
    CallsReadyEarly,
    /// Does not ask the server about a content that the cache does not have.
    TrustsTheCache,
    /// Does not hear of contents.
    ControllerOverhearsContents,
    /// Does not try again.
    ControllerForgetsRetries,
    /// Takes finalizers of others away.
    FreesForOthers,
    /// Makes contents that nothing holds, as upstream does.
    PostsWithoutFinalizer,
    /// Adds no finalizer to what an administrator made.
    LeavesContentsBare,
    /// Takes anew what was taken and lost.
    TakesAnew,
    /// Does not look at claims whose last VolumeSnapshot is gone.
    ForgetsClaims,
    /// Does not remember what a failure waits for: it hears neither of classes nor of volumes.
    ForgetsTriggers,
    /// Does not hear that a VolumeSnapshot is gone, and keeps what it knows of it.
    RemembersWhatIsGone,
    /// Replaces finalizers of whatever version.
    PatchesAnything,
    /// Tells users of conflicts.
    TellsOfConflicts,
    /// Does not know which claims are being restored.
    IgnoresRestores,
    /// Lets several attempts write to a claim at once.
    WritesAtOnce,
    /// Takes what is not begun for something that needs its claim.
    CountsWhatNeverBegan,
    /// Takes what has lost its content for something that needs its claim.
    CountsWhatIsLost,
    /// Knows contents by the name that it gives them alone, as upstream does.
    ForgetsWhatIsBound,
    /// Takes each claim of another namespace for one that may be restored.
    WaitsForStrangers,
    // --- csi-snapshotter
    /// Deletes as soon as the content is being deleted, whatever its VolumeSnapshot says.
    DeletesOnDeletionAlone,
    /// Asks for a snapshot before that is on the content.
    ForgetsMark,
    /// Lets a content go while a call is in doubt.
    DeletesInDoubt,
    /// Does not care about the policy.
    DeletesRetained,
    /// Takes the mark away before the handle is stored.
    UnmarksFirst,
    /// Lets the content go before the snapshot.
    ReleasesFirst,
    /// Asks under another name each time.
    NamesAnew,
    /// Takes an expired deadline for a final answer.
    TakesTimeoutForFinal,
    /// Takes every end of a deletion for success.
    BelievesDeleted,
    /// Takes what is cut for ready.
    TakesCutForReady,
    /// Takes whatever the driver answers with for the snapshot on record.
    TakesOther,
    /// Asks the driver although its lease is over.
    AsksWithoutLease,
    /// Hears of contents once.
    OverhearsContents,
    /// Does not try again.
    ForgetsRetries,
    // --- groups: snapshot-controller
    /// Adds no finalizer to a group.
    LeavesGroupsBare,
    /// Deletes contents of groups whatever their policy.
    IgnoresGroupPolicy,
    /// Does not tell contents of groups that their group is being deleted.
    ForgetsToAnnounceGroups,
    /// Deletes a group as soon as it can be used.
    DeletesForLivingGroups,
    /// Lets a member that is to be deleted go before its group.
    FreesMembers,
    /// Writes the driver's first answer into members again and again.
    ResetsMembers,
    /// Binds a member's content to some VolumeSnapshot.
    BindsWrongly,
    /// Writes the first snapshot of a group into the second member.
    MixesMembersUp,
    /// Does not know which claims are being restored.
    OverhearsRestores,
    /// Does not ask the server about a group's content that the cache does not have.
    TrustsTheCacheOfGroups,
    /// Does not hear of contents of groups.
    ControllerOverhearsGroupContents,
    /// Does not know which VolumeSnapshots a group has.
    OverhearsOwners,
    /// Gives members that were cut loose their owner back, as upstream does.
    AdoptsWhatIsLoose,
    // --- groups: csi-snapshotter
    /// Takes a snapshot for a member.
    TakesMembers,
    /// Deletes the snapshot of a member with its content.
    DeletesMembers,
    /// Deletes a group by its name alone.
    NamesNoMembers,
    /// Does not write who belongs to a group.
    ForgetsMembers,
    /// Says that nobody belongs to a group that is going.
    ChangesMembers,
    /// Lets the content of a group go while a call is in doubt.
    DeletesGroupsInDoubt,
    /// Does not care about the policy of groups.
    DeletesRetainedGroups,
    /// Takes the mark away before the handle of a group is stored.
    UnmarksGroupsFirst,
    /// Asks for a group under another name each time.
    NamesGroupsAnew,
    /// Takes every end of a group's deletion for success.
    BelievesGroupsDeleted,
    /// Makes up what an answer about a group lacks.
    CompletesAnswers,
    /// Takes an answer about another group for one about its own.
    BelievesOtherGroups,
}

/// A mutant, under which faults it must be caught, what is violated then, and a seed whose run shows it: the
/// first one, until the simulation changes. `seeds` prints them.
pub(super) type Caught = (Mutant, Faults, &'static str, u64);

impl Mutant {
    /// Under which faults each must be caught, by what, and in which run.
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

    /// What a snapshotter takes the content for.
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
        let write = |what, body| {
            Request::Write(Write {
                purpose: Purpose::Content(what),
                object: name.clone(),
                uid: None,
                body: Body::Patch(Part::Main, Patch::Merge(body)),
            })
        };
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
