//! Patches of a PersistentVolume.

use serde_json::{Map, Value, json};

use crate::keys::PRE_RESIZE_CAPACITY;
use crate::model::{Quantity, Text, Volume};

/// The patch's effect on the annotation [`PRE_RESIZE_CAPACITY`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Annotation {
    /// It stays.
    Keep,
    /// It is added with the claim's old capacity, unless it exists.
    Add(Quantity),
    /// It is removed: the node has nothing left to do.
    Remove,
}

/// The patch's effect on `spec.capacity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// The driver has expanded the volume to this size. The capacity is never lowered: kubelet, and
    /// users who restore the claim, rely on it.
    AtLeast(Quantity),
    /// Only the node expands the volume, to this size. With a larger capacity, which it has refused,
    /// kubelet would try again and again.
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

/// The PersistentVolume gets the volume's size, or the size that the node has to expand it to.
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

/// Makes `patch` apply only to this version of the PersistentVolume. 0 means that the version is
/// unknown.
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

/// The claim has the volume's capacity, so the annotation is not needed any more.
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
