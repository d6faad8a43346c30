//! Faulty versions of the two programs. Each breaks one rule; a simulation that misses one proves
//! nothing.
//!
//! They wrap the reactors as shipped and change their input or their requests.
//!
//! | file | mutants |
//! |---|---|
//! | `controller` | those of the snapshot-controller |
//! | `snapshotter`, `hears` | those of csi-snapshotter: its input and its requests, the driver's answers |
//! | `group` | those that only groups can reveal |
//! | `about` | those of csi-snapshotter that contents of groups must reveal, too |

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each mutant differs in one point"
)]

mod about;
mod controller;
mod group;
mod hears;
mod snapshotter;

use super::world::Faults;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    /// The programs as shipped.
    None,
    // --- snapshot-controller
    /// Deletes contents despite their policy.
    IgnoresPolicy,
    /// Deletes a content of any version.
    DeletesAnything,
    /// Does not mark contents whose VolumeSnapshot is being deleted.
    ForgetsToAnnounce,
    /// Marks and deletes contents while their VolumeSnapshot exists.
    DeletesForTheLiving,
    /// Reports a VolumeSnapshot as ready as soon as it has a content.
    CallsReadyEarly,
    /// Does not read a content from the server that the cache lacks.
    TrustsTheCache,
    /// Misses changes of contents.
    ControllerOverhearsContents,
    /// Does not retry.
    ControllerForgetsRetries,
    /// Removes the finalizers of others.
    FreesForOthers,
    /// Creates contents without a finalizer, as upstream does.
    PostsWithoutFinalizer,
    /// Adds no finalizer to contents that an administrator made.
    LeavesContentsBare,
    /// Takes a lost snapshot a second time.
    TakesAnew,
    /// Does not look at a claim whose last VolumeSnapshot is gone.
    ForgetsClaims,
    /// Forgets the cause of a failure: changes of classes and volumes do not wake it.
    ForgetsTriggers,
    /// Misses the deletion of a VolumeSnapshot, and keeps its state.
    RemembersWhatIsGone,
    /// Replaces finalizers of any version.
    PatchesAnything,
    /// Warns users of conflicts.
    TellsOfConflicts,
    /// Ignores that claims are being restored.
    IgnoresRestores,
    /// Lets several attempts write to one claim at once.
    WritesAtOnce,
    /// Keeps a claim protected for a VolumeSnapshot that was not begun.
    CountsWhatNeverBegan,
    /// Keeps a claim protected for a VolumeSnapshot that lost its content.
    CountsWhatIsLost,
    /// Finds contents only by the names that it gives them, as upstream does.
    ForgetsWhatIsBound,
    /// Treats each claim of another namespace as permitted to restore.
    WaitsForStrangers,
    // --- csi-snapshotter
    /// Deletes as soon as the content is being deleted, even if its VolumeSnapshot is not.
    DeletesOnDeletionAlone,
    /// Calls CreateSnapshot without a mark on the content.
    ForgetsMark,
    /// Releases a content while a call's outcome is unknown.
    DeletesInDoubt,
    /// Ignores the deletion policy.
    DeletesRetained,
    /// Removes the mark before the handle is stored.
    UnmarksFirst,
    /// Releases the content before the snapshot is deleted.
    ReleasesFirst,
    /// Requests each snapshot under a new name.
    NamesAnew,
    /// Takes an expired deadline for a final error.
    TakesTimeoutForFinal,
    /// Takes every result of a deletion for success.
    BelievesDeleted,
    /// Reports a cut snapshot as ready.
    TakesCutForReady,
    /// Takes any snapshot in an answer for the one on record.
    TakesOther,
    /// Calls the driver after its lease expired.
    AsksWithoutLease,
    /// Notices contents only once.
    OverhearsContents,
    /// Does not retry.
    ForgetsRetries,
    /// Polls snapshots that nobody wants to become ready.
    PollsWhatIsKept,
    /// Clears the handle before the snapshot is deleted.
    ClearsFirst,
    /// Releases a content along with all other holders.
    ReleasesForOthers,
    /// Calls without a Secret that it could not read.
    AsksWithoutSecret,
    /// Takes an expired deadline for success.
    BelievesTimeout,
    /// Takes `Unavailable` for a final error.
    TakesUnavailableForFinal,
    /// Takes an unreachable driver for a refusal.
    TakesUnsentForFinal,
    /// Takes an existing snapshot for a group's member because of a copied annotation.
    TakesCopies,
    /// Does not poll snapshots that are not ready.
    ForgetsUnready,
    /// Retries without back-off.
    RetriesAtOnce,
    /// Forgets that the driver called a request impossible.
    ForgetsImpossible,
    /// Ignores its own writes until the watch shows them.
    ForgetsOwnWrites,
    /// Never removes the mark.
    LeavesMark,
    /// Leaves the mark on contents whose handle is stored.
    OverlooksMark,
    /// Retries a request that the driver called impossible as if it had only failed.
    TakesImpossibleForFailure,
    /// Deletes another snapshot than the content's.
    DeletesOthers,
    /// Reports a snapshot as ready as soon as it is listed.
    TakesListedForReady,
    /// Writes a report that the status has already.
    RepeatsReports,
    /// Requests a snapshot again although it is ready.
    PollsOnceMore,
    /// Does not say what the driver lost.
    HidesLosses,
    /// Writes an annotation that is another program's.
    WritesOthersAnnotations,
    /// Relies on marks that an older patch under way may remove.
    TakesNothingOver,
    /// Ignores the topology of a snapshot.
    OverhearsTopology,
    // --- csi-snapshotter, in a crowded cluster: beside other drivers, older tools and Secrets for look-ups
    /// Calls CreateSnapshot for a content without a finalizer.
    ForgetsProtection,
    /// Works for other drivers.
    TakesForeign,
    /// Patches contents of any version.
    PatchesAnyVersion,
    /// Takes the first entry of a list for the right one.
    TakesFirstEntry,
    /// Accepts an entry of a list only if its handle is spelled as requested.
    TakesOnlyEqual,
    /// Does not check again when a class passes to its driver.
    ForgetsForeignClasses,
    // --- groups: snapshot-controller
    /// Adds no finalizer to a group.
    LeavesGroupsBare,
    /// Deletes contents of groups despite their policy.
    IgnoresGroupPolicy,
    /// Does not mark contents of groups whose group is being deleted.
    ForgetsToAnnounceGroups,
    /// Deletes a group as soon as it is ready.
    DeletesForLivingGroups,
    /// Releases a member that is being deleted before its group.
    FreesMembers,
    /// Writes the driver's first report into members again and again.
    ResetsMembers,
    /// Binds a member's content to any VolumeSnapshot.
    BindsWrongly,
    /// Writes the first snapshot of a group into the second member.
    MixesMembersUp,
    /// Ignores that claims are being restored.
    OverhearsRestores,
    /// Does not read a group's content from the server that the cache lacks.
    TrustsTheCacheOfGroups,
    /// Misses changes of contents of groups.
    ControllerOverhearsGroupContents,
    /// Ignores which VolumeSnapshots a group owns.
    OverhearsOwners,
    /// Gives detached members their owner back, as upstream does.
    AdoptsWhatIsLoose,
    // --- groups: csi-snapshotter
    /// Calls CreateSnapshot for a member.
    TakesMembers,
    /// Deletes the snapshot of a member along with its content.
    DeletesMembers,
    /// Deletes a group without listing its members.
    NamesNoMembers,
    /// Does not record the members of a group.
    ForgetsMembers,
    /// Clears the members of a group that is being deleted.
    ChangesMembers,
    /// Releases the content of a group while a call's outcome is unknown.
    DeletesGroupsInDoubt,
    /// Ignores the deletion policy of groups.
    DeletesRetainedGroups,
    /// Removes the mark before the handle of a group is stored.
    UnmarksGroupsFirst,
    /// Requests each group under a new name.
    NamesGroupsAnew,
    /// Invents the missing parts of an answer about a group.
    CompletesAnswers,
    /// Takes an answer about another group for its own.
    BelievesOtherGroups,
    /// Writes the recorded members of a group in another order.
    ReordersMembers,
}

