//! The accessibility requirements of a claim's volume.
//!
//! They depend on the whole cluster.

use super::Failure;
use crate::model::{Class, Text};
use crate::plan::request::PinnedRequest;
use crate::plan::topology::{Input, requirement};
use crate::plan::view::View;

/// Adds the accessibility requirements and the node to the request.
pub(super) fn add_requirement(
    prepared: &mut PinnedRequest,
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
        topology: view.topology,
    };
    // Nothing is kept from one attempt to the next: the pinned request keeps the requirements.
    prepared.requirement = requirement(&input).map_err(Failure::Topology)?;
    prepared.node = node.to_string();
    Ok(())
}
