//! The violations by which each mutant is caught.

use super::Mutant;
use crate::plan::settings::Protection;
use crate::sim::run::{Case, Faults};
use crate::sim::scene::Scene;

const fn case(faults: Faults, protection: Protection, scene: Scene) -> Case {
    Case {
        faults,
        protection,
        scene,
    }
}

impl Mutant {
    /// The kind of run in which each mutant must be caught, and the expected violations.
    pub(in crate::sim) const CAUGHT_BY: [(Self, Case, &'static [&'static str]); 54] = {
        use Faults::{All, Kills, None, Stops};
        use Protection::{Journal, Off};
        use Scene::{Apart, Moved, Nodes, Plain, Sources, Topology};
        const EARLY: &[&str] = &["before its volume"];
        const LOST: &[&str] = &["left over", "while it may be made", "stays behind"];
        const FORGOTTEN: &[&str] = &[
            "left over",
            "while it may be made",
            "stays behind",
            "not empty: pending_creates",
        ];
        const ANOTHER: &[&str] = &[
            "left over",
            "repeated as another",
            "while it may be made",
            "stays behind",
        ];
        const FREED: &[&str] = &["freed while"];
        const BARE: &[&str] = &["freed while", "which is not protected"];
        const STAYS: &[&str] = &["does not go"];
        const RETRY: &[&str] = &[
            "does not get",
            "does not go",
            "left over",
            "the finalizer of",
            "stays behind",
        ];
        const STATE: &[&str] = &["not empty"];
        const TWO: &[&str] = &["two volumes"];
        const UNFENCED: &[&str] = &[
            "is not in the journal",
            "forgotten while",
            "left over",
            "repeated as another",
            "stays behind",
            "two CreateVolume calls",
        ];
        [
            (
                Self::WaitsForJournal,
                case(All, Journal, Plain),
                &["does not go", "the work does not end"],
            ),
            (Self::OverlooksObjects, case(All, Journal, Plain), LOST),
            (Self::RemovesFirst, case(None, Journal, Plain), EARLY),
            (Self::ReleasesFirst, case(None, Journal, Plain), EARLY),
            (
                Self::FollowsAtOnce,
                case(All, Journal, Plain),
                &["while attached"],
            ),
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
            (
                Self::RecoversEarly,
                case(All, Journal, Plain),
                &["before its volume", "repeated as another", "stays behind"],
            ),
            (
                Self::ForgetsDeletedClaims,
                case(Stops, Journal, Plain),
                FORGOTTEN,
            ),
            (Self::ForgetsPending, case(Stops, Journal, Plain), ANOTHER),
            (Self::BelievesRefusals, case(All, Journal, Plain), LOST),
            (Self::ForgetsMoved, case(All, Journal, Topology), LOST),
            (Self::ForgetsUnsettled, case(All, Journal, Topology), LOST),
            (
                Self::DeletesUnsettled,
                case(All, Journal, Plain),
                &["has no volume", "stays behind"],
            ),
            (Self::AsksAnew, case(Stops, Journal, Plain), ANOTHER),
            (
                Self::NamesAnew,
                case(Stops, Journal, Plain),
                &["two volumes", "left over"],
            ),
            (Self::RemembersRemoved, case(None, Journal, Plain), STATE),
            (Self::RemembersClaims, case(All, Journal, Sources), STATE),
            (
                Self::Spins,
                case(All, Journal, Topology),
                &["again and again"],
            ),
            (
                Self::BelievesConflicts,
                case(All, Journal, Sources),
                &["not protected"],
            ),
            (
                Self::StartsEarly,
                case(All, Journal, Plain),
                &["while attached", "repeated as another", "forgotten while"],
            ),
            (Self::SweepsEarly, case(All, Journal, Sources), FREED),
            (
                Self::TrustsBrokenWatches,
                case(All, Journal, Plain),
                &["while attached"],
            ),
            (
                Self::NeedsSecrets,
                case(All, Journal, Plain),
                &["while a fault lasts"],
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
                Self::DeletesUnmoved,
                case(None, Journal, Plain),
                &["of another driver"],
            ),
            (
                Self::LeavesUntranslatable,
                case(All, Journal, Moved),
                &["is left over", "forgotten while it may be made"],
            ),
            (
                Self::IgnoresFinalizerAction,
                case(None, Journal, Plain),
                &["finalizer"],
            ),
            (
                Self::SkipsSecrets,
                case(None, Journal, Plain),
                &["without its Secret"],
            ),
            (
                Self::KeepsNode,
                case(All, Journal, Topology),
                // Its node gets requests again and again.
                &["does not get its volume", "does not come to rest"],
            ),
            (Self::MovesJournal, case(Stops, Journal, Topology), ANOTHER),
            (Self::FreesSources, case(Stops, Journal, Sources), BARE),
            (Self::RefusesHeld, case(All, Journal, Sources), STAYS),
            (Self::ClonesLate, case(All, Journal, Sources), BARE),
            (Self::KeepsSources, case(None, Journal, Sources), STAYS),
            (Self::FreesSnapshots, case(Stops, Journal, Sources), FREED),
            (Self::FreesShared, case(Stops, Journal, Sources), FREED),
            (
                Self::KeepsSnapshots,
                case(None, Journal, Sources),
                &["keeps the finalizer", "does not go"],
            ),
            (
                Self::TakesEverything,
                case(All, Journal, Nodes),
                &["two volumes", "moved while it may be made"],
            ),
            (Self::IgnoresNodes, case(None, Journal, Nodes), TWO),
            (Self::IgnoresNodes, case(None, Journal, Apart), TWO),
            (Self::DeletesElsewhere, case(None, Journal, Nodes), EARLY),
            (
                Self::LeavesSaved,
                case(None, Journal, Plain),
                &["finalizer"],
            ),
            (
                Self::ForgetsReads,
                case(All, Off, Topology),
                &["repeated as another"],
            ),
            (
                Self::LeavesUnsettled,
                case(All, Journal, Topology),
                &["stays behind"],
            ),
            (Self::LeavesSources, case(None, Journal, Sources), STAYS),
        ]
    };
}
