//! Faulty provisioners. Each breaks one rule; a simulation that does not notice proves nothing.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each mutant differs in one point"
)]

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use tonic::Code;

use super::process::Process;
use super::run::rpc;
use crate::model::{Csi, Pairs, Reclaim, Source, Text, Volume, VolumeDetail};
use crate::plan::claim::{Answer, Failure, Step};
use crate::plan::delete;
use crate::plan::journal::{self, HEADER};
use crate::plan::memory::{Outcome, Start};
use crate::plan::outcome::ApiError;
use crate::plan::protection::{Place, Release};
use crate::plan::request::Prepared;
use crate::plan::settings::Settings;
use crate::plan::view::View;

mod caught;

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
    IgnoresUpkeep,
    /// Does without the Secret while it is missing.
    SkipsSecrets,
    /// Leaves a node without room selected.
    KeepsNode,
    /// Gives up a node while the driver may still be working there.
    MovesJournal,
    /// Frees the sources of claims that are being made.
    FreesSources,
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
            Self::DeletesOthers => volume.owner.csi_driver = Some("test-driver".into()),
            Self::DeletesUnmoved if volume.owner.in_tree => {
                volume.owner.migrated_to = Some("test-driver".into());
            }
            _ => {}
        }
        volume.keep()
    }

    /// What a mutant reads.
    pub(super) fn reads(self, step: &Step, answer: Answer) -> Answer {
        match (self, step) {
            (Self::SkipsSecrets, Step::LoadSecret(_)) => match answer {
                Answer::Refused(_) => Answer::Secret(BTreeMap::new()),
                answer => answer,
            },
            (Self::DeletesOwed, Step::LoadNamesake(..)) => match answer {
                Answer::PersistentVolume(found) => {
                    let source = Source::Csi(Csi {
                        driver: "test-driver".into(),
                        handle: "another".into(),
                    });
                    Answer::PersistentVolume(Box::new(VolumeDetail { source, ..*found }))
                }
                answer => answer,
            },
            _ => answer,
        }
    }

    /// What a mutant makes of the driver's answer to CreateVolume.
    pub(super) fn hears_create(self, answer: Answer) -> Answer {
        let code = |code| Answer::Failed(rpc(code));
        match (self, answer) {
            (Self::MovesJournal, Answer::Failed(error)) if error.code == Code::DeadlineExceeded => {
                code(Code::ResourceExhausted)
            }
            (_, answer) => answer,
        }
    }

    /// What a mutant makes of a conflict.
    pub(super) fn hears_conflict(self, error: ApiError) -> Answer {
        match self {
            Self::BelievesConflicts => Answer::Done,
            _ => Answer::Refused(error),
        }
    }

    /// What a mutant makes of the decision on a cloned claim.
    pub(super) fn frees(self, release: Release) -> Release {
        match (self, release) {
            (Self::FreesSources, Release::Needed { .. }) => Release::Due,
            (Self::KeepsSources, _) => Release::None,
            (_, release) => release,
        }
    }

    /// Which snapshots a mutant spares.
    pub(super) fn spares(self, restored: HashSet<Place>) -> HashSet<Place> {
        match self {
            Self::FreesSnapshots => HashSet::new(),
            _ => restored,
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

    /// Which node a mutant takes for its own when it deletes.
    pub(super) fn lives_on(self, node: Option<&Pairs>) -> Option<&Pairs> {
        node.filter(|_| self != Self::DeletesElsewhere)
    }

    /// What a mutant begins an attempt with.
    pub(super) fn begins(self, start: Start<Prepared>) -> Start<Prepared> {
        match self {
            Self::AsksAnew => Start {
                doubt: None,
                ..start
            },
            _ => start,
        }
    }

    /// What a mutant makes of the decision on a claim.
    pub(super) fn decides(self, step: Step, view: &View<'_>) -> Step {
        match (self, step) {
            (Self::NamesAnew, Step::Create(prepared, mut request)) => {
                let class = view.class.map_or("", |class| &*class.uid);
                request.name = format!("{}-{class}", request.name);
                Step::Create(prepared, request)
            }
            (Self::KeepsNode, Step::Unselect(mut edit, failure)) => {
                edit.unannotate.clear();
                Step::Unselect(edit, failure)
            }
            (_, step) => step,
        }
    }

    /// What a mutant remembers of an attempt: of what it asked last, and what else is in doubt.
    pub(super) fn remembers(
        self,
        (outcome, mut owed): (Outcome<Prepared>, Vec<Arc<Prepared>>),
        failure: Option<&Failure>,
    ) -> (Outcome<Prepared>, Vec<Arc<Prepared>>) {
        match (self, outcome) {
            (Self::ForgetsDoubt, Outcome::InDoubt(_)) => {
                (Outcome::Final { infeasible: None }, owed)
            }
            (Self::BelievesRefusals, Outcome::Final { infeasible }) => {
                if matches!(failure, Some(Failure::Call(_) | Failure::Full(_))) {
                    owed.clear();
                }
                (Outcome::Final { infeasible }, owed)
            }
            (Self::ForgetsMoved, outcome) => {
                if matches!(failure, Some(Failure::Full(_))) {
                    owed.clear();
                }
                (outcome, owed)
            }
            (Self::ForgetsOwed, Outcome::Over) => (Outcome::Over, Vec::new()),
            (_, outcome) => (outcome, owed),
        }
    }

    /// What a mutant reads in the journal.
    pub(super) fn reads_journal(
        self,
        mut answer: journal::Answer,
        process: &Process,
    ) -> journal::Answer {
        if self == Self::IgnoresEpochs
            && process.journal.is_open()
            && let journal::Answer::Found(Some(found)) = &mut answer
            && let Some(header) = &process.header
        {
            found.annotations.insert(HEADER.to_owned(), header.clone());
        }
        answer
    }

    /// What a mutant takes for the node that a volume is attached to.
    pub(super) fn sees_attachment(self, node: Option<&Text>) -> Option<&Text> {
        node.filter(|_| self != Self::IgnoresAttachments)
    }

    /// What a mutant makes of the decision on a volume.
    pub(super) fn decides_volume(
        self,
        step: delete::Step,
        view: &delete::View<'_>,
    ) -> delete::Step {
        match (self, step, view.volume) {
            (Self::RemovesFirst, delete::Step::Delete(..), Volume::Ending(volume)) => {
                delete::Step::Remove {
                    uid: volume.uid.clone(),
                }
            }
            (Self::ReleasesFirst, delete::Step::Delete(..), _) => {
                delete::Step::Release(delete::removing())
            }
            (Self::IgnoresUpkeep, delete::Step::Upkeep(_), _) => delete::Step::Done,
            (_, step, _) => step,
        }
    }

    /// What a mutant makes of the driver's answer to DeleteVolume.
    pub(super) fn hears_delete(self, answer: delete::Answer) -> delete::Answer {
        let believed = match self {
            Self::BelievesNotFound => Some(Code::NotFound),
            Self::BelievesTimeout => Some(Code::DeadlineExceeded),
            _ => None,
        };
        match answer {
            delete::Answer::Failed(error) if Some(error.code) == believed => {
                delete::Answer::Deleted
            }
            answer => answer,
        }
    }

    /// Whether a mutant tries once only.
    pub(super) fn forgets_retries(self) -> bool {
        self == Self::ForgetsRetries
    }

    /// Whether a mutant believes the watch alone.
    pub(super) fn forgets_own_writes(self) -> bool {
        self == Self::ForgetsOwnWrites
    }
}
