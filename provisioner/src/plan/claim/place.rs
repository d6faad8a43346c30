//! Where the volume of a claim may be, for the first call and for one that goes on.
//!
//! Separate, because here alone a record of another process is believed, and only within what the
//! class allows.

use super::Failure;
use crate::model::{Class, List, SelectorTerm, Text};
use crate::plan::request::Prepared;
use crate::plan::topology::{Input, Requirement, requirement};
use crate::plan::view::View;

/// Where the volume may be.
pub(super) fn place(
    prepared: &mut Prepared,
    view: &View<'_>,
    class: &Class,
) -> Result<(), Failure> {
    if !view.topology_active() {
        return Ok(());
    }
    let node = Text::from(view.claim.selected_node());
    let input = Input {
        claim: &view.claim.name,
        node: Some(&node),
        allowed: &class.allowed_topologies,
        strict: view.settings.strict_topology,
        immediate: view.settings.immediate_topology,
        places: view.places,
    };
    // Nothing is remembered from attempt to attempt: what the driver was asked is kept as a whole.
    prepared.requirement = requirement(&input).map_err(Failure::Topology)?;
    prepared.node = node.to_string();
    Ok(())
}

/// Where the volume may be according to the record: nodes may be gone by now. What the class does
/// not allow, no record can.
pub(super) fn resume_place(
    prepared: &mut Prepared,
    recorded: &Prepared,
    view: &View<'_>,
    class: &Class,
) -> Result<(), Failure> {
    let allowed = match (&recorded.requirement, view.topology_active()) {
        (Some(requirement), true) => is_allowed(requirement, &class.allowed_topologies),
        (None, true) => class.allowed_topologies.iter().all(|term| term.is_empty()),
        (requirement, false) => requirement.is_none() && recorded.node.is_empty(),
    };
    if !allowed {
        return Err(Failure::RecordDiffers("the topology"));
    }
    prepared.requirement = recorded.requirement.clone();
    prepared.node = recorded.node.clone();
    Ok(())
}

fn is_allowed(requirement: &Requirement, allowed: &[SelectorTerm]) -> bool {
    let mut terms = requirement.requisite().iter();
    allowed.is_empty()
        || terms.all(|place| {
            let has = |(key, values): &(Text, List)| {
                place
                    .iter()
                    .any(|(held, value)| held == key && values.contains(value))
            };
            allowed.iter().any(|term| term.iter().all(has))
        })
}
