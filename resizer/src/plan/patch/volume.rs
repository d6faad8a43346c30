//! Patches of a PersistentVolume.

use serde_json::{Map, Value, json};

use crate::keys::PRE_RESIZE_CAPACITY;
use crate::model::{Quantity, Text, Volume};

/// What becomes of the annotation [`PRE_RESIZE_CAPACITY`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Annotation {
    /// Nothing.
    Keep,
    /// It is written, with what the claim had, unless there is one.
    Add(Quantity),
    /// The node has nothing to do: it has done its duty.
    Remove,
}

/// What becomes of `spec.capacity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// The driver made the volume this large. The capacity is never lowered: kubelet and whoever
    /// restores the claim rely on what was once said.
    AtLeast(Quantity),
    /// The node alone is to make the volume this large. A larger capacity, which it refused, would
    /// make kubelet try that again and again.
    Exactly(Quantity),
}

impl Capacity {
    fn quantity(self) -> Quantity {
        match self {
            Self::AtLeast(quantity) | Self::Exactly(quantity) => quantity,
        }
    }

    fn replaces(self, held: Quantity) -> bool {
        match self {
            Self::AtLeast(quantity) => held < quantity,
            Self::Exactly(quantity) => held != quantity,
        }
    }
}

/// The PersistentVolume says how large the volume is, or is to be made by the node.
#[must_use]
pub fn grow(volume: &Volume, capacity: Capacity, annotation: Annotation) -> Option<Value> {
    let value = match (annotation, &volume.pre_resize) {
        (Annotation::Add(before), None) => Some(json!(before.to_string())),
        (Annotation::Remove, Some(_)) => Some(Value::Null),
        (Annotation::Keep, _) | (Annotation::Add(_), Some(_)) | (Annotation::Remove, None) => None,
    };
    let mut patch = Map::new();
    if let Some(value) = value {
        let annotations = json!({ "annotations": { PRE_RESIZE_CAPACITY: value } });
        patch.insert("metadata".to_owned(), annotations);
    }
    if volume.capacity.is_none_or(|held| capacity.replaces(held)) {
        let capacity = json!({ "capacity": { "storage": capacity.quantity().to_string() } });
        patch.insert("spec".to_owned(), capacity);
    }
    (!patch.is_empty()).then(|| patch.into())
}

/// `patch` is applied to this version of the PersistentVolume only. 0 stands for one that is not known.
pub fn bind_to_version(patch: &mut Value, version: u64) {
    let known = Some(patch).filter(|_| version != 0);
    let Some(patch) = known.and_then(Value::as_object_mut) else {
        return;
    };
    let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("resourceVersion".to_owned(), json!(version.to_string()));
    }
}

/// The claim has what the volume has: the annotation has done its duty.
#[must_use]
pub fn remove_annotation() -> Value {
    json!({ "metadata": { "annotations": { PRE_RESIZE_CAPACITY: null } } })
}

/// The driver modified the volume to `class`.
#[must_use]
pub fn set_class(volume: &Volume, class: &Text) -> Option<Value> {
    let same = volume.kind.class.as_ref() == Some(class);
    (!same).then(|| json!({ "spec": { "volumeAttributesClassName": &**class } }))
}
