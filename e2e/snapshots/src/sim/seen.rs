//! What was seen of objects that may be gone.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sidecar::text::Text;

/// See the module.
#[derive(Default)]
pub(super) struct Seen {
    /// How far into the server's log.
    pub(super) cursor: usize,
    /// Contents as they were last.
    pub(super) contents: BTreeMap<Text, Value>,
    /// Contents whose policy was to delete at some time.
    pub(super) deletable: BTreeSet<Text>,
    /// Handles and names of snapshots that outlive their contents.
    pub(super) kept: BTreeSet<Text>,
    /// Contents whose policy users changed when their VolumeSnapshot was going or gone.
    pub(super) reconsidered: BTreeSet<Text>,
    /// Names of snapshots that the driver lost after it had told of them.
    pub(super) forgotten: BTreeSet<Text>,
    /// UIDs of VolumeSnapshots whose content users took away.
    pub(super) robbed: BTreeSet<Text>,
    /// Contents that users kept when they took the VolumeSnapshot away.
    pub(super) loose: BTreeSet<Text>,
    /// UIDs of VolumeSnapshots that may go although their content stays: by force, or since users took away
    /// what held them.
    pub(super) stripped: BTreeSet<Text>,
    /// UIDs of members that users cut loose from their group.
    pub(super) cut: BTreeSet<Text>,
    /// Contents made, by UID of their VolumeSnapshot.
    pub(super) made: BTreeMap<Text, usize>,
    /// How often the driver was asked for a snapshot, and answered that it is not ready.
    pub(super) calls: BTreeMap<Text, usize>,
    /// Whether a user is at work.
    pub(super) by_hand: bool,
    /// What was looked at last: nothing can have become wrong while it is the same.
    pub(super) checked: Stamp,
    pub(super) stored: Stamp,
}

/// The server's version, and what the storage says of itself.
pub(super) type Stamp = Option<(u64, (u64, usize, usize))>;
