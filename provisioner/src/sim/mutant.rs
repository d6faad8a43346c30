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
use crate::model::{Claim, Csi, FinalizerAction, Reclaim, Source, Text, Volume, VolumeDetail};
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
    /// The shipped provisioner.
    None,
    /// Deletes the object before its volume.
    RemovesFirst,
    /// Removes the finalizer before the volume is deleted.
    ReleasesFirst,
    /// Deletes volumes that are in use.
    IgnoresAttachments,
    /// Looks at a volume again at once after an own write, even if attachments may be missing.
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
    /// Looks for no objects that the first one does not count, even if there is no first one.
    OverlooksObjects,
    /// Takes any epoch for its own.
    IgnoresEpochs,
    /// Continues another process's calls before volumes are listed.
    RecoversEarly,
    /// Forgets a call of unknown outcome together with the claim.
    ForgetsDeletedClaims,
    /// Takes a call of unknown outcome for ended.
    ForgetsPending,
    /// Takes a refusal as proof about the call before it.
    BelievesRefusals,
    /// The same, where another node has to be selected.
    ForgetsMoved,
    /// Forgets other unsettled requests of a claim once it has its volume.
    ForgetsUnsettled,
    /// Deletes the volume of an unsettled request, even if a PersistentVolume refers to it.
    DeletesUnsettled,
    /// Repeats a call of unknown outcome with a new request.
    AsksAnew,
    /// Uses another volume name for each class.
    NamesAnew,
    /// Keeps the records of removed volumes although they are gone.
    RemembersRemoved,
    /// Waits for the cure of an attempt on a claim that is gone.
    RemembersClaims,
    /// Goes on at once when another node has to be selected, with the claim from the watch.
    Spins,
    /// Takes a conflict for success.
    BelievesConflicts,
    /// Works before everything is listed.
    StartsEarly,
    /// Sweeps snapshots before claims are listed.
    SweepsEarly,
    /// Trusts attachments whose watch has ended.
    TrustsBrokenWatches,
    /// Deletes no volume without its Secret.
    NeedsSecrets,
    /// Does not retry.
    ForgetsRetries,
    /// Ignores replies to its own writes, and decides by the watch alone.
    ForgetsOwnWrites,
    /// Deletes volumes whose policy keeps them.
    DeletesKept,
    /// Deletes volumes of other drivers.
    DeletesOthers,
    /// Deletes volumes of an in-tree plugin without the annotation that they were migrated.
    DeletesUnmoved,
    /// Gives up volumes that cannot have a PersistentVolume of the plugin, without deleting them.
    LeavesUntranslatable,
    /// Neither adds nor removes finalizers of volumes that are not deleted.
    IgnoresFinalizerAction,
    /// Goes on without the Secret while it is missing.
    SkipsSecrets,
    /// Leaves a node without capacity selected.
    KeepsNode,
    /// Gives up a node while the driver may still be working there.
    MovesJournal,
    /// Releases the sources of claims that are being provisioned.
    FreesSources,
    /// Refuses to clone a claim that is being deleted, even if it is held for the clone.
    RefusesHeld,
    /// Clones a claim that is being deleted for claims that came later.
    ClonesLate,
    /// Leaves the finalizer on sources that no claim needs.
    KeepsSources,
    /// Releases snapshots that are being restored.
    FreesSnapshots,
    /// Releases a snapshot after a restore, even if another claim is restoring it.
    FreesShared,
    /// Leaves the finalizer on snapshots that no claim restores.
    KeepsSnapshots,
    /// Takes claims that another node has taken.
    TakesEverything,
    /// Makes volumes for claims of other nodes.
    IgnoresNodes,
    /// Deletes volumes of other nodes.
    DeletesElsewhere,
    /// Does not look at a volume that it has just saved.
    LeavesSaved,
    /// Does not take what it reads into its cache.
    ForgetsReads,
    /// Does not requeue a claim with other unsettled requests when one is settled.
    LeavesUnsettled,
    /// Does not requeue sources when claims change.
    LeavesSources,
}

impl Mutant {
    /// Changes the settings as the mutant does.
    pub(super) fn configures(self, settings: &mut Settings) {
        if self == Self::IgnoresNodes {
            settings.node = None;
        }
    }

    /// The record of a volume that the mutant keeps.
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

    /// The reply as the mutant hears it.
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
            Reply::Claim(ClaimReply::ExistingPv(name, Ok(found)))
                if self == Self::DeletesUnsettled =>
            {
                let source = Source::Csi(Csi {
                    driver: "test-driver".into(),
                    handle: "another".into(),
                });
                let found = VolumeDetail { source, ..*found };
                Reply::Claim(ClaimReply::ExistingPv(name, Ok(Box::new(found))))
            }
            reply => reply,
        }
    }

    /// The source claim as the mutant reads it.
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

    /// The driver's answer as the mutant hears it.
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

    /// A conflict, or the absence of an object, as the mutant hears it.
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

    /// The step that the mutant makes of a decision on `key`.
    pub(super) fn decides(self, step: Step, key: &Key, informers: &Informers) -> Step {
        match (step, key) {
            (Step::Ask(Request::Call(Call::Create(mut call))), _) if self == Self::NamesAnew => {
                let class = informers.classes.get(&call.about.pv_template.class);
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

    /// The write of a mutant that skips DeleteVolume.
    fn ends_early(self, name: &Text, volume: &Volume) -> Option<Request> {
        let uid = match volume {
            Volume::Deletable(volume) if volume.is_protected() || self != Self::ReleasesFirst => {
                &volume.uid
            }
            _ => return None,
        };
        let (purpose, body) = match self {
            Self::RemovesFirst => (Purpose::Remove, Body::Delete(None)),
            Self::ReleasesFirst => (Purpose::Release, delete::finalizer(FinalizerAction::Remove)),
            _ => return None,
        };
        Some(Request::Write(Write {
            purpose,
            object: Object::Volume(name.clone()),
            uid: Some(uid.clone()),
            body,
        }))
    }

    /// The journal's objects as the mutant finds them while it opens the journal.
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

    /// The journal's answers as the mutant reads them.
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

    /// Whether a mutant ignores replies to its own writes.
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
