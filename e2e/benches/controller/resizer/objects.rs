//! Claims that have their volumes, as they look in a cluster that is used.

use anyhow::Result;
use serde_json::{Value, json};

use crate::bound::{CLAIMS, CLASS, Drivers, VOLUMES, bound_claim, volume};
use crate::load::Load;
use crate::world::DRIVER;

const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
/// The API server lets only claims of such a class grow.
pub(super) fn create_class(load: &Load) -> Result<()> {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": { "name": CLASS }, "provisioner": DRIVER, "allowVolumeExpansion": true,
    });
    load.create(CLASSES, std::iter::once(class))?;
    Ok(())
}

/// A claim and its volume have one name here.
pub(super) fn name(index: usize) -> String {
    format!("pvc-{index:08x}-6f0e-4a63-9f9e-0d8a3c3c0001")
}

/// Makes claims of 1Mi that are bound to volumes with these handles.
pub(super) fn create_bound(load: &Load, handles: &[String], drivers: Drivers) -> Result<()> {
    load.create(
        CLAIMS,
        (0..handles.len())
            .map(|index| drivers.share(index, bound_claim(&name(index), &name(index)))),
    )?;
    // A volume names the UID of its claim, which the API server chose.
    let mut uids = uids(load)?;
    let volumes = handles.iter().enumerate().map(|(index, handle)| {
        let name = name(index);
        let uid = uids.remove(&name).unwrap_or_default();
        drivers.share(index, volume(&name, handle, &name, &uid))
    });
    load.create(VOLUMES, volumes)?;
    let bound = json!({ "status": {
        "phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Mi" },
    } });
    let path = |index| format!("{CLAIMS}/{}/status", name(index));
    load.merge((0..handles.len()).map(|index| (path(index), bound.clone())))?;
    Ok(())
}

fn uids(load: &Load) -> Result<std::collections::HashMap<String, String>> {
    let list = load.get(CLAIMS)?;
    let items = list.pointer("/items").and_then(Value::as_array);
    let text = |claim: &Value, field| Some(claim.pointer(field)?.as_str()?.to_owned());
    let named = |claim| {
        Some((
            text(claim, "/metadata/name")?,
            text(claim, "/metadata/uid")?,
        ))
    };
    Ok(items.into_iter().flatten().filter_map(named).collect())
}

/// The claim's owner asks for so much.
pub(super) fn wish(size: &str) -> Value {
    json!({ "spec": { "resources": { "requests": { "storage": size } } } })
}

/// Whether the claim has what it asks for, and nothing is under way.
pub(super) fn is_grown(claim: &Value) -> bool {
    let asked = claim.pointer("/spec/resources/requests/storage");
    let under_way = claim.pointer("/status/allocatedResourceStatuses");
    let under_way = under_way.and_then(Value::as_object);
    asked.is_some()
        && asked == claim.pointer("/status/capacity/storage")
        && under_way.is_none_or(serde_json::Map::is_empty)
}
