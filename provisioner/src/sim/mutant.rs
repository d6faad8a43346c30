//! Faulty provisioners. Each breaks one rule; a simulation that does not notice proves nothing.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each mutant differs in one point"
)]

use csi_proto::csi::DeleteVolumeResponse;
use jiff::Timestamp;
use sidecar::controller::CallError;
use sidecar::controller::request::Body;
use tonic::Code;

use super::informers::Informers;
use super::process::Process;
use super::run::rpc;
use super::step::not_done;
use crate::model::{Claim, Csi, Reclaim, Source, Text, Volume, VolumeDetail};
use crate::plan::claim::ClaimReply;
use crate::plan::delete;
use crate::plan::journal::{self, HEADER};
use crate::plan::outcome::ApiError;
use crate::plan::reactor::{Key, Reply, Step};
use crate::plan::request::{self, Call, Called, Found, Object, Purpose, Request, Secrets, Write};
use crate::plan::settings::Settings;

mod caught;
mod handler;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    /// The real thing.
    None,
    /// Deletes the object before its volume.
    RemovesFirst,
    /// Removes the finalizer before the volume is deleted.
    ReleasesFirst,
    /// Deletes volumes that are in use.
    IgnoresAttachments,
    /// Looks at a volume again at once after an own write, whatever is known of attachments.
    FollowsAtOnce,
    /// Takes an expired deadline of DeleteVolume for success.
    BelievesTimeout,
    /// Takes NotFound of DeleteVolume for success.
    BelievesNotFound,
    /// Calls before the intent is durable.
    CallsEarly,
    /// Takes the intent out before the PersistentVolume is there.
    SettlesEarly,
    /// Leaves settled intents in the journal.
    KeepsIntents,
    /// Does nothing at all while the journal cannot be opened.
    WaitsForJournal,
    /// Looks for no object that the first one does not name, also if there is no first one.
    OverlooksObjects,
    /// Takes any epoch for its own.
    IgnoresEpochs,
    /// Goes on with another process's calls before it knows what volumes there are.
    RecoversEarly,
    /// Forgets a call in doubt with the claim.
    ForgetsDeletedClaims,
    /// Takes a call in doubt for ended.
    ForgetsDoubt,
    /// Takes a refusal for the truth about the call before it.
    BelievesRefusals,
    /// The same, where another node is to be selected.
    ForgetsMoved,
    /// Forgets with the claim's volume what else was asked for the claim.
    ForgetsOwed,
    /// Deletes the volume of what is owed, whoever has it.
    DeletesOwed,
    /// Repeats a call in doubt with what it would ask today.
    AsksAnew,
    /// Names the volume anew with each class.
    NamesAnew,
    /// Remembers volumes that it removed although they are gone.
    RemembersRemoved,
    /// Waits for what would cure an attempt on a claim that is gone.
    RemembersClaims,
    /// Goes on at once when another node is to be selected, on the claim as the watch showed it.
    Spins,
    /// Takes a conflict for success.
    BelievesConflicts,
    /// Works before everything is listed.
    StartsEarly,
    /// Sweeps snapshots before claims are listed.
    SweepsEarly,
    /// Concludes from attachments whose watch has ended.
    TrustsBrokenWatches,
    /// Deletes no volume without its Secret.
    NeedsSecrets,
    /// Does not retry.
    ForgetsRetries,
    /// Decides by the watch alone.
    ForgetsOwnWrites,
    /// Deletes volumes that are to be kept.
    DeletesKept,
    /// Deletes volumes of other drivers.
    DeletesOthers,
    /// Deletes volumes of an in-tree plugin that are not said to be moved.
    DeletesUnmoved,
    /// Gives up volumes that have no PersistentVolume in the words of a plugin, and does not delete them.
    LeavesUnsayable,
    /// Neither adds nor removes finalizers of volumes that stay.
    IgnoresFinalizerAction,
    /// Does without the Secret while it is missing.
    SkipsSecrets,
    /// Leaves a node without room selected.
    KeepsNode,
    /// Gives up a node while the driver may still be working there.
    MovesJournal,
    /// Frees the sources of claims that are being made.
    FreesSources,
    /// Clones no claim that is being deleted, though it be kept for the clone.
    RefusesHeld,
    /// Clones what is being deleted for claims that came later.
    ClonesLate,
    /// Leaves the finalizer on sources that nobody needs.
    KeepsSources,
    /// Frees snapshots that are being restored.
    FreesSnapshots,
    /// Frees a snapshot after a restore, whoever else is restoring it.
    FreesShared,
    /// Leaves the finalizer on snapshots that nobody restores.
    KeepsSnapshots,
    /// Takes claims that another node has.
    TakesEverything,
    /// Makes volumes for claims of other nodes.
    IgnoresNodes,
    /// Deletes volumes of other nodes.
    DeletesElsewhere,
    /// Does not look at a volume that it has just saved.
    LeavesSaved,
    /// Keeps from its cache what it reads.
    ForgetsReads,
    /// Does not look at what else is owed for a claim when one thing is paid.
    LeavesOwed,
    /// Does not look at sources when claims change.
    LeavesSources,
}

