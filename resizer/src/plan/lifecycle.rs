//! The progress of expansions and modifications, for service levels.
//!
//! Decisions do not use it: the cache derives it from claims, including those that it does not keep.

use sidecar::lifecycle::{Id, Look, Progress, Since, Stage, Step};

use crate::model::ResizeStatus;

/// The stages that csi-resizer measures with a driver that expands or modifies volumes.
#[must_use]
pub fn stages(expand: bool, modify: bool) -> &'static [Stage] {
    const ALL: &[Stage] = &[Stage::ExpandedStorage, Stage::ExpandedNode, Stage::Modified];
    match (expand, modify) {
        (true, true) => ALL,
        (true, false) => &[Stage::ExpandedStorage, Stage::ExpandedNode],
        (false, true) => &[Stage::Modified],
        (false, false) => &[],
    }
}

/// The fields of a claim that its stages depend on.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClaimSeen<'a> {
    /// `metadata.uid`
    pub uid: &'a str,
    /// Whether the claim is bound.
    pub bound: bool,
    /// Whether the request exceeds the capacity.
    pub grows: bool,
    /// `status.allocatedResourceStatuses.storage`
    pub resize: Option<ResizeStatus>,
    /// Whether the claim has the condition `FileSystemResizePending`.
    pub node_left: bool,
    /// Last transition of the condition `Resizing`, in seconds since 1970; 0 without the condition.
    pub resizing: u32,
    /// `spec.volumeAttributesClassName`
    pub class: &'a str,
    /// `status.currentVolumeAttributesClassName`
    pub current_class: &'a str,
    /// Last transition of the condition `ModifyingVolume`, in seconds since 1970; 0 without the condition.
    pub modifying: u32,
}

impl ClaimSeen<'_> {
    /// Whether an expansion or modification is due, by any driver.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.bound && (self.grows || self.is_changing())
    }

    fn is_changing(&self) -> bool {
        !self.class.is_empty() && self.class != self.current_class
    }
}

/// The progress of a claim whose volume is this driver's, or for which no task is due.
#[must_use]
pub fn of_claim(claim: &ClaimSeen<'_>, look: Look) -> Vec<Step<'static>> {
    // Most claims of a list.
    if look == Look::First && !claim.is_open() {
        return Vec::new();
    }
    let object = Id::of(claim.uid);
    let done = Progress::DONE;
    // The claim has the condition only after the first call; before, this process dates the beginning.
    let open = |condition, moves| Progress::Open {
        since: match condition {
            0 => Since::Seen,
            condition => Since::At(condition),
        },
        moves,
    };
    let gone = look == Look::Gone || !claim.bound;
    let at_node = claim.node_left
        || matches!(
            claim.resize,
            Some(
                ResizeStatus::NodePending
                    | ResizeStatus::NodeInProgress
                    | ResizeStatus::NodeInfeasible
            )
        );
    let storage = match claim.grows {
        _ if gone => Progress::Dropped,
        true if !at_node => open(claim.resizing, true),
        // The claim is marked right after its PersistentVolume is written.
        true | false => done,
    };
    // A node expands a volume once a pod uses it, which may be never.
    let moves = claim.resize == Some(ResizeStatus::NodeInProgress);
    let node = match claim.grows {
        _ if gone => Progress::Dropped,
        true => open(claim.resizing, moves),
        false => done,
    };
    let modified = match claim.is_changing() {
        _ if gone => Progress::Dropped,
        true => open(claim.modifying, true),
        // The user took the request back.
        false if claim.class.is_empty() => Progress::Dropped,
        false => done,
    };
    vec![
        Step::new(Stage::ExpandedStorage, object, storage),
        Step::new(Stage::ExpandedNode, object, node),
        Step::new(Stage::Modified, object, modified),
    ]
}

#[cfg(test)]
mod tests;
