//! Bound claims as in a cluster in use.

use anyhow::Result;
use serde_json::{Value, json};

use crate::bound::CLASS;
use crate::load::Load;
use crate::world::DRIVER;

const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
/// Creates a class that allows expansion: the API server lets no other claims grow.
pub(crate) fn create_class(load: &Load) -> Result<()> {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": { "name": CLASS }, "provisioner": DRIVER, "allowVolumeExpansion": true,
    });
    load.create(CLASSES, std::iter::once(class))?;
    Ok(())
}

/// The patch that requests this size.
pub(crate) fn wish(size: &str) -> Value {
    json!({ "spec": { "resources": { "requests": { "storage": size } } } })
}

/// Whether the claim has its requested size, and no expansion is running.
pub(crate) fn is_grown(claim: &Value) -> bool {
    let asked = claim.pointer("/spec/resources/requests/storage");
    let under_way = claim.pointer("/status/allocatedResourceStatuses");
    let under_way = under_way.and_then(Value::as_object);
    asked.is_some()
        && asked == claim.pointer("/status/capacity/storage")
        && under_way.is_none_or(serde_json::Map::is_empty)
}
