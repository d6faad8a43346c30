//! Records of objects that may be gone.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sidecar::text::Text;

/// Records for the checks.
#[derive(Default)]
pub(super) struct Seen {
    /// Position in the server's log.
    pub(super) cursor: usize,
    /// The last state of each content.
    pub(super) contents: BTreeMap<Text, Value>,
    /// Contents whose policy was `Delete` at some time.
    pub(super) deletable: BTreeSet<Text>,
    /// Handles and names of snapshots that outlive their contents.
    pub(super) kept: BTreeSet<Text>,
    /// Contents whose policy users changed while the VolumeSnapshot was being deleted or gone.
    pub(super) reconsidered: BTreeSet<Text>,
    /// Names of snapshots that the driver reported and then lost.
    pub(super) forgotten: BTreeSet<Text>,
    /// UIDs of VolumeSnapshots whose content users removed.
    pub(super) robbed: BTreeSet<Text>,
    /// Contents that users kept when they removed the VolumeSnapshot.
    pub(super) loose: BTreeSet<Text>,
    /// UIDs of VolumeSnapshots that may go while their content stays: removed by force, or without finalizers because
    /// users took them off.
    pub(super) stripped: BTreeSet<Text>,
    /// UIDs of members that users detached from their group.
    pub(super) cut: BTreeSet<Text>,
    /// Number of contents created, by UID of their VolumeSnapshot.
    pub(super) made: BTreeMap<Text, usize>,
    /// Calls to create a snapshot, by its name.
    pub(super) calls: BTreeMap<String, Calls>,
    /// Whether a user is acting.
    pub(super) by_hand: bool,
    /// The state at the last check, which need not be repeated for the same state.
    pub(super) checked: Stamp,
    pub(super) stored: Stamp,
}

/// Calls to create one snapshot.
#[derive(Default)]
pub(super) struct Calls {
    /// Number of calls.
    pub(super) made: usize,
    /// How many of them gave a reason for another one: they failed, the snapshot was not ready, or the answer came when
    /// nobody wanted it.
    pub(super) repeatable: usize,
}

/// The versions of the server and of storage.
pub(super) type Stamp = Option<(u64, (u64, usize, usize))>;
