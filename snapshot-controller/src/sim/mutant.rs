//! Faulty controllers. Each breaks one rule; a simulation that does not notice proves nothing.
//!
//! They sit around the controller that ships: what it sees and hears is changed, or what it wants,
//! wakes and remembers.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each mutant differs in one point"
)]

use std::sync::Arc;

use sidecar::controller::request::{Body, Part, Patch};
use sidecar::snapshot::{CONTENT_BOUND, GROUP_SNAPSHOT_BOUND, SNAPSHOT_AS_SOURCE, SNAPSHOT_IN_USE};

use super::world::Faults;
use crate::model::{Claim, Content, Group, GroupContent, Policy, Snapshot, Source, Text};
use crate::plan::complaint::RequeueTrigger;
use crate::plan::in_flight::Key;
use crate::plan::reactor::{Change, Controller};
use crate::plan::request::{Object, Refusal, Reply, Request};
use crate::testing::server::error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    /// The real thing.
    None,
    /// Makes contents that nothing holds, as upstream does.
    PostsWithoutFinalizer,
    /// Deletes contents whatever their policy.
    IgnoresPolicy,
    /// Deletes a content of whatever version.
    DeletesAnything,
    /// Does not tell contents that their VolumeSnapshot is being deleted.
    ForgetsMark,
    /// Does not ask the server about a content that the cache does not have.
    TrustsTheCache,
    /// Takes anew what was taken and lost.
    TakesAnew,
    /// Does not look at claims whose last VolumeSnapshot is gone.
    ForgetsClaims,
    /// Does not look at a VolumeSnapshot when its content changes.
    ForgetsContents,
    /// Does not remember what a failure waits for.
    ForgetsTriggers,
    /// Does not retry.
    ForgetsRetries,
    /// Keeps what a failure waits for after the object is gone.
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
    /// Adds no finalizer to what an administrator made.
    LeavesContentsBare,
    /// Adds no finalizer to a group, as upstream does before it is bound.
    LeavesGroupsBare,
    /// Deletes contents of groups whatever their policy.
    IgnoresGroupPolicy,
    /// Does not tell contents of groups that their group is being deleted.
    ForgetsGroupMark,
    /// Writes the driver's first answer into members again and again.
    ResetsMembers,
    /// Does not know which VolumeSnapshots a group has.
    ForgetsMembers,
    /// Does not look at a group when its content changes.
    ForgetsGroupContents,
    /// Gives members that were cut loose their owner back, as upstream does.
    AdoptsWhatIsLoose,
    /// Knows contents by the name that it gives them alone, as upstream does.
    ForgetsWhatIsBound,
    /// Takes what has lost its content for something that needs its claim.
    CountsWhatIsLost,
    /// Takes each claim of another namespace for one that may be restored.
    WaitsForStrangers,
}

