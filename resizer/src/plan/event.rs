//! Which changes of objects requeue a task.
//!
//! This decides how often the driver is called: the resizer's own writes must not requeue its task,
//! or every failure would be retried at once.

use super::fairness::Kind;
use crate::model::{Claim, ClaimDetail, ResizeStatus, Volume};

/// The origin of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The list or the watch.
    Watch,
    /// The response to a request of this process. The difference may include changes that others
    /// made just before.
    Own,
}

/// Whether the change from `before` to `after` requeues the claim's task `kind`.
///
/// `writing`: the change is the response to a request of this very task, which sees the result
/// anyway; then only changes that users may have made count.
#[must_use]
pub fn is_work(kind: Kind, before: Option<&Claim>, after: &Claim, writing: bool) -> bool {
    let Claim::Open(after) = after else {
        return false;
    };
    let Some(Claim::Open(before)) = before else {
        return true;
    };
    if before.uid != after.uid || before.phase != after.phase || before.volume != after.volume {
        return true;
    }
    match kind {
        Kind::Expand => {
            before.request != after.request
                || before.resizer != after.resizer
                || (!writing && grew(before, after))
        }
        Kind::Modify => {
            let revoked = before.modify.is_some() && after.modify.is_none();
            before.class != after.class
                || (!writing && (before.current_class != after.current_class || revoked))
        }
    }
}

/// Whether kubelet has made progress: the capacity has changed, or the status has a value that the
/// resizer does not write before the driver's response.
fn grew(before: &ClaimDetail, after: &ClaimDetail) -> bool {
    use ResizeStatus::{
        ControllerInProgress, ControllerInfeasible, NodeInProgress, NodeInfeasible, NodePending,
        Unknown,
    };
    before.capacity != after.capacity
        || (before.resize != after.resize
            && match after.resize {
                Some(ControllerInProgress | ControllerInfeasible | NodePending) => false,
                Some(NodeInProgress | NodeInfeasible | Unknown) | None => true,
            })
}

/// Whether the change of a volume may unblock a task that waits for it.
#[must_use]
pub fn is_trigger(before: Option<&Volume>, after: &Volume) -> bool {
    before.is_none_or(|before| {
        before.claim != after.claim
            || before.handle != after.handle
            || before.kind.source != after.kind.source
    })
}
