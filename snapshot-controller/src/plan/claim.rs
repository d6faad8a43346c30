//! Whether a claim needs our finalizer, and the object with or without it.
//!
//! The role only allows to replace claims. The controller puts back the object it has read, changed
//! in our finalizer alone, and only if the resource version is still the same.

use serde_json::Value;
use sidecar::snapshot::CLAIM_AS_SOURCE;

use super::request::{Object, read, replace};
use super::view::{Learnt, Next, Purpose, View};
use crate::model::Text;

/// The next step until the claim has our finalizer; `None` if it has. The caller has found the
/// claim.
#[must_use]
pub fn protect(view: &View<'_>, key: &Text) -> Option<Next> {
    let object = Object::Claim(key.clone());
    if view.in_flight.claims.is_busy(key) {
        return Some(Next::Wait(key.clone()));
    }
    if view.in_flight.claims.is_doubtful(key) {
        // Read again: the last write may have been applied after any earlier read.
        return Some(read(object));
    }
    let claim = view.informers.claim(key)?;
    if claim.protected.is_some() {
        return None;
    }
    let known = match view.learnt(&object) {
        Some(Learnt::Read(Some(json))) => with_finalizer(json),
        Some(Learnt::Read(None) | Learnt::Unread(_)) | None => None,
    };
    // The cached object may have had the finalizer and lost it since.
    let Some(json) = known else {
        return Some(read(object));
    };
    Some(replace(Purpose::Protect, key, json))
}

/// The next step until the claim has lost our finalizer; `None` if it has, or if a VolumeSnapshot
/// other than `but` needs it.
#[must_use]
pub fn release(view: &View<'_>, key: &Text, but: Option<&Text>) -> Option<Next> {
    let claim = view.informers.claim(key)?;
    if view.is_gone(&Object::Claim(key.clone())) {
        return None;
    }
    let json = claim.protected.as_ref()?;
    if view.in_flight.is_used(key, but) {
        return None;
    }
    if view.in_flight.claims.is_busy(key) {
        return Some(Next::Wait(key.clone()));
    }
    let json = without_finalizer(json)?;
    Some(replace(Purpose::Release, key, json))
}

/// The object with our finalizer; `None` if it has it already, or the JSON is no object.
fn with_finalizer(json: &str) -> Option<Text> {
    edit(json, |list| {
        let there = list.iter().any(|one| one == CLAIM_AS_SOURCE);
        if !there {
            list.push(CLAIM_AS_SOURCE.into());
        }
        !there
    })
}

/// The object without our finalizer, all copies of it; `None` if it has none.
fn without_finalizer(json: &str) -> Option<Text> {
    edit(json, |list| {
        let before = list.len();
        list.retain(|one| one != CLAIM_AS_SOURCE);
        list.len() < before
    })
}

fn edit(json: &str, change: impl FnOnce(&mut Vec<Value>) -> bool) -> Option<Text> {
    let mut object: Value = serde_json::from_str(json).ok()?;
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    // The server maintains these by itself, and they are the larger half of the object.
    metadata.remove("managedFields");
    let finalizers = metadata.entry("finalizers").or_insert(Value::Null);
    if finalizers.is_null() {
        *finalizers = Value::Array(Vec::new());
    }
    let changed = change(finalizers.as_array_mut()?);
    changed.then(|| object.to_string().into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn finalizers(json: Option<Text>) -> Option<Value> {
        let object: Value = serde_json::from_str(&json?).unwrap();
        Some(object["metadata"]["finalizers"].clone())
    }

    #[test]
    fn all_but_our_finalizer_stays_as_it_was() {
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "p1", "resourceVersion": "7", "finalizers": ["a/b"], "new": 1},
            "spec": {"unknown": {"x": [1, 2]}},
        });
        let protected = with_finalizer(&claim.to_string()).unwrap();
        let mut expected = claim.clone();
        expected["metadata"]["finalizers"] = json!(["a/b", CLAIM_AS_SOURCE]);
        assert_eq!(serde_json::from_str::<Value>(&protected).unwrap(), expected);
        assert_eq!(with_finalizer(&protected), None);
        let free = without_finalizer(&protected).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&free).unwrap(), claim);
        assert_eq!(without_finalizer(&free), None);
    }

    #[test]
    fn no_object_is_too_odd() {
        let ours = json!([CLAIM_AS_SOURCE]);
        for (json, expected) in [
            (json!({"metadata": {}}), Some(ours.clone())),
            (json!({"metadata": {"finalizers": null}}), Some(ours)),
            (json!({"metadata": {"finalizers": "x"}}), None),
            (json!({"metadata": 1}), None),
            (json!([]), None),
        ] {
            assert_eq!(finalizers(with_finalizer(&json.to_string())), expected);
        }
        assert_eq!(with_finalizer("{"), None);
        let twice = json!({"metadata": {"finalizers": [CLAIM_AS_SOURCE, "x", CLAIM_AS_SOURCE]}});
        let free = without_finalizer(&twice.to_string());
        assert_eq!(finalizers(free), Some(json!(["x"])));
    }
}