impl Mutant {
    /// What a mutant makes of the command line.
    pub(super) fn configures(self, settings: &mut Settings) {
        if self == Self::IgnoresNodes {
            settings.node = None;
        }
    }

    /// What a mutant keeps of a volume.
    pub(super) fn keeps(self, volume: &VolumeDetail) -> Volume {
        let mut volume = volume.clone();
        match self {
            Self::DeletesKept => volume.reclaim = Reclaim::Delete,
            Self::DeletesOthers => {
                volume.owner.csi_driver = Some("test-driver".into());
                if let Source::Csi(csi) = &mut volume.source {
                    csi.driver = "test-driver".into();
                }
            }
            Self::DeletesUnmoved if volume.owner.in_tree => {
                volume.owner.migrated_to = Some("test-driver".into());
            }
            _ => {}
        }
        volume.keep()
    }

    /// What a mutant makes of a reply.
    pub(super) fn hears(self, reply: Reply) -> Reply {
        match reply {
            Reply::Ask(request::Reply::Secret(secret, Err(_))) if self == Self::SkipsSecrets => {
                Reply::Ask(request::Reply::Secret(secret, Ok(Secrets::new())))
            }
            Reply::Ask(request::Reply::Get(object, Ok(Found::SourceClaim(found)))) => {
                let found = Found::SourceClaim(Box::new(self.reads(*found)));
                Reply::Ask(request::Reply::Get(object, Ok(found)))
            }
            Reply::Ask(request::Reply::Call(called, took)) => {
                Reply::Ask(request::Reply::Call(self.hears_call(called), took))
            }
            Reply::Claim(ClaimReply::Namesake(name, Ok(found))) if self == Self::DeletesOwed => {
                let source = Source::Csi(Csi {
                    driver: "test-driver".into(),
                    handle: "another".into(),
                });
                let found = VolumeDetail { source, ..*found };
                Reply::Claim(ClaimReply::Namesake(name, Ok(Box::new(found))))
            }
            reply => reply,
        }
    }

    /// What a mutant reads of a claim that is to be cloned.
    fn reads(self, found: Claim) -> Claim {
        match self {
            Self::RefusesHeld if found.deleting => Claim {
                finalizers: Vec::new().into(),
                ..found
            },
            Self::ClonesLate => Claim {
                deleted: Some(Timestamp::MAX),
                ..found
            },
            _ => found,
        }
    }

    /// What a mutant makes of the driver's answer.
    fn hears_call(self, called: Called) -> Called {
        let deleted = || Ok(DeleteVolumeResponse {});
        match (self, called) {
            (Self::MovesJournal, Called::Create(call, Err(CallError::Failed(error))))
                if error.code == Code::DeadlineExceeded =>
            {
                let full = CallError::Failed(rpc(Code::ResourceExhausted));
                Called::Create(call, Err(full))
            }
            (Self::BelievesNotFound, Called::Delete(call, Err(CallError::Failed(error))))
                if error.code == Code::NotFound =>
            {
                Called::Delete(call, deleted())
            }
            (Self::BelievesTimeout, Called::Delete(call, Err(CallError::Failed(error))))
                if error.code == Code::DeadlineExceeded =>
            {
                Called::Delete(call, deleted())
            }
            (_, called) => called,
        }
    }

