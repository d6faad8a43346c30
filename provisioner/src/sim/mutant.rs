//! Faulty provisioners. Each breaks one rule; a simulation that does not notice proves nothing.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each mutant differs in one point"
)]

use std::collections::{BTreeMap, HashSet};

use tonic::Code;

use super::process::Process;
use super::run::{Case, Faults, rpc};
use super::scene::Scene;
use crate::model::{Pairs, Reclaim, Text, Volume, VolumeDetail};
use crate::plan::claim::{Answer, Step};
use crate::plan::delete;
use crate::plan::journal::{self, HEADER};
use crate::plan::memory::{Outcome, Start};
use crate::plan::protection::{Place, Release};
use crate::plan::request::Prepared;
use crate::plan::settings::{Protection, Settings};
use crate::plan::view::View;

const fn case(faults: Faults, protection: Protection, scene: Scene) -> Case {
    Case {
        faults,
        protection,
        scene,
    }
}

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
    /// Repeats a call in doubt with what it would ask today.
    AsksAnew,
    /// Names the volume anew with each class.
    NamesAnew,
    /// Does not retry.
    ForgetsRetries,
    /// Decides by the watch alone.
    ForgetsOwnWrites,
    /// Deletes volumes that are to be kept.
    DeletesKept,
    /// Deletes volumes of other drivers.
    DeletesOthers,
    /// Neither adds nor removes finalizers of volumes that stay.
    IgnoresUpkeep,
    /// Does without the Secret while it is missing.
    SkipsSecrets,
    /// Takes a call that another one holds up for ended.
    BelievesAborted,
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
    /// In which kind of run each must be caught, and by what.
    pub(super) const CAUGHT_BY: [(Self, Case, &'static [&'static str]); 32] = {
        use Faults::{All, Kills, None, Stops};
        use Protection::Journal;
        use Scene::{Apart, Nodes, Places, Plain, Sources};
        const EARLY: &[&str] = &["before its volume"];
        const LOST: &[&str] = &["left over", "while it may be made", "stays behind"];
        const FORGOTTEN: &[&str] = &[
            "left over",
            "while it may be made",
            "stays behind",
            "not empty: doubts",
        ];
        const ANOTHER: &[&str] = &[
            "left over",
            "repeated as another",
            "while it may be made",
            "stays behind",
        ];
        const FREED: &[&str] = &["freed while"];
        const STAYS: &[&str] = &["does not"];
        const RETRY: &[&str] = &["does not", "left over"];
        const TWO: &[&str] = &["two volumes"];
        const UNFENCED: &[&str] = &[
            "is not in the journal",
            "forgotten while",
            "left over",
            "repeated as another",
            "two CreateVolume calls",
        ];
        [
            (Self::RemovesFirst, case(None, Journal, Plain), EARLY),
            (Self::ReleasesFirst, case(None, Journal, Plain), EARLY),
            (
                Self::IgnoresAttachments,
                case(None, Journal, Plain),
                &["while attached"],
            ),
            (Self::BelievesTimeout, case(All, Journal, Plain), EARLY),
            (Self::BelievesNotFound, case(All, Journal, Plain), EARLY),
            (
                Self::CallsEarly,
                case(All, Journal, Plain),
                &["is not in the journal"],
            ),
            (Self::SettlesEarly, case(Kills, Journal, Plain), LOST),
            (
                Self::KeepsIntents,
                case(Kills, Journal, Plain),
                &["stays behind"],
            ),
            (Self::IgnoresEpochs, case(All, Journal, Plain), UNFENCED),
            (Self::RecoversEarly, case(All, Journal, Plain), EARLY),
            (
                Self::ForgetsDeletedClaims,
                case(Stops, Journal, Plain),
                FORGOTTEN,
            ),
            (Self::ForgetsDoubt, case(Stops, Journal, Plain), ANOTHER),
            (Self::AsksAnew, case(Stops, Journal, Plain), ANOTHER),
            (
                Self::NamesAnew,
                case(Stops, Journal, Plain),
                &["two volumes", "left over"],
            ),
            (Self::ForgetsRetries, case(All, Journal, Plain), RETRY),
            (
                Self::ForgetsOwnWrites,
                case(None, Journal, Plain),
                &["calls for"],
            ),
            (
                Self::DeletesKept,
                case(None, Journal, Plain),
                &["to be kept", "finalizer"],
            ),
            (
                Self::DeletesOthers,
                case(None, Journal, Plain),
                &["of another driver"],
            ),
            (
                Self::IgnoresUpkeep,
                case(None, Journal, Plain),
                &["finalizer"],
            ),
            (
                Self::SkipsSecrets,
                case(None, Journal, Plain),
                &["without its Secret"],
            ),
            (Self::BelievesAborted, case(Kills, Journal, Plain), ANOTHER),
            (Self::KeepsNode, case(All, Journal, Places), STAYS),
            (Self::MovesJournal, case(Stops, Journal, Places), ANOTHER),
            (Self::FreesSources, case(Stops, Journal, Sources), FREED),
            (Self::KeepsSources, case(None, Journal, Sources), STAYS),
            (Self::FreesSnapshots, case(Stops, Journal, Sources), FREED),
            (Self::FreesShared, case(Stops, Journal, Sources), FREED),
            (
                Self::KeepsSnapshots,
                case(None, Journal, Sources),
                &["keeps the finalizer", "does not"],
            ),
            (Self::TakesEverything, case(All, Journal, Nodes), TWO),
            (Self::IgnoresNodes, case(None, Journal, Nodes), TWO),
            (Self::IgnoresNodes, case(None, Journal, Apart), TWO),
            (Self::DeletesElsewhere, case(None, Journal, Nodes), EARLY),
        ]
    };

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
            _ => answer,
        }
    }

    /// What a mutant makes of the driver's answer to CreateVolume.
    pub(super) fn hears_create(self, answer: Answer) -> Answer {
        let code = |code| Answer::Failed(rpc(code));
        match (self, answer) {
            (Self::BelievesAborted, Answer::Failed(error)) if error.code == Code::Aborted => {
                code(Code::Internal)
            }
            (Self::MovesJournal, Answer::Failed(error)) if error.code == Code::DeadlineExceeded => {
                code(Code::ResourceExhausted)
            }
            (_, answer) => answer,
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

    /// What a mutant remembers of an attempt.
    pub(super) fn remembers(self, outcome: Outcome<Prepared>) -> Outcome<Prepared> {
        match (self, outcome) {
            (Self::ForgetsDoubt, Outcome::InDoubt(_)) => Outcome::Final { infeasible: None },
            (_, outcome) => outcome,
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
            (Self::RemovesFirst, delete::Step::Delete(_), Volume::Ending(volume)) => {
                delete::Step::Remove {
                    uid: volume.uid.clone(),
                }
            }
            (Self::ReleasesFirst, delete::Step::Delete(_), _) => {
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