impl Mutant {
    /// Under which faults each must be caught, and by what.
    pub(super) const CAUGHT_BY: [(Self, Faults, &'static str); 27] = [
        (
            Self::PostsWithoutFinalizer,
            Faults::Crashes,
            "left in storage",
        ),
        (Self::IgnoresPolicy, Faults::None, "was to be kept"),
        (Self::DeletesAnything, Faults::None, "was to be kept"),
        (Self::ForgetsMark, Faults::None, "Terminating"),
        (Self::TrustsTheCache, Faults::All, "goes before"),
        (Self::TakesAnew, Faults::All, "although it was taken"),
        (Self::ForgetsClaims, Faults::Strips, "held for ever"),
        (Self::ForgetsContents, Faults::None, ""),
        (Self::ForgetsTriggers, Faults::None, "never ready"),
        (Self::ForgetsRetries, Faults::All, ""),
        (Self::RemembersWhatIsGone, Faults::None, "remembers"),
        (Self::PatchesAnything, Faults::None, "loses"),
        (Self::TellsOfConflicts, Faults::None, "tells of a conflict"),
        (Self::IgnoresRestores, Faults::None, "is being restored"),
        (Self::WritesAtOnce, Faults::None, "not protected"),
        (Self::CountsWhatNeverBegan, Faults::None, "held for ever"),
        (Self::LeavesContentsBare, Faults::None, "left in storage"),
        (Self::LeavesGroupsBare, Faults::None, "not protected"),
        (Self::IgnoresGroupPolicy, Faults::None, "was to be kept"),
        (Self::ForgetsGroupMark, Faults::None, "Terminating"),
        (Self::ResetsMembers, Faults::None, "is reset"),
        (Self::ForgetsMembers, Faults::None, ""),
        (Self::ForgetsGroupContents, Faults::None, "never ready"),
        (Self::AdoptsWhatIsLoose, Faults::None, "is owned again"),
        (Self::ForgetsWhatIsBound, Faults::None, "beside what it is"),
        (Self::CountsWhatIsLost, Faults::All, "held for ever"),
        (Self::WaitsForStrangers, Faults::None, "Terminating"),
    ];

    pub(super) fn sees_snapshot(self, snapshot: &Arc<Snapshot>) -> Arc<Snapshot> {
        let mut seen = Arc::clone(snapshot);
        let lost = |seen: &Snapshot| {
            let error = seen.shown().error;
            let told = error.and_then(|error| error.message.as_deref());
            told == Some("VolumeSnapshotContent is missing")
        };
        if self == Self::TakesAnew
            && lost(&seen)
            && let Some(status) = &mut Arc::make_mut(&mut seen).status
        {
            status.creation_time = None;
            status.restore_size = None;
        }
        if self == Self::AdoptsWhatIsLoose && seen.owners.is_none() {
            let bound = seen.bound().cloned();
            let seen = Arc::make_mut(&mut seen);
            let named = seen.status.as_mut().and_then(|status| status.group.take());
            if let Some(bound) = bound.filter(|_| named.is_some()) {
                seen.source = Source::Content(bound);
            }
        }
        if self == Self::ForgetsWhatIsBound
            && !seen.is_ready()
            && !seen.deleting
            && let Some(status) = &mut Arc::make_mut(&mut seen).status
        {
            status.bound = None;
        }
        if self == Self::WaitsForStrangers {
            let held = seen.finalizers.iter().cloned();
            let held = held.chain([SNAPSHOT_IN_USE.into()]).collect();
            Arc::make_mut(&mut seen).finalizers = held;
        }
        seen
    }

    pub(super) fn sees_content(self, content: &Arc<Content>) -> Arc<Content> {
        let mut seen = Arc::clone(content);
        match self {
            Self::IgnoresPolicy => Arc::make_mut(&mut seen).policy = Policy::Delete,
            Self::ForgetsMark => Arc::make_mut(&mut seen).being_deleted = true,
            Self::LeavesContentsBare | Self::PostsWithoutFinalizer => {
                Arc::make_mut(&mut seen).finalizers = Arc::new([CONTENT_BOUND.into()]);
            }
            Self::ResetsMembers => {
                if let Some(status) = &mut Arc::make_mut(&mut seen).status {
                    status.is_taken = false;
                }
            }
            _ => {}
        }
        seen
    }

    pub(super) fn sees_group(self, group: &Arc<Group>) -> Arc<Group> {
        let mut seen = Arc::clone(group);
        if self == Self::LeavesGroupsBare && !seen.is_protected() {
            let held = seen.finalizers.iter().cloned();
            let held = held.chain([GROUP_SNAPSHOT_BOUND.into()]).collect();
            Arc::make_mut(&mut seen).finalizers = held;
        }
        seen
    }

    pub(super) fn sees_group_content(self, content: &Arc<GroupContent>) -> Arc<GroupContent> {
        let mut seen = Arc::clone(content);
        match self {
            Self::IgnoresGroupPolicy => Arc::make_mut(&mut seen).policy = Policy::Delete,
            Self::ForgetsGroupMark => Arc::make_mut(&mut seen).being_deleted = true,
            _ => {}
        }
        seen
    }

    /// What the controller is told, if it is.
    pub(super) fn hears(self, change: Change<'_>) -> Option<Change<'_>> {
        match (self, change) {
            (Self::ForgetsContents, Change::Content { .. })
            | (Self::ForgetsGroupContents, Change::GroupContent { .. }) => None,
            (_, change) => Some(change),
        }
    }

    /// What a claim's record says.
    pub(super) fn hears_claim(self, claim: Option<&Claim>) -> Option<Claim> {
        let restores = |claim: &Claim| match self {
            Self::IgnoresRestores => None,
            _ => claim.restores.clone(),
        };
        claim.map(|claim| Claim {
            restores: restores(claim),
            ..claim.clone()
        })
    }

    pub(super) fn wakes(self, key: &Key) -> bool {
        !(self == Self::ForgetsClaims && matches!(key, Key::Claim(_)))
    }

    pub(super) fn retries(self) -> bool {
        self != Self::ForgetsRetries
    }

    /// After a decision on `key`.
    pub(super) fn decided(self, key: &Key, controller: &mut Controller) {
        match self {
            Self::ForgetsTriggers => controller.in_flight.forget(key),
            Self::WritesAtOnce => controller.in_flight.claims.busy.clear(),
            _ => {}
        }
    }

    /// What the controller wants.
    pub(super) fn wants(self, mut request: Request) -> Request {
        let Request::Write(write) = &mut request else {
            return request;
        };
        match (self, &write.object, &mut write.body) {
            (Self::PostsWithoutFinalizer, _, Body::Create(body)) => {
                if let Some(metadata) = body["metadata"].as_object_mut() {
                    metadata.remove("finalizers");
                }
            }
            (
                Self::PatchesAnything,
                Object::Snapshot(_),
                Body::Patch(Part::Main, Patch::Merge(body)),
            ) => {
                if let Some(metadata) = body["metadata"].as_object_mut() {
                    metadata.remove("resourceVersion");
                }
            }
            (Self::DeletesAnything, _, Body::Delete(version)) => *version = None,
            _ => {}
        }
        request
    }

    /// After something was heard of a VolumeSnapshot.
    pub(super) fn heard(self, gone: Option<Text>, controller: &mut Controller) {
        if self == Self::RemembersWhatIsGone
            && let Some(key) = gone
        {
            controller
                .in_flight
                .failed(&Key::Snapshot(key), &[RequeueTrigger::AnyClass]);
        }
    }

    /// What a request is answered with.
    pub(super) fn told(self, reply: Reply) -> Reply {
        match (self, reply) {
            (Self::TrustsTheCache, Reply::Get(of @ Object::Content(_), _)) => {
                Reply::Get(of, Err(error(Refusal::NotFound, "not found")))
            }
            (Self::TellsOfConflicts, Reply::Write(write, Err(mut error)))
                if error.is_conflict() =>
            {
                error.refusal = Refusal::Other;
                Reply::Write(write, Err(error))
            }
            (_, reply) => reply,
        }
    }

    /// A VolumeSnapshot as the books are told of it.
    pub(super) fn hears_snapshot(self, snapshot: Option<&Snapshot>) -> Option<Snapshot> {
        let mut heard = snapshot.cloned()?;
        if self == Self::ForgetsMembers {
            heard.owners = None;
        }
        if self == Self::CountsWhatIsLost
            && let Some(status) = &mut heard.status
        {
            status.error = None;
        }
        if self == Self::CountsWhatNeverBegan && !heard.holds(SNAPSHOT_AS_SOURCE) {
            let held = heard.finalizers.iter().cloned();
            heard.finalizers = held.chain([SNAPSHOT_AS_SOURCE.into()]).collect();
        }
        Some(heard)
    }
}
