//! Handles that lack what the id of the node says.

use super::zone;
use crate::model::driver::Repair;
use crate::model::error::Cause;
use crate::model::keys::UNSPECIFIED;

pub(super) fn repaired(rules: &Repair, handle: &str, node: &str) -> Result<String, Cause> {
    let of_handle = parts(rules, "volume handle", handle)?;
    let part = |at: usize| of_handle.get(at).copied().unwrap_or_default();
    let (project, regionality, place, disk) = (part(1), part(2), part(3), part(5));
    if project != UNSPECIFIED {
        return Ok(handle.to_owned());
    }
    let of_node = parts(rules, "node handle", node)?;
    let of_node = |at: usize| of_node.get(at).copied().unwrap_or_default();
    let (project, zone) = (of_node(1), of_node(3));
    let known = place != UNSPECIFIED;
    let place = match regionality {
        "zones" | "regions" if known => place.to_owned(),
        "zones" => zone.to_owned(),
        "regions" => zone::region(rules.zone, [zone]).map_err(|why| {
            let zone = zone.to_owned();
            Cause::NodeRegion { zone, why }
        })?,
        other => return Err(Cause::Regionality(other.to_owned())),
    };
    Ok(format!(
        "projects/{project}/{regionality}/{place}/disks/{disk}"
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
