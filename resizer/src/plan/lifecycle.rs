//! How far expansions and modifications have come, for figures of service levels.
//!
//! Decisions know nothing of it: it is read off claims, also off those of which nothing is kept.

use sidecar::lifecycle::{End, Id, Look, Since, Stage, Step, What};

use crate::model::ResizeStatus;

/// What csi-resizer measures with a driver that expands or modifies volumes.
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

/// What is looked at of a claim.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClaimSeen<'a> {
    /// `metadata.uid`
    pub uid: &'a str,
    /// Whether it has its volume.
    pub bound: bool,
    /// Whether more is asked for than there is.
    pub grows: bool,
    /// `status.allocatedResourceStatuses.storage`
    pub resize: Option<ResizeStatus>,
    /// Whether it has the condition that only the file system is left to be expanded.
    pub node_left: bool,
    /// Since when it has the condition `Resizing`, in seconds since 1970; 0 if it has none.
    pub resizing: u32,
    /// `spec.volumeAttributesClassName`
    pub class: &'a str,
    /// `status.currentVolumeAttributesClassName`
    pub current_class: &'a str,
    /// Since when it has the condition `ModifyingVolume`, in seconds since 1970; 0 if it has none.
    pub modifying: u32,
}

impl ClaimSeen<'_> {
    /// Whether anything is to be done, by whichever driver.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.bound && (self.grows || self.is_changing())
    }

    fn is_changing(&self) -> bool {
        !self.class.is_empty() && self.class != self.current_class
    }
}

/// How far the claim has come, whose volume is this driver's or for which nothing is to be done.
#[must_use]
pub fn of_claim(claim: &ClaimSeen<'_>, look: Look) -> Vec<Step<'static>> {
    // Most, in each list.
    if look == Look::First && !claim.is_open() {
        return Vec::new();
    }
    let object = Id::of(claim.uid);
    let done = What::Done {
        at: None,
        end: End::Own,
    };
    // An object says it only once the driver is asked; what is seen to begin is dated by this process.
    let open = |condition, moves| What::Open {
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
        _ if gone => What::Dropped,
        true if !at_node => open(claim.resizing, true),
        // The claim is marked right after its PersistentVolume is written.
        true | false => done,
    };
    // A node expands a volume once a pod uses it, which may be never.
    let moves = claim.resize == Some(ResizeStatus::NodeInProgress);
    let node = match claim.grows {
        _ if gone => What::Dropped,
        true => open(claim.resizing, moves),
        false => done,
    };
    let modified = match claim.is_changing() {
        _ if gone => What::Dropped,
        true => open(claim.modifying, true),
        // Somebody has changed their mind.
        false if claim.class.is_empty() => What::Dropped,
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
