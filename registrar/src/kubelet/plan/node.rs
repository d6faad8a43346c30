//! The change of the Node object when a driver comes or goes.
//!
//! The result is a strategic merge patch for the `status` subresource that contains only the difference in metadata, as
//! kubelet sends it. Objects are JSON values, so that every response of an API server can be decoded.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::keys::{NODE_ID_ANNOTATION, clip};

/// Why the Node cannot be updated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// The driver reported no node id.
    #[error("error adding CSI driver node info: the driver reported an empty node id")]
    NoNodeId,
    /// The annotation is not a JSON object of node IDs.
    #[error(
        "failed to parse node annotation {NODE_ID_ANNOTATION}={:?}: {reason}",
        clip(value)
    )]
    Annotation {
        /// The annotation's value.
        value: String,
        /// Error of parsing it.
        reason: String,
    },
    /// The driver's topology contradicts a label that another driver, or an earlier registration of this one, has set.
    #[error(
        "detected topology value collision: driver reported {:?}:{:?} \
         but existing label is {:?}:{:?}",
        clip(key),
        clip(reported),
        clip(key),
        clip(existing)
    )]
    Collision {
        /// The topology key, which is the label's name.
        key: String,
        /// The driver's value.
        reported: String,
        /// The label's value.
        existing: String,
    },
}

/// The patch that adds `driver` to `node`, or `None` if nothing would change.
///
/// With a topology there is always a patch, `{}` when all labels exist already, as kubelet sends one.
///
/// # Errors
/// [`NodeError`]; nothing may be written then.
pub fn plan_install(
    node: &Value,
    driver: &str,
    node_id: &str,
    topology: &BTreeMap<String, String>,
) -> Result<Option<Value>, NodeError> {
    if node_id.is_empty() {
        return Err(NodeError::NoNodeId);
    }
    let mut ids = node_ids(node)?;
    let annotation = if ids.get(driver).is_some_and(|known| known == node_id) {
        None
    } else {
        ids.insert(driver.to_owned(), node_id.to_owned());
        Some(Value::String(print(&ids)))
    };
    let labels = missing_labels(node, topology)?;
    if annotation.is_none() && topology.is_empty() {
        return Ok(None);
    }
    Ok(Some(patch(annotation, labels)))
}

/// The patch that removes `driver` from `node`, or `None` if it is not there. Labels stay: another
/// driver may have reported the same topology.
///
/// # Errors
/// [`NodeError::Annotation`].
pub fn plan_uninstall(node: &Value, driver: &str) -> Result<Option<Value>, NodeError> {
    let mut ids = node_ids(node)?;
    if ids.remove(driver).is_none() {
        return Ok(None);
    }
    // In a merge patch null removes the key.
    let annotation = if ids.is_empty() {
        Value::Null
    } else {
        Value::String(print(&ids))
    };
    Ok(Some(patch(Some(annotation), Map::new())))
}

/// A Node for a machine without kubelet. Unschedulable, because nothing runs pods there.
#[must_use]
pub fn new_object(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name },
        "spec": { "unschedulable": true },
    })
}

/// `metadata.uid`.
#[must_use]
pub fn uid(node: &Value) -> Option<&str> {
    node.pointer("/metadata/uid")?
        .as_str()
        .filter(|uid| !uid.is_empty())
}

fn node_ids(node: &Value) -> Result<BTreeMap<String, String>, NodeError> {
    let value = metadata_string(node, "annotations", NODE_ID_ANNOTATION).unwrap_or_default();
    if value.is_empty() {
        return Ok(BTreeMap::new());
    }
    let parsed: Option<BTreeMap<String, String>> =
        serde_json::from_str(value).map_err(|error| NodeError::Annotation {
            value: value.to_owned(),
            reason: error.to_string(),
        })?;
    Ok(parsed.unwrap_or_default())
}

fn print(ids: &BTreeMap<String, String>) -> String {
    Value::from_iter(
        ids.iter()
            .map(|(driver, id)| (driver.as_str(), id.as_str())),
    )
    .to_string()
}

fn missing_labels(
    node: &Value,
    topology: &BTreeMap<String, String>,
) -> Result<Map<String, Value>, NodeError> {
    let mut missing = Map::new();
    for (key, reported) in topology {
        match metadata_string(node, "labels", key) {
            None => {
                missing.insert(key.clone(), json!(reported));
            }
            Some(existing) if existing == reported => {}
            Some(existing) => {
                return Err(NodeError::Collision {
                    key: key.clone(),
                    reported: reported.clone(),
                    existing: existing.to_owned(),
                });
            }
        }
    }
    Ok(missing)
}

fn patch(annotation: Option<Value>, labels: Map<String, Value>) -> Value {
    let mut metadata = Map::new();
    if let Some(value) = annotation {
        metadata.insert(
            "annotations".to_owned(),
            json!({ NODE_ID_ANNOTATION: value }),
        );
    }
    if !labels.is_empty() {
        metadata.insert("labels".to_owned(), Value::Object(labels));
    }
    if metadata.is_empty() {
        json!({})
    } else {
        json!({ "metadata": metadata })
    }
}

fn metadata_string<'a>(object: &'a Value, map: &str, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get(map)?.get(key)?.as_str()
}
