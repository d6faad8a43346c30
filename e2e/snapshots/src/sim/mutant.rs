//! Faulty programs, either of the two. Each breaks one rule; a simulation that does not notice proves
//! nothing.
//!
//! They sit around the reactors that ship: what these see and hear is changed, or what they want.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each mutant differs in one point"
)]

mod group;

use std::sync::Arc;

use sidecar::controller::CallError;
use sidecar::controller::request::{Body, Part, Patch};
use sidecar::snapshot::CONTENT_BOUND;
use sidecar::text::Text;
use snapshot_controller::model as controller;
use snapshot_controller::plan::request as asked;
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

impl Mutant {
    /// Under which faults each must be caught, and by what.
    pub(super) const CAUGHT_BY: [(Self, Faults, &'static str); 23] = [
        (Self::IgnoresPolicy, Faults::None, "was to be kept"),
        (Self::DeletesAnything, Faults::None, "was to be kept"),
        (Self::ForgetsToAnnounce, Faults::None, "stays Terminating"),
        (Self::DeletesForTheLiving, Faults::None, "lives"),
        (Self::CallsReadyEarly, Faults::None, "too early"),
        (Self::TrustsTheCache, Faults::All, "left behind"),
        (Self::ControllerOverhearsContents, Faults::None, ""),
        (Self::ControllerForgetsRetries, Faults::All, ""),
        (Self::FreesForOthers, Faults::None, "loses"),
        (Self::DeletesOnDeletionAlone, Faults::None, "nobody asked"),
        (Self::ForgetsMark, Faults::None, "not marked"),
        (Self::DeletesInDoubt, Faults::All, "is nobody's"),
        (Self::DeletesRetained, Faults::None, "retained"),
        (Self::UnmarksFirst, Faults::None, "is nobody's"),
        (Self::ReleasesFirst, Faults::None, "is nobody's"),
        (Self::NamesAnew, Faults::None, "another name"),
        (Self::TakesTimeoutForFinal, Faults::All, "is nobody's"),
        (Self::BelievesDeleted, Faults::All, "is cleared before"),
        (Self::TakesCutForReady, Faults::None, "cannot be used"),
        (Self::TakesOther, Faults::All, "its snapshot is not there"),
        (Self::AsksWithoutLease, Faults::Crashes, ""),
        (Self::OverhearsContents, Faults::None, ""),
        (Self::ForgetsRetries, Faults::All, ""),
    ];

    pub(super) fn sees_snapshot(
        self,
        snapshot: &Arc<controller::Snapshot>,
    ) -> Arc<controller::Snapshot> {
        let mut seen = Arc::clone(snapshot);
        if self == Self::DeletesForTheLiving && seen.is_ready() {
            Arc::make_mut(&mut seen).deleting = true;
        }
        if self == Self::FreesMembers && seen.deleting {
            let seen = Arc::make_mut(&mut seen);
            seen.owners = None;
            if let Some(status) = &mut seen.status {
                status.group = None;
            }
        }
        seen
    }

    /// What a controller takes the content for.
    pub(super) fn sees_content(
        self,
        content: &Arc<controller::Content>,
    ) -> Arc<controller::Content> {
        let mut seen = Arc::clone(content);
        match self {
            Self::IgnoresPolicy => {
                Arc::make_mut(&mut seen).policy = Policy::Delete;
            }
            Self::ForgetsToAnnounce => Arc::make_mut(&mut seen).being_deleted = true,
            Self::CallsReadyEarly => {
                if let Some(status) = &mut Arc::make_mut(&mut seen).status {
                    status.ready = Some(true);
                }
            }
            Self::ResetsMembers if seen.group.is_some() => {
                if let Some(status) = &mut Arc::make_mut(&mut seen).status {
                    status.is_taken = false;
                }
            }
            _ => {}
        }
        seen
    }

    pub(super) fn controller_wants(
        self,
        mut request: asked::Request,
        deleting: impl Fn(&str) -> bool,
        other: Option<Text>,
    ) -> asked::Request {
        let asked::Request::Write(write) = &mut request else {
            return request;
        };
        match (self, &write.object, &mut write.body) {
            (Self::DeletesAnything, _, Body::Delete(version)) => *version = None,
            (
                Self::FreesForOthers,
                asked::Object::Snapshot(key),
                Body::Patch(Part::Main, Patch::Merge(patch)),
            ) if deleting(key) => {
                patch["metadata"]["finalizers"] = serde_json::Value::Null;
            }
            _ => self.wants_of_member(write, other),
        }
        request
    }

    pub(super) fn controller_hears(self, reply: asked::Reply) -> asked::Reply {
        match (self, reply) {
            (Self::TrustsTheCache, asked::Reply::Get(of @ asked::Object::Content(_), _))
            | (
                Self::TrustsTheCacheOfGroups,
                asked::Reply::Get(of @ asked::Object::GroupContent(_), _),
            ) => asked::Reply::Get(
                of,
                Err(asked::ApiError {
                    message: "not found".to_owned(),
                    refusal: asked::Refusal::NotFound,
                }),
            ),
            (_, reply) => reply,
        }
    }

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
