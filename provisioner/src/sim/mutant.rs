//! Faulty provisioners. Each breaks one rule; a simulation that does not notice proves nothing.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each mutant differs in one point"
)]

use std::collections::BTreeMap;

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
use crate::plan::claim;
use crate::plan::delete;
use crate::plan::journal::{self, HEADER};
use crate::plan::outcome::ApiError;
use crate::plan::reactor::{Answer, Key, Reply, Step};
use crate::plan::request::{self, Call, Called, Purpose, Request, Write};
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

    /// What a mutant makes of what came of a step.
    pub(super) fn hears(self, reply: Reply) -> Reply {
        match reply {
            Reply::Other(step, Answer::Claim(answer)) => {
                let answer = match &step {
                    Step::Claim { step, .. } => self.hears_create(self.reads(step, answer)),
                    _ => answer,
                };
                Reply::Other(step, Answer::Claim(answer))
            }
            Reply::Volume(request::Reply::Call(Called::Delete(call, Err(error)), took)) => {
                let result = self.hears_delete(error);
                let called = Called::Delete(call, result);
                Reply::Volume(request::Reply::Call(called, took))
            }
            reply => reply,
        }
    }

    fn reads(self, step: &claim::Step, answer: claim::Answer) -> claim::Answer {
        match (self, step) {
            (Self::SkipsSecrets, claim::Step::LoadSecret(_)) => match answer {
                claim::Answer::Refused(_) => claim::Answer::Secret(BTreeMap::new()),
                answer => answer,
            },
            (Self::RefusesHeld, claim::Step::LoadSourceClaim(..)) => match answer {
                claim::Answer::SourceClaim(found) if found.deleting => {
                    let finalizers = Vec::new().into();
                    claim::Answer::SourceClaim(Box::new(Claim {
                        finalizers,
                        ..*found
                    }))
                }
                answer => answer,
            },
            (Self::ClonesLate, claim::Step::LoadSourceClaim(..)) => match answer {
                claim::Answer::SourceClaim(found) => {
                    let deleted = Some(Timestamp::MAX);
                    claim::Answer::SourceClaim(Box::new(Claim { deleted, ..*found }))
                }
                answer => answer,
            },
            (Self::DeletesOwed, claim::Step::LoadNamesake(..)) => match answer {
                claim::Answer::PersistentVolume(found) => {
                    let source = Source::Csi(Csi {
                        driver: "test-driver".into(),
                        handle: "another".into(),
                    });
                    let found = VolumeDetail { source, ..*found };
                    claim::Answer::PersistentVolume(Box::new(found))
                }
                answer => answer,
            },
            _ => answer,
        }
    }

    /// What a mutant makes of the driver's answer to CreateVolume.
    fn hears_create(self, answer: claim::Answer) -> claim::Answer {
        match (self, answer) {
            (Self::MovesJournal, claim::Answer::Failed(error))
                if error.code == Code::DeadlineExceeded =>
            {
                claim::Answer::Failed(rpc(Code::ResourceExhausted))
            }
            (_, answer) => answer,
        }
    }

    /// What a mutant makes of a conflict, or of an object that is gone.
    pub(super) fn hears_refusal(self, step: Step, error: ApiError) -> Reply {
        match (self, &step) {
            (Self::BelievesConflicts, Step::Claim { .. }) => {
                Reply::Other(step, Answer::Claim(claim::Answer::Done))
            }
            _ => not_done(step, error),
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
            (
                Step::Claim {
                    step,
                    claim,
                    intent,
                },
                _,
            ) => {
                let step = self.decides_claim(step, claim.class_name(), informers);
                Step::Claim {
                    step,
                    claim,
                    intent,
                }
            }
            (Step::Volume(Request::Call(Call::Delete(call))), Key::Volume(name)) => {
                let volume = informers.volumes.get(name);
                let early = volume.and_then(|volume| self.ends_early(name, volume));
                Step::Volume(early.unwrap_or(Request::Call(Call::Delete(call))))
            }
            (step, _) => step,
        }
    }

    fn decides_claim(self, step: claim::Step, class: &str, informers: &Informers) -> claim::Step {
        match (self, step) {
            (Self::NamesAnew, claim::Step::Create(prepared, mut request)) => {
                let class = informers.classes.get(class);
                let class = class.map_or("", |class| &*class.uid);
                request.name = format!("{}-{class}", request.name);
                claim::Step::Create(prepared, request)
            }
            (Self::KeepsNode, claim::Step::Unselect(mut edit, failure)) => {
                edit.unannotate.clear();
                claim::Step::Unselect(edit, failure)
            }
            (_, step) => step,
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
            object: name.clone(),
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

    /// What a mutant makes of the driver's refusal to delete a volume.
    fn hears_delete(self, error: CallError) -> Result<DeleteVolumeResponse, CallError> {
        let believed = match self {
            Self::BelievesNotFound => Some(Code::NotFound),
            Self::BelievesTimeout => Some(Code::DeadlineExceeded),
            _ => None,
        };
        match error {
            CallError::Failed(error) if Some(error.code) == believed => Ok(DeleteVolumeResponse {}),
            error => Err(error),
        }
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
        Reply::Other(
            Step::Claim {
                step: claim::Step::Save(_),
                ..
            },
            _
        )
    )
}
