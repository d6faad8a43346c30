//! Checks a record against the rules for every container orchestrator.
//!
//! Pure, over the calls of a record. The checks come from the CSI specification (life cycle of a
//! volume, "Concurrency", idempotent retries) and do not depend on the driver's responses, unless
//! stated otherwise.

mod history;
mod order;
mod overlap;
mod retry;

use std::fmt;

use crate::instrument::record::Call;

/// A rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// Two controller calls for one volume overlapped.
    Overlap,
    /// Stage, publish, unpublish, unstage: in this order.
    NodeOrder,
    /// A repeated Create call had another request.
    RetryChanged,
    /// A volume was deleted that may still have been attached or published.
    DeleteInUse,
    /// A volume was detached from a node on which it may still have been staged or published.
    DetachInUse,
    /// A call had no deadline.
    NoDeadline,
}

/// One violation, with the calls that prove it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The violated rule.
    pub invariant: Invariant,
    /// `instance#seq` of the calls.
    pub calls: Vec<String>,
    /// Description for people.
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

/// Options of the checks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Nodes were lost on purpose: a volume may be detached while a dead node still has it.
    pub nodes_were_lost: bool,
    /// Require a deadline for every call. Off by default: kubelet's own calls have none.
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
