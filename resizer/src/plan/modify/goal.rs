//! The goal of a modification.
//!
//! A table of the claim's requested class, its current class, and the modification under way.

use crate::keys::MODIFYING_VOLUME;
use crate::model::{ClaimDetail, Text};

/// The goal of a modification.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Goal<'a> {
    /// None.
    Nothing,
    /// Remove the condition: the request was withdrawn before the driver was called.
    Cancel,
    /// Repeat the call for the target that the driver may be working on.
    Continue(&'a Text),
    /// Begin a call for the requested class.
    Start(&'a Text),
}

/// The goal. `settled`: the driver certainly does not work on the target in the claim's status.
pub(super) fn goal(claim: &ClaimDetail, settled: bool) -> Goal<'_> {
    let begun = claim
        .modify
        .as_ref()
        .filter(|modify| !modify.target.is_empty());
    if claim.modify.is_none() && claim.class == claim.current_class {
        return Goal::Nothing;
    }
    if let Some(modify) = begun.filter(|_| claim.is_changing())
        && (!settled || claim.class.is_empty())
    {
        return Goal::Continue(&modify.target);
    }
    match (
        claim.class.is_empty(),
        claim.has_condition(MODIFYING_VOLUME),
    ) {
        (true, true) => Goal::Cancel,
        (true, false) => Goal::Nothing,
        (false, _) => Goal::Start(&claim.class),
    }
}

/// Names of the classes that the claim may be waiting for.
pub(in crate::plan) fn targets(claim: &ClaimDetail) -> impl Iterator<Item = &Text> {
    let begun = claim.modify.as_ref().map(|modify| &modify.target);
    let named = begun.into_iter().chain([&claim.class]);
    named.filter(|name| !name.is_empty())
}