/// A mutant, the faults under which it must be caught, the violation, and a seed whose run shows it: the
/// first one, until the simulation changes. `seeds` prints them.
pub(super) type Caught = (Mutant, Faults, &'static str, u64);

impl Mutant {
    /// All mutants that need neither groups nor a crowded cluster.
    pub(super) const CAUGHT_BY: [Caught; 60] = [
        (Self::IgnoresPolicy, Faults::None, "was to be kept", 1),
        (Self::DeletesAnything, Faults::None, "was to be kept", 46),
        (
            Self::ForgetsToAnnounce,
            Faults::None,
            "stays Terminating",
            0,
        ),
        (Self::DeletesForTheLiving, Faults::None, "lives", 0),
        (Self::CallsReadyEarly, Faults::None, "too early", 0),
        (Self::TrustsTheCache, Faults::All, "goes before", 14),
        (Self::ControllerOverhearsContents, Faults::None, "", 0),
        (Self::ControllerForgetsRetries, Faults::All, "", 18),
        (Self::FreesForOthers, Faults::None, "loses", 10),
        (
            Self::PostsWithoutFinalizer,
            Faults::None,
            "not protected",
            0,
        ),
        (Self::LeavesContentsBare, Faults::None, "is nobody's", 63),
        (Self::TakesAnew, Faults::All, "although it was taken", 908),
        (Self::ForgetsClaims, Faults::Strips, "held for ever", 0),
        (Self::ForgetsTriggers, Faults::None, "never ready", 4),
        (Self::RemembersWhatIsGone, Faults::None, "left behind: [", 0),
        (Self::PatchesAnything, Faults::None, "loses", 34),
        (
            Self::TellsOfConflicts,
            Faults::None,
            "tells of a conflict",
            1,
        ),
        (Self::IgnoresRestores, Faults::None, "being restored", 8),
        (Self::WritesAtOnce, Faults::None, "not protected", 11),
        (Self::CountsWhatNeverBegan, Faults::None, "held for ever", 1),
        (Self::CountsWhatIsLost, Faults::All, "held for ever", 321),
        (
            Self::ForgetsWhatIsBound,
            Faults::None,
            "beside what it is",
            2,
        ),
        (Self::WaitsForStrangers, Faults::None, "Terminating", 0),
        (
            Self::DeletesOnDeletionAlone,
            Faults::None,
            "nobody asked",
            10,
        ),
        (Self::ForgetsMark, Faults::None, "not marked", 0),
        (Self::DeletesInDoubt, Faults::All, "is nobody's", 2),
        (Self::DeletesRetained, Faults::None, "retained", 8),
        (Self::UnmarksFirst, Faults::None, "is nobody's", 0),
        (Self::ReleasesFirst, Faults::None, "is nobody's", 0),
        (Self::NamesAnew, Faults::None, "another name", 0),
        (Self::TakesTimeoutForFinal, Faults::All, "is nobody's", 69),
        (Self::BelievesDeleted, Faults::All, "is cleared before", 27),
        (Self::TakesCutForReady, Faults::None, "ready too early", 0),
        (
            Self::TakesOther,
            Faults::All,
            "its snapshot is not there",
            485,
        ),
        (
            Self::AsksWithoutLease,
            Faults::Crashes,
            "before the call",
            88,
        ),
        (
            Self::OverhearsContents,
            Faults::None,
            "stays Terminating",
            0,
        ),
        (Self::ForgetsRetries, Faults::All, "never ready", 13),
        (Self::PollsWhatIsKept, Faults::None, "nobody wants", 12),
        (Self::ClearsFirst, Faults::None, "is cleared before", 0),
        (Self::ReleasesForOthers, Faults::None, "loses x/y", 15),
        (
            Self::AsksWithoutSecret,
            Faults::All,
            "without its Secret",
            1,
        ),
        (Self::BelievesTimeout, Faults::All, "an unknown handle", 21),
        (
            Self::TakesUnavailableForFinal,
            Faults::All,
            "is nobody's",
            2,
        ),
        (Self::TakesUnsentForFinal, Faults::All, "is nobody's", 33),
        (Self::TakesCopies, Faults::None, "is nobody's", 63),
        (Self::ForgetsUnready, Faults::None, "is not ready", 1),
        (Self::RetriesAtOnce, Faults::None, "without end", 113),
        (Self::ForgetsImpossible, Faults::None, "too soon", 18),
        (Self::ForgetsOwnWrites, Faults::None, "without effect", 0),
        (Self::LeavesMark, Faults::None, "without end", 0),
        (
            Self::OverlooksMark,
            Faults::Crashes,
            "keeps the mark at rest",
            0,
        ),
        (
            Self::TakesImpossibleForFailure,
            Faults::None,
            "too soon",
            18,
        ),
        (Self::DeletesOthers, Faults::None, "not its own", 0),
        (
            Self::TakesListedForReady,
            Faults::None,
            "reported as ready too early",
            0,
        ),
        (Self::RepeatsReports, Faults::None, "changes nothing", 0),
        (Self::PollsOnceMore, Faults::None, "had to be repeated", 1),
        (Self::HidesLosses, Faults::All, "does not tell of", 273),
        (
            Self::WritesOthersAnnotations,
            Faults::None,
            "which is another's",
            0,
        ),
        (Self::TakesNothingOver, Faults::All, "is nobody's", 76),
        (
            Self::OverhearsTopology,
            Faults::None,
            "without its topology",
            0,
        ),
    ];

    /// Mutants of csi-snapshotter that only a crowded cluster can reveal.
    pub(super) const CAUGHT_IN_A_CROWD: [Caught; 6] = [
        (Self::ForgetsProtection, Faults::None, "not protected", 3),
        (Self::TakesForeign, Faults::None, "another driver", 3),
        (Self::PatchesAnyVersion, Faults::None, "loses x/y", 8),
        (Self::TakesFirstEntry, Faults::None, "another size", 1),
        (Self::TakesOnlyEqual, Faults::None, "is not ready", 0),
        (Self::ForgetsForeignClasses, Faults::All, "never ready", 3),
    ];

    /// Whether a run needs groups to reveal it; `None` for the programs as shipped.
    pub(super) fn needs_groups(self) -> Option<bool> {
        self.is_one_of(&Self::CAUGHT_WITH_GROUPS)
    }

    /// Whether a run needs a crowded cluster to reveal it; `None` for the programs as shipped.
    pub(super) fn needs_crowd(self) -> Option<bool> {
        self.is_one_of(&Self::CAUGHT_IN_A_CROWD)
    }

    fn is_one_of(self, table: &[Caught]) -> Option<bool> {
        let mut mutants = table.iter();
        (self != Self::None).then(|| mutants.any(|(mutant, ..)| *mutant == self))
    }
}