    /// What a mutant makes of a conflict, or of an object that is gone.
    pub(super) fn hears_refusal(self, step: Step, error: ApiError) -> Reply {
        match step {
            Step::Ask(Request::Write(write))
                if self == Self::BelievesConflicts
                    && !matches!(write.purpose, Purpose::ReleaseSource) =>
            {
                Reply::Ask(request::Reply::Write(write, Ok(Found::Written)))
            }
            step => not_done(step, error),
        }
    }

    /// Whether a mutant leaves snapshots as they are.
    pub(super) fn keeps_snapshots(self) -> bool {
        self == Self::KeepsSnapshots
    }

    /// Whether a mutant takes claims that are taken.
    pub(super) fn takes_everything(self) -> bool {
        self == Self::TakesEverything
    }

    /// What a mutant makes of a decision on `key`.
    pub(super) fn decides(self, step: Step, key: &Key, informers: &Informers) -> Step {
        match (step, key) {
            (Step::Ask(Request::Call(Call::Create(mut call))), _) if self == Self::NamesAnew => {
                let class = informers.classes.get(&call.about.blueprint.class);
                let class = class.map_or("", |class| &*class.uid);
                call.name = format!("{}-{class}", call.name);
                Step::Ask(Request::Call(Call::Create(call)))
            }
            (Step::Ask(Request::Write(mut write)), _) => {
                if let (Self::KeepsNode, Purpose::Unselect(_), Body::Edit(edit)) =
                    (self, &write.purpose, &mut write.body)
                {
                    edit.unannotate = None;
                }
                Step::Ask(Request::Write(write))
            }
            (Step::Ask(Request::Call(Call::Delete(call))), Key::Volume(name)) => {
                let volume = informers.volumes.get(name);
                let early = volume.and_then(|volume| self.ends_early(name, volume));
                Step::Ask(early.unwrap_or(Request::Call(Call::Delete(call))))
            }
            (step, _) => step,
        }
    }

    /// What a mutant writes instead of having the volume deleted.
    fn ends_early(self, name: &Text, volume: &Volume) -> Option<Request> {
        let uid = match volume {
            Volume::Deletable(volume) if volume.is_protected() || self != Self::ReleasesFirst => {
                &volume.uid
            }
            _ => return None,
        };
        let (purpose, body) = match self {
            Self::RemovesFirst => (Purpose::Remove, Body::Delete(None)),
            Self::ReleasesFirst => (Purpose::Release, delete::removing()),
            _ => return None,
        };
        Some(Request::Write(Write {
            purpose,
            object: Object::Volume(name.clone()),
            uid: Some(uid.clone()),
            body,
        }))
    }

    /// What a mutant finds of the journal's objects while it opens it.
    pub(super) fn finds(
        self,
        answer: journal::Answer,
        number: usize,
        process: &mut Process,
    ) -> journal::Answer {
        if let (Self::OverlooksObjects, journal::Answer::Found(found)) = (self, &answer)
            && !process.is_open()
        {
            process.headless |= number == 0 && found.is_none();
            if number > 0 && process.headless {
                return journal::Answer::Found(None);
            }
        }
        answer
    }

    /// What a mutant reads in the journal.
    pub(super) fn reads_journal(
        self,
        mut answer: journal::Answer,
        process: &mut Process,
    ) -> journal::Answer {
        if self == Self::IgnoresEpochs
            && process.journal().is_open()
            && let journal::Answer::Found(Some(found)) = &mut answer
            && let Some(header) = &process.header
        {
            found.annotations.insert(HEADER.to_owned(), header.clone());
        }
        answer
    }

    /// Whether a mutant believes the watch alone.
    pub(super) fn forgets_own_writes(self) -> bool {
        self == Self::ForgetsOwnWrites
    }
}

/// Whether the reply is to the creation of a PersistentVolume.
pub(super) fn is_save(reply: &Reply) -> bool {
    matches!(
        reply,
        Reply::Ask(request::Reply::Write(
            Write {
                purpose: Purpose::Save(_),
                ..
            },
            _
        ))
    )
}
