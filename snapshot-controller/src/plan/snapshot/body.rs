//! The body of the content for a VolumeSnapshot that names a claim.

use serde_json::{Map, Value, json};
use sidecar::secret::SecretRef;
use sidecar::snapshot::{
    ALLOWED_TOPOLOGIES, API_VERSION, CONTENT, CONTENT_BOUND, DELETION_SECRET_NAME,
    DELETION_SECRET_NAMESPACE, MANAGED_BY, SNAPSHOT, content_name,
};

use super::class::Chosen;
use crate::model::{Csi, Snapshot, Text};

/// The objects that the content is made from.
pub(super) struct Parts<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) class: &'a Chosen,
    pub(super) csi: &'a Csi,
    pub(super) mode: Option<&'a Text>,
    pub(super) secret: Option<SecretRef>,
    pub(super) topologies: Option<Value>,
    pub(super) node: Option<Text>,
}

/// Name and body of the content. It has the finalizer from the start: a sidecar may take the
/// snapshot before any second write, and the content must then stay until that is deleted.
pub(super) fn content(parts: Parts<'_>) -> (Text, Value) {
    let Parts {
        snapshot,
        class,
        csi,
        mode,
        secret,
        topologies,
        node,
    } = parts;
    let name = content_name(&snapshot.uid);
    let mut annotations = Map::new();
    if let Some(SecretRef { namespace, name }) = secret {
        annotations.insert(DELETION_SECRET_NAME.to_owned(), (&*name).into());
        annotations.insert(DELETION_SECRET_NAMESPACE.to_owned(), (&*namespace).into());
    }
    if let Some(topologies) = topologies {
        let text = topologies.to_string();
        annotations.insert(ALLOWED_TOPOLOGIES.to_owned(), text.into());
    }
    let mut metadata = json!({"name": name, "finalizers": [CONTENT_BOUND]});
    let mut spec = json!({
        "volumeSnapshotRef": {
            "kind": SNAPSHOT.kind,
            "apiVersion": API_VERSION,
            "namespace": &*snapshot.namespace,
            "name": &*snapshot.name,
            "uid": &*snapshot.uid,
            "resourceVersion": &*snapshot.version,
        },
        "source": {"volumeHandle": &*csi.handle},
        "volumeSnapshotClassName": &*class.name,
        "driver": &*csi.driver,
        "deletionPolicy": class.class.policy.name(),
    });
    let set = |object: &mut Value, field: &str, value: Value| {
        if let Some(object) = object.as_object_mut() {
            object.insert(field.to_owned(), value);
        }
    };
    if !annotations.is_empty() {
        set(&mut metadata, "annotations", annotations.into());
    }
    if let Some(node) = node {
        set(&mut metadata, "labels", json!({MANAGED_BY: &*node}));
    }
    if let Some(mode) = mode {
        set(&mut spec, "sourceVolumeMode", (&**mode).into());
    }
    let content = json!({
        "apiVersion": API_VERSION,
        "kind": CONTENT.kind,
        "metadata": metadata,
        "spec": spec,
    });
    (name.into(), content)
}

/// The class's topologies, in the form that the sidecar reads.
pub(super) fn topologies(class: &Chosen) -> Result<Option<Value>, String> {
    let Some(text) = &class.class.topologies else {
        return Ok(None);
    };
    let refuse = |why: &dyn std::fmt::Display| {
        let name = &class.name;
        format!("the allowed topologies of VolumeSnapshotClass {name} cannot be read: {why}")
    };
    let terms: Value = serde_json::from_str(text).map_err(|error| refuse(&error))?;
    let is_term = |term: &Value| {
        let labels = term.get("matchLabelExpressions").and_then(Value::as_array);
        labels.is_some_and(|labels| labels.iter().all(is_label))
    };
    match terms.as_array() {
        Some(list) if list.iter().all(is_term) => Ok(Some(terms)),
        Some(_) | None => Err(refuse(&"not a list of topology selector terms")),
    }
}

fn is_label(label: &Value) -> bool {
    let values = label.get("values").and_then(Value::as_array);
    label.get("key").is_some_and(Value::is_string)
        && values.is_some_and(|values| values.iter().all(Value::is_string))
}
