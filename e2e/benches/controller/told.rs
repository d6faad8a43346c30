//! Events for users: the number in the API server when a program is idle after its work.

use std::collections::HashSet;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::load::Load;

const EVENTS: &str = "/api/v1/namespaces/default/events";

/// Deletes all events, also those of earlier rounds about the same objects.
pub(crate) fn forget(load: &Load) -> Result<()> {
    load.delete(std::iter::once(EVENTS.to_owned())).map(|_| ())
}

/// Number of the objects with these names that have no event with this reason.
pub(crate) fn untold(load: &Load, reason: &str, names: &[String]) -> Result<f64> {
    let list = load.get(&format!("{EVENTS}?fieldSelector=reason%3D{reason}"))?;
    let events = list.get("items").and_then(Value::as_array);
    let name = |event: &Value| {
        let name = event.pointer("/involvedObject/name")?.as_str()?;
        Some(name.to_owned())
    };
    let events = events.context("a list of events")?;
    let told: HashSet<String> = events.iter().filter_map(name).collect();
    Ok(names.iter().filter(|name| !told.contains(*name)).count() as f64)
}
