//! Faulty provisioners. Each breaks one rule; a simulation that does not notice proves nothing.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each mutant differs in one point"
)]

use tonic::Code;

use super::run::Faults;
use crate::model::{Text, Volume};
use crate::plan::claim::{End, Step};
use crate::plan::delete;
use crate::plan::memory::{Outcome, Start};
use crate::plan::request::Prepared;
use crate::plan::settings::Protection;
use crate::plan::view::View;

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
}

impl Mutant {
    /// Under which faults and protection each must be caught, and by what.
    pub(super) const CAUGHT_BY: [(Self, Faults, Protection, &'static [&'static str]); 15] = {
        use Faults::{All, Kills, None, Stops};
        use Protection::{Always, InDoubt};
        [
            (Self::RemovesFirst, None, InDoubt, &["before its volume"]),
            (Self::ReleasesFirst, None, InDoubt, &["before its volume"]),
            (
                Self::IgnoresAttachments,
                None,
                InDoubt,
                &["deleted while attached"],
            ),
            (Self::BelievesTimeout, All, InDoubt, &["before its volume"]),
            (Self::BelievesNotFound, All, InDoubt, &["before its volume"]),
            (Self::RecordsNothing, Stops, InDoubt, &["left over"]),
            (Self::RecordsLate, Kills, Always, &["left over"]),
            (Self::StopsAtOnce, Stops, InDoubt, &["left over"]),
            (
                Self::KeepsRecords,
                Kills,
                Always,
                &["record stays behind", "does not go"],
            ),
            (Self::ForgetsDeletedClaims, Stops, InDoubt, &["left over"]),
            (
                Self::ForgetsDoubt,
                Stops,
                InDoubt,
                &["left over", "repeated as another"],
            ),
            (
                Self::AsksAnew,
                Stops,
                InDoubt,
                &["left over", "repeated as another"],
            ),
            (
                Self::NamesAnew,
                Stops,
                InDoubt,
                &["two volumes", "left over"],
            ),
            (Self::ForgetsRetries, All, InDoubt, &["does not"]),
            (Self::ForgetsOwnWrites, None, InDoubt, &["calls for"]),
        ]
    };

    /// With which protection a mutant works where `protection` is asked for.
    pub(super) fn protects(self, protection: Protection) -> Protection {
        match self {
            Self::RecordsNothing => Protection::Off,
            Self::RecordsLate => Protection::InDoubt,
            _ => protection,
        }
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
