//! The size that the driver is asked for.
//!
//! A table of the current request, the last requested size, and the progress towards that. A size
//! that may have been reached is completed before another one is requested.

use crate::model::{ClaimDetail, Quantity, ResizeStatus};

/// The table's input.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The claim, which requests more than it has.
    pub claim: &'a ClaimDetail,
    /// `spec.capacity.storage` of the PersistentVolume: P.
    pub volume: Option<Quantity>,
    /// Whether the driver's last response was a final error, so that no outcome is unknown.
    pub settled: bool,
    /// Whether the driver has a controller expansion; otherwise the node does everything.
    pub controller: bool,
}

/// The size to request; `None` if another program has to act first.
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
        // Leftovers of a finished expansion must not make a volume smaller.
        (true, None) if claim.allocated.is_some() => {
            let held = facts.volume.filter(|_| !facts.controller);
            Some(allocated.max(request).max(held.unwrap_or(request)))
        }
        (true, None | Some(Unknown)) => (!waits).then_some(match facts.controller {
            true => request,
            // The node expands to the PersistentVolume's capacity, whatever the claim requests.
            false => facts.volume.unwrap_or(request),
        }),
    }
}
