//! Changes of an object's metadata by full updates that keep all other fields.
//!
//! For permissions that allow `get` and `update` but not `patch`: the object is read, changed here, and written
//! back with its version, so that unknown fields survive and a change in between is a conflict.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::text::Text;

/// A change of one object, applied to its current state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Edit {
    /// A finalizer to add.
    pub add_finalizer: Option<&'static str>,
    /// A finalizer to remove.
    pub remove_finalizer: Option<&'static str>,
    /// An annotation to add with its value, unless the object has it with another value.
    pub annotate: Option<(&'static str, Text)>,
    /// An annotation to remove.
    pub unannotate: Option<&'static str>,
    /// Pauses before the retries after a conflict, one for each retry.
    pub pauses: &'static [Duration],
}

/// The result of applying an edit to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The object must be written back.
    Changed,
    /// The object already was as wanted.
    Unchanged,
    /// The object has another UID, or does not exist.
    Another,
}

impl Edit {
    /// Changes `object`, the API server's JSON, if it has this UID.
    pub fn apply(&self, uid: Option<&str>, object: &mut Value) -> Applied {
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
            return Applied::Another;
        };
        let held = metadata.get("uid").and_then(Value::as_str);
        if uid.is_some_and(|uid| uid != held.unwrap_or_default()) {
            return Applied::Another;
        }
        let finalizers = self.apply_finalizers(metadata);
        let annotations = self.apply_annotations(metadata);
        if finalizers || annotations {
            Applied::Changed
        } else {
            Applied::Unchanged
        }
    }

    fn apply_finalizers(&self, metadata: &mut Map<String, Value>) -> bool {
        let before = metadata.get("finalizers").and_then(Value::as_array);
        let before = before.cloned().unwrap_or_default();
        let removed = |held: &Value| self.remove_finalizer.is_some_and(|gone| held == gone);
        let mut after = before.clone();
        after.retain(|held| !removed(held));
        if let Some(added) = self.add_finalizer
            && !after.iter().any(|held| held == added)
        {
            after.push(added.into());
        }
        if after == before {
            return false;
        }
        if after.is_empty() {
            metadata.remove("finalizers")
        } else {
            metadata.insert("finalizers".to_owned(), after.into())
        };
        true
    }

    fn apply_annotations(&self, metadata: &mut Map<String, Value>) -> bool {
        let before = metadata.get("annotations").and_then(Value::as_object);
        let before = before.cloned().unwrap_or_default();
        let mut after = before.clone();
        if let Some(key) = self.unannotate {
            after.remove(key);
        }
        if let Some((key, value)) = &self.annotate {
            let held = after.get(*key).and_then(Value::as_str);
            if held.is_none_or(str::is_empty) {
                after.insert((*key).to_owned(), (**value).into());
            }
        }
        if after == before {
            return false;
        }
        if after.is_empty() {
            metadata.remove("annotations")
        } else {
            metadata.insert("annotations".to_owned(), after.into())
        };
        true
    }
}
