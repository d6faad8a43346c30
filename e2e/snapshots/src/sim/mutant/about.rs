//! Faulty csi-snapshotters that differ about contents of groups alone.
//!
//! Most of them break a rule that holds for single snapshots, too, and the other tables show that. Here the run has
//! groups, and only the controller for their contents is faulty.

use super::super::world::Faults;
use super::{Caught, Mutant};

impl Mutant {
    /// Mutants that contents of groups must reveal, as well as others do.
    pub(in super::super) const CAUGHT_ABOUT_GROUPS: [Caught; 32] = [
        (Self::TakesCopies, Faults::None, "is nobody's", 18),
        (
            Self::DeletesOnDeletionAlone,
            Faults::None,
            "nobody asked",
            36,
        ),
        (Self::ForgetsMark, Faults::None, "not marked", 2),
        (Self::ForgetsProtection, Faults::None, "not protected", 6),
        (Self::TakesForeign, Faults::None, "another driver", 5),
        (Self::PollsWhatIsKept, Faults::None, "nobody wants", 8),
        (Self::ReleasesFirst, Faults::None, "is nobody's", 1),
        (Self::ClearsFirst, Faults::None, "is cleared before", 1),
        (Self::PatchesAnyVersion, Faults::None, "loses x/y", 188),
        (Self::ReleasesForOthers, Faults::None, "loses x/y", 1),
        (
            Self::AsksWithoutSecret,
            Faults::All,
            "without its Secret",
            2,
        ),
        (Self::BelievesTimeout, Faults::All, "an unknown handle", 2),
        (Self::TakesTimeoutForFinal, Faults::All, "is nobody's", 2),
        (
            Self::TakesUnavailableForFinal,
            Faults::All,
            "is nobody's",
            2,
        ),
        (Self::TakesUnsentForFinal, Faults::All, "is nobody's", 12),
        (Self::BelievesDeleted, Faults::All, "is cleared before", 2),
        (Self::TakesCutForReady, Faults::None, "ready too early", 1),
        (Self::ForgetsRetries, Faults::All, "never ready", 0),
        (Self::ForgetsUnready, Faults::None, "is not ready", 2),
        (Self::RetriesAtOnce, Faults::All, "without end", 6),
        (Self::ForgetsImpossible, Faults::None, "too soon", 19),
        (
            Self::TakesImpossibleForFailure,
            Faults::None,
            "too soon",
            19,
        ),
        (Self::ForgetsOwnWrites, Faults::None, "without effect", 0),
        (
            Self::OverhearsContents,
            Faults::None,
            "stays Terminating",
            1,
        ),
        (Self::LeavesMark, Faults::None, "without end", 1),
        (
            Self::OverlooksMark,
            Faults::Crashes,
            "keeps the mark at rest",
            3,
        ),
        (Self::AsksWithoutLease, Faults::Crashes, "which is gone", 54),
        (Self::TakesNothingOver, Faults::All, "is nobody's", 870),
        (Self::ForgetsForeignClasses, Faults::All, "never ready", 1),
        (Self::DeletesOthers, Faults::None, "not its own", 1),
        (Self::RepeatsReports, Faults::None, "changes nothing", 0),
        (
            Self::WritesOthersAnnotations,
            Faults::None,
            "which is another's",
            1,
        ),
    ];
}
