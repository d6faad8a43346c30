//! A driver as a whole: its sidecars and its nodes.

use super::controller::{self, BESIDE};
use super::way::{Step, Way, Which, many};
use super::words::listed;
use super::{node, way::Got};
use crate::model::{CsiNode, Driver, Kind, Node, Ref};

/// Explains a driver that the user asked about. A driver without a capability needs no sidecar for it, so a
/// missing sidecar is no fault here; one that does not run is.
pub(super) fn subject(way: &mut Way<'_>, at: &Ref) -> Step {
    let driver = &*at.name;
    way.expect([
        many(Kind::CsiNode, &Which::all()),
        many(Kind::Node, &Which::all()),
    ])?;
    let nodes = way.all::<CsiNode>()?;
    let with = nodes
        .items
        .iter()
        .filter(|one| one.driver(driver).is_some())
        .count();
    match way.get::<Driver>("", driver)? {
        Got::Missing if with == 0 => {
            way.at(0, at, "does not exist");
            way.absent = true;
            return Ok(());
        }
        Got::Missing => way.at(0, at, "has no CSIDriver object"),
        Got::Found(_) | Got::Unseen => way.at(
            0,
            at,
            format!("registered on {with} of {} nodes", nodes.items.len()),
        ),
    }
    for role in BESIDE {
        controller::check(way, 1, *role, driver)?;
        if let Some(leader) = controller::leader(way, *role, driver)? {
            way.at(
                1,
                &Ref::new(Kind::Lease, "", &role.lease(driver)),
                format!("held by {leader}"),
            );
        }
    }
    let all = way.all::<Node>()?;
    let mut without = Vec::new();
    for one in &all.items {
        let csi_node = nodes
            .items
            .iter()
            .find(|csi| csi.metadata.name == *one.metadata.name);
        node::left_taint(way, 1, one, csi_node.copied())?;
        if csi_node.is_none_or(|csi| csi.driver(driver).is_none()) {
            without.push(one.metadata.name.to_string());
        } else {
            node::health(way, 1, &one.metadata.name, driver)?;
        }
    }
    if !without.is_empty() {
        way.at(
            1,
            &Ref::new(Kind::Node, "", &listed(&without)),
            "without it",
        );
    }
    Ok(())
}
