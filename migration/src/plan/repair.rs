//! Completes handles with the ID of a node, and compares handles that carry less than the driver's.

use super::zone;
use crate::model::driver::{Identity, Repair};
use crate::model::error::Cause;
use crate::model::keys::UNSPECIFIED;

pub(super) fn repaired(rules: &Repair, handle: &str, node: &str) -> Result<String, Cause> {
    let of_handle = parts(rules, "volume handle", handle)?;
    let part = |at: usize| of_handle.get(at).copied().unwrap_or_default();
    let (project, regionality, zone_or_region, disk) = (part(1), part(2), part(3), part(5));
    if project != UNSPECIFIED {
        return Ok(handle.to_owned());
    }
    let of_node = parts(rules, "node handle", node)?;
    let of_node = |at: usize| of_node.get(at).copied().unwrap_or_default();
    let (project, zone) = (of_node(1), of_node(3));
    let known = zone_or_region != UNSPECIFIED;
    let zone_or_region = match regionality {
        "zones" | "regions" if known => zone_or_region.to_owned(),
        "zones" => zone.to_owned(),
        "regions" => zone::region(rules.zone, [zone]).map_err(|why| {
            let zone = zone.to_owned();
            Cause::NodeRegion { zone, why }
        })?,
        other => return Err(Cause::Regionality(other.to_owned())),
    };
    Ok(format!(
        "projects/{project}/{regionality}/{zone_or_region}/disks/{disk}"
    ))
}

fn parts<'a>(rules: &Repair, what: &'static str, id: &'a str) -> Result<Vec<&'a str>, Cause> {
    let parts: Vec<&str> = id.split('/').collect();
    let (got, wanted) = (parts.len(), rules.parts);
    if got < wanted {
        return Err(Cause::RepairParts { what, got, wanted });
    }
    Ok(parts)
}

/// Whether two handles may refer to the same volume.
pub(super) fn may_be_one<'a>(identity: Identity, one: &'a str, other: &'a str) -> bool {
    let part = |separator: char, at: usize| {
        let part = |handle: &'a str| handle.split(separator).nth(at);
        (part(one), part(other))
    };
    let may_be = |at: usize| {
        let (one, other) = part('/', at);
        one == other || [one, other].contains(&Some(UNSPECIFIED))
    };
    let same = match identity {
        Identity::Exact | Identity::Elsewhere => false,
        Identity::AnyCase => one.eq_ignore_ascii_case(other),
        Identity::Part(separator, at) => {
            let (one, other) = part(separator, at);
            one.is_some() && one == other
        }
        Identity::DiskPath => {
            let (disk, other_disk) = part('/', 5);
            let (kind, other_kind) = part('/', 2);
            // The driver may name one zone for a disk of a region, so that these are not compared.
            let there = kind != other_kind || may_be(3);
            disk.is_some() && disk == other_disk && may_be(1) && there
        }
    };
    same || one == other
}
