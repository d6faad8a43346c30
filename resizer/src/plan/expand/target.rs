//! How large the driver is to make the volume.
//!
//! It is a table: what is asked for now, what was asked for last, and how far that has come. A size
//! that may have been reached is finished before another one is begun.

use crate::model::{ClaimDetail, Quantity, ResizeStatus};

/// What the table depends on.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The claim, which wants to grow.
    pub claim: &'a ClaimDetail,
    /// `spec.capacity.storage` of the PersistentVolume: P.
    pub volume: Option<Quantity>,
    /// Whether the driver's last word was a final error, so that nothing is in doubt.
    pub settled: bool,
    /// Whether the driver expands volumes itself; otherwise the node does it all.
    pub controller: bool,
}

/// What is to be asked for; `None` if the next step is somebody else's.
#[must_use]
pub fn target(facts: &Facts<'_>) -> Option<Quantity> {
    use ResizeStatus::{
        ControllerInProgress, ControllerInfeasible, NodeInProgress, NodeInfeasible, NodePending,
        Unknown,
    };
    let claim = facts.claim;
    let request = claim.request?;
    let large = facts.volume.is_some_and(|volume| volume >= request);
    let waits = large && claim.is_file_system_pending();
    let allocated = claim.allocated.unwrap_or(request);
    match (large, claim.resize) {
        (false, None | Some(ControllerInfeasible | Unknown)) => Some(request),
        (false, Some(ControllerInProgress)) if facts.settled => Some(request),
        (false, Some(ControllerInProgress | NodeInfeasible)) => Some(allocated),
        (false, Some(NodePending | NodeInProgress)) => {
            let done = facts.volume.is_some_and(|volume| volume >= allocated);
            (!done).then_some(allocated)
        }
        (true, Some(NodePending | NodeInProgress)) => None,
        (true, Some(NodeInfeasible)) if !facts.controller => Some(request),
        (true, Some(NodeInfeasible | ControllerInProgress | ControllerInfeasible)) => {
            Some(allocated)
        }
        // What is left of an expansion that is long over must not make anything smaller.
        (true, None) if claim.allocated.is_some() => {
            let held = facts.volume.filter(|_| !facts.controller);
            Some(allocated.max(request).max(held.unwrap_or(request)))
        }
        (true, None | Some(Unknown)) => (!waits).then_some(match facts.controller {
            true => request,
            // The node expands to what the volume says, whatever the claim asks for.
            false => facts.volume.unwrap_or(request),
        }),
    }
}
