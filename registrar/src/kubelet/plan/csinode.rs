//! The next step on the CSINode object: create it, delete a foreign one, add or remove a driver, or leave it alone.
//!
//! Kubelet replaces the whole object (PUT with the resourceVersion that it read). The object is kept as a JSON value,
//! so that unknown fields survive the round trip.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::keys::{MIGRATED_PLUGINS, MIGRATED_PLUGINS_ANNOTATION};

/// The driver's data about this node (`NodeGetInfoResponse`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeInfo {
    /// `node_id`.
    pub node_id: String,
    /// `max_volumes_per_node`; 0 is no limit.
    pub max_volumes: i64,
    /// `accessible_topology.segments`.
    pub topology: BTreeMap<String, String>,
}

/// The node the CSINode belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Name of the Node, and of the CSINode.
    pub name: String,
    /// `metadata.uid` of the Node.
    pub uid: String,
}

/// The next step for the CSINode.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The CSINode is up to date.
    Nothing,
    /// POST this object, then decide again on the server's response.
    Create(Value),
    /// DELETE it and fail this attempt: it and its drivers belong to a deleted Node object of the same name. The next
    /// attempt creates it anew.
    DeleteForeign,
    /// PUT this object.
    Replace(Value),
}

/// A driver's limit in `allocatable.count`, a 32-bit number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// 0: no `allocatable`.
    None,
    /// The limit as the driver reported it.
    Exact(i32),
    /// Too large; the largest number is written.
    Capped,
    /// Negative, which CSI forbids; no `allocatable`.
    Negative,
}

impl Limit {
    /// Reads `max_volumes_per_node`.
    #[must_use]
    pub fn of(max_volumes: i64) -> Self {
        match i32::try_from(max_volumes) {
            Ok(0) => Self::None,
            Ok(count) if count > 0 => Self::Exact(count),
            Ok(_) => Self::Negative,
            Err(_) if max_volumes > 0 => Self::Capped,
            Err(_) => Self::Negative,
        }
    }

    fn allocatable(self) -> Option<Value> {
        match self {
            Self::None | Self::Negative => None,
            Self::Exact(count) => Some(json!({ "count": count })),
            Self::Capped => Some(json!({ "count": i32::MAX })),
        }
    }

    /// Whether a CSINode entry with this count needs no write. A limit that cannot be written as reported never
    /// matches, so that each registration writes it, with a warning.
    fn matches(self, existing: Option<i64>) -> bool {
        match self {
            Self::None => existing.is_none(),
            Self::Exact(count) => existing == Some(i64::from(count)),
            Self::Capped | Self::Negative => false,
        }
    }
}

/// The step that adds `driver` to the CSINode.
#[must_use]
pub fn plan_install(csinode: Option<&Value>, owner: &Owner, driver: &str, info: &NodeInfo) -> Step {
    let Some(csinode) = csinode else {
        return Step::Create(new_object(owner));
    };
    if !is_owned(csinode, owner) {
        return Step::DeleteForeign;
    }
    let entries = drivers(csinode);
    let known = entries
        .iter()
        .any(|entry| is_driver(entry, driver) && is_same(entry, info));
    let migrated = with_migrated_plugins(csinode);
    if known && migrated.is_none() {
        return Step::Nothing;
    }
    let mut entries = without(entries, driver);
    let keys: Option<Vec<&String>> =
        (!info.topology.is_empty()).then(|| info.topology.keys().collect());
    let mut entry = json!({ "name": driver, "nodeID": info.node_id, "topologyKeys": keys });
    if let (Some(allocatable), Value::Object(fields)) =
        (Limit::of(info.max_volumes).allocatable(), &mut entry)
    {
        fields.insert("allocatable".to_owned(), allocatable);
    }
    entries.push(entry);
    Step::Replace(with_drivers(
        migrated.unwrap_or_else(|| csinode.clone()),
        entries,
    ))
}

