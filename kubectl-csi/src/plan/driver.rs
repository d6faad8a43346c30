//! A driver as a whole: its sidecars and its nodes.

use super::controller::{self, BESIDE};
use super::walk::{ObjectSelector, Step, Walk, many};
use super::words::listed;
use super::{node, walk::Lookup};
use crate::model::{CsiNode, Driver, Kind, Node, Ref};

/// Explains a driver that the user asked about. A driver without a capability needs no sidecar for it, so a
/// missing sidecar is no fault here; one that does not run is.
pub(super) fn subject(walk: &mut Walk<'_>, at: &Ref) -> Step {
    let driver = &*at.name;
    walk.expect([
        many(Kind::CsiNode, &ObjectSelector::all()),
        many(Kind::Node, &ObjectSelector::all()),
    ])?;
    let nodes = walk.all::<CsiNode>()?;
    let with = nodes
        .items
        .iter()
        .filter(|one| one.driver(driver).is_some())
        .count();
    match walk.get::<Driver>("", driver)? {
        Lookup::Missing if with == 0 => {
            walk.at(0, at, "does not exist");
            walk.absent = true;
            return Ok(());
        }
        Lookup::Missing => walk.at(0, at, "has no CSIDriver object"),
        Lookup::Found(_) | Lookup::Unseen => walk.at(
            0,
            at,
            format!("registered on {with} of {} nodes", nodes.items.len()),
        ),
    }
    for role in BESIDE {
        controller::check(walk, 1, *role, driver)?;
        if let Some(leader) = controller::leader(walk, *role, driver)? {
            walk.at(
                1,
                &Ref::new(Kind::Lease, "", &role.lease(driver)),
                format!("held by {leader}"),
            );
        }
    }
    let all = walk.all::<Node>()?;
    let mut without = Vec::new();
    for one in &all.items {
        let csi_node = nodes
            .items
            .iter()
            .find(|csi| csi.metadata.name == *one.metadata.name);
        node::left_taint(walk, 1, one, csi_node.copied())?;
        if csi_node.is_none_or(|csi| csi.driver(driver).is_none()) {
            without.push(one.metadata.name.to_string());
        } else {
            node::health(walk, 1, &one.metadata.name, driver)?;
        }
    }
    if !without.is_empty() {
        walk.at(
            1,
            &Ref::new(Kind::Node, "", &listed(&without)),
            "without it",
        );
    }
    Ok(())
}
