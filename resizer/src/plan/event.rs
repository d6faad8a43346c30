//! Which changes of objects are work.
//!
//! It decides how often the driver is called: what this program writes itself must not wake it, or
//! every failure would be retried at once.

use super::fairness::Kind;
use crate::model::{Claim, ClaimDetail, ResizeStatus, Volume};

/// How a change came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The list or the watch.
    Watch,
    /// The answer to a request of this process. The difference may also contain what others changed
    /// just before.
    Own,
}

/// Whether the change from `before` to `after` calls for a look at the claim by the task `kind`.
///
/// `writing`: the change came with an answer to a request of this very task, which looks at the
/// result anyway; then only what others may have wished for counts.
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

/// Whether kubelet has moved on: the capacity is another one, or the status one that the resizer
/// does not write itself before an answer of the driver.
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

/// Whether what is known of a volume now may let a task go on that waited for it.
#[must_use]
pub fn is_trigger(before: Option<&Volume>, after: &Volume) -> bool {
    before.is_none_or(|before| {
        before.claim != after.claim
            || before.handle != after.handle
            || before.kind.source != after.kind.source
    })
}
