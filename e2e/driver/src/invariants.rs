//! What every orchestrator must hold to, checked on a record after the fact.
//!
//! Pure over the calls of a record. The checks are those of the CSI specification (life cycle of a
//! volume, "Concurrency", idempotent retries) and do not depend on what the driver answered, unless
//! said so.

mod history;
mod order;
mod overlap;
mod retry;

use std::fmt;

use crate::instrument::record::Call;

/// A rule that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// Two controller calls for one volume were under way at once.
    Overlap,
    /// Stage, publish, unpublish, unstage: in that order.
    NodeOrder,
    /// A repeated Create call asked for something else.
    RetryChanged,
    /// A volume was deleted that may still have been attached or published.
    DeleteInUse,
    /// A volume was detached from a node on which it may still have been staged or published.
    DetachInUse,
    /// A call had no deadline.
    NoDeadline,
}

/// One violation, with the calls that show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// What was broken.
    pub invariant: Invariant,
    /// `instance#seq` of the calls.
    pub calls: Vec<String>,
    /// For people.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?}: {} ({})",
            self.invariant,
            self.message,
            self.calls.join(", ")
        )
    }
}

/// What to leave out or add.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Nodes were lost on purpose: volumes may be detached while the dead node still has them.
    pub nodes_were_lost: bool,
    /// Every call must have a deadline. Off by default: kubelet's own calls have none.
    pub deadlines: bool,
}

/// All violations in a record, by invariant.
pub fn check(calls: &[Call], options: &Options) -> Vec<Violation> {
    let mut violations = overlap::check(calls);
    violations.extend(order::check(calls, options));
    violations.extend(retry::check(calls));
    if options.deadlines {
        let bare = calls
            .iter()
            .filter(|call| call.end_ns.is_some() && call.deadline_ms.is_none());
        violations.extend(bare.map(|call| {
            violation(
                Invariant::NoDeadline,
                &[call],
                format!("{} has no deadline", call.method),
            )
        }));
    }
    violations.sort_by_key(|violation| violation.invariant);
    violations
}

fn violation(invariant: Invariant, calls: &[&Call], message: String) -> Violation {
    Violation {
        invariant,
        calls: calls.iter().map(|call| name_of(call)).collect(),
        message,
    }
}

/// `instance#seq` of a call.
pub fn name_of(call: &Call) -> String {
    format!("{}#{}", call.instance, call.seq)
}

#[cfg(test)]
mod tests;