/// The step that removes `driver` from the CSINode. The object stays even when no driver is left.
#[must_use]
pub fn plan_uninstall(csinode: Option<&Value>, driver: &str) -> Step {
    let Some(csinode) = csinode else {
        return Step::Nothing;
    };
    let entries = drivers(csinode);
    if !entries.iter().any(|entry| is_driver(entry, driver)) {
        return Step::Nothing;
    }
    Step::Replace(with_drivers(csinode.clone(), without(entries, driver)))
}

/// The step that prepares the CSINode before any driver registers.
#[must_use]
pub fn plan_initialize(csinode: Option<&Value>, owner: &Owner) -> Step {
    let Some(csinode) = csinode else {
        return Step::Create(new_object(owner));
    };
    if !is_owned(csinode, owner) {
        return Step::DeleteForeign;
    }
    with_migrated_plugins(csinode).map_or(Step::Nothing, Step::Replace)
}

fn new_object(owner: &Owner) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {
            "name": owner.name,
            "annotations": { MIGRATED_PLUGINS_ANNOTATION: MIGRATED_PLUGINS.join(",") },
            "ownerReferences": [
                { "apiVersion": "v1", "kind": "Node", "name": owner.name, "uid": owner.uid },
            ],
        },
        "spec": { "drivers": [] },
    })
}

fn is_owned(csinode: &Value, owner: &Owner) -> bool {
    let references = csinode
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    references.into_iter().flatten().any(|reference| {
        text(reference, "kind") == Some("Node")
            && text(reference, "name") == Some(&owner.name)
            && text(reference, "uid") == Some(&owner.uid)
    })
}

/// The object with the right annotation, or `None` if it has it. Compared as a set: another order is not worth a write.
fn with_migrated_plugins(csinode: &Value) -> Option<Value> {
    let existing = csinode
        .pointer("/metadata/annotations")
        .and_then(|annotations| text(annotations, MIGRATED_PLUGINS_ANNOTATION))
        .unwrap_or_default();
    let existing: BTreeSet<&str> = existing.split(',').collect();
    if existing == BTreeSet::from(MIGRATED_PLUGINS) {
        return None;
    }
    let mut updated = csinode.clone();
    let annotations = object(object(&mut updated, "metadata")?, "annotations")?;
    let value = Value::String(MIGRATED_PLUGINS.join(","));
    annotations
        .as_object_mut()?
        .insert(MIGRATED_PLUGINS_ANNOTATION.to_owned(), value);
    Some(updated)
}

/// The member `name` of `parent`, replaced by an empty object if it is none.
fn object<'a>(parent: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    let member = parent.as_object_mut()?.entry(name).or_insert(Value::Null);
    if !member.is_object() {
        *member = Value::Object(Map::new());
    }
    Some(member)
}

fn with_drivers(mut csinode: Value, entries: Vec<Value>) -> Value {
    if let Some(spec) = object(&mut csinode, "spec").and_then(Value::as_object_mut) {
        spec.insert("drivers".to_owned(), Value::Array(entries));
    }
    csinode
}

fn drivers(csinode: &Value) -> &[Value] {
    let drivers = csinode.pointer("/spec/drivers").and_then(Value::as_array);
    drivers.map(Vec::as_slice).unwrap_or_default()
}

fn without(entries: &[Value], driver: &str) -> Vec<Value> {
    entries
        .iter()
        .filter(|entry| !is_driver(entry, driver))
        .cloned()
        .collect()
}

fn is_driver(entry: &Value, driver: &str) -> bool {
    text(entry, "name") == Some(driver)
}

fn is_same(entry: &Value, info: &NodeInfo) -> bool {
    let keys: BTreeSet<&str> = entry
        .get("topologyKeys")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let reported: BTreeSet<&str> = info.topology.keys().map(String::as_str).collect();
    let count = entry.pointer("/allocatable/count").and_then(Value::as_i64);
    text(entry, "nodeID") == Some(&info.node_id)
        && keys == reported
        && Limit::of(info.max_volumes).matches(count)
}

fn text<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get(key)?.as_str()
}
