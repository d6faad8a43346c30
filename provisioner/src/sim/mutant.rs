//! Faulty provisioners. Each breaks one rule; a simulation that does not notice proves nothing.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each mutant differs in one point"
)]

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use tonic::Code;

use super::run::{Case, Faults, rpc};
use super::scene::Scene;
use crate::keys::{DOUBT_FINALIZER, SELECTED_NODE};
use crate::model::{Claim, Pairs, Reclaim, Text, Volume, VolumeDetail};
use crate::plan::claim::{Answer, End, Step};
use crate::plan::delete;
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
    /// Records no doubt on the claim.
    RecordsNothing,
    /// Records doubt when it is there, not before the first call.
    RecordsLate,
    /// Stops without recording what is running.
    StopsAtOnce,
    /// Leaves the record on the claim.
    KeepsRecords,
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
    /// Knows nothing of a record that it did not write.
    OverlooksRecords,
    /// Leaves a node without room selected.
    KeepsNode,
    /// Gives up a node while the driver may still be working there.
    MovesInDoubt,
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
    pub(super) const CAUGHT_BY: [(Self, Case, &'static [&'static str]); 31] = {
        use Faults::{All, Kills, None, Stops};
        use Protection::{Always, InDoubt};
        use Scene::{Nodes, Places, Plain, Sources};
        const EARLY: &[&str] = &["before its volume"];
        const LOST: &[&str] = &["left over", "while it may be made"];
        const FORGOTTEN: &[&str] = &["left over", "while it may be made", "not empty: doubts"];
        const ANOTHER: &[&str] = &["left over", "repeated as another", "while it may be made"];
        const FREED: &[&str] = &["freed while"];
        const STAYS: &[&str] = &["does not"];
        const RETRY: &[&str] = &["does not", "left over"];
        const TWO: &[&str] = &["two volumes"];
        [
            (Self::RemovesFirst, case(None, InDoubt, Plain), EARLY),
            (Self::ReleasesFirst, case(None, InDoubt, Plain), EARLY),
            (
                Self::IgnoresAttachments,
                case(None, InDoubt, Plain),
                &["while attached"],
            ),
            (Self::BelievesTimeout, case(All, InDoubt, Plain), EARLY),
            (Self::BelievesNotFound, case(All, InDoubt, Plain), EARLY),
            (Self::RecordsNothing, case(Stops, InDoubt, Plain), LOST),
            (Self::RecordsLate, case(Kills, Always, Plain), LOST),
            (Self::StopsAtOnce, case(Stops, InDoubt, Plain), LOST),
            (
                Self::KeepsRecords,
                case(Kills, Always, Plain),
                &["stays behind", "does not go"],
            ),
            (
                Self::ForgetsDeletedClaims,
                case(Stops, InDoubt, Plain),
                FORGOTTEN,
            ),
            (Self::ForgetsDoubt, case(Stops, InDoubt, Plain), ANOTHER),
            (Self::AsksAnew, case(Stops, InDoubt, Plain), ANOTHER),
            (
                Self::NamesAnew,
                case(Stops, InDoubt, Plain),
                &["two volumes", "left over"],
            ),
            (Self::ForgetsRetries, case(All, InDoubt, Plain), RETRY),
            (
                Self::ForgetsOwnWrites,
                case(None, InDoubt, Plain),
                &["calls for"],
            ),
            (
                Self::DeletesKept,
                case(None, InDoubt, Plain),
                &["to be kept"],
            ),
            (
                Self::DeletesOthers,
                case(None, InDoubt, Plain),
                &["of another driver"],
            ),
            (
                Self::IgnoresUpkeep,
                case(None, InDoubt, Plain),
                &["finalizer"],
            ),
            (
                Self::SkipsSecrets,
                case(None, InDoubt, Plain),
                &["without its Secret"],
            ),
            (Self::BelievesAborted, case(Kills, Always, Plain), ANOTHER),
            (
                Self::OverlooksRecords,
                case(Stops, InDoubt, Places),
                &["repeated as another", "stays behind"],
            ),
            (Self::KeepsNode, case(All, InDoubt, Places), STAYS),
            (Self::MovesInDoubt, case(Stops, InDoubt, Places), ANOTHER),
            (Self::FreesSources, case(Stops, InDoubt, Sources), FREED),
            (Self::KeepsSources, case(None, InDoubt, Sources), STAYS),
            (Self::FreesSnapshots, case(Stops, InDoubt, Sources), FREED),
            (Self::FreesShared, case(Stops, InDoubt, Sources), RETRY),
            (
                Self::KeepsSnapshots,
                case(None, InDoubt, Sources),
                &["keeps the finalizer", "does not"],
            ),
            (Self::TakesEverything, case(All, InDoubt, Nodes), TWO),
            (Self::IgnoresNodes, case(None, InDoubt, Nodes), TWO),
            (Self::DeletesElsewhere, case(None, InDoubt, Nodes), EARLY),
        ]
    };

    /// What a mutant makes of the command line.
    pub(super) fn configures(self, settings: &mut Settings) {
        match self {
            Self::RecordsNothing => settings.protection = Protection::Off,
            Self::RecordsLate => settings.protection = Protection::InDoubt,
            Self::IgnoresNodes => settings.node = None,
            _ => {}
        }
    }

    /// What a mutant takes the claim for.
    pub(super) fn sees_claim(self, claim: &Claim) -> Cow<'_, Claim> {
        if self != Self::OverlooksRecords || !claim.has_finalizer(DOUBT_FINALIZER) {
            return Cow::Borrowed(claim);
        }
        let others = { claim.finalizers.iter() }.filter(|held| ***held != *DOUBT_FINALIZER);
        Cow::Owned(Claim {
            finalizers: others.cloned().collect(),
            ..claim.clone()
        })
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
            (Self::MovesInDoubt, Answer::Failed(error)) if error.code == Code::DeadlineExceeded => {
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
            (Self::KeepsRecords, Step::Settle(_, None)) => Step::Done(End::Provisioned),
            (Self::NamesAnew, Step::Create(prepared, mut request)) => {
                let class = view.class.map_or("", |class| &*class.uid);
                request.name = format!("{}-{class}", request.name);
                Step::Create(prepared, request)
            }
            (Self::KeepsNode, Step::Settle(mut edit, failure)) => {
                edit.unannotate.retain(|key| *key != SELECTED_NODE);
                Step::Settle(edit, failure)
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

    /// Whether a mutant stops without recording anything.
    pub(super) fn drops_doubts(self) -> bool {
        self == Self::StopsAtOnce
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
