//! Whether a claim needs our finalizer, and the object with or without it.
//!
//! The role only allows to replace claims. The controller puts back the object it has read, changed
//! in our finalizer alone, and only if the resource version is still the same.

use serde_json::Value;
use sidecar::snapshot::CLAIM_AS_SOURCE;

use super::ask::Ask;
use super::attempt::{End, Flow};
use super::request::{Object, Purpose, read, replace};
use crate::model::Text;

/// Adds our finalizer to the claim, unless it is there. The caller has found the claim.
pub(super) fn protect(ask: Ask<'_>, key: &Text) -> Flow {
    let object = Object::Claim(key.clone());
    unless_busy(ask, key)?;
    if ask.in_flight.claims.is_doubtful(key) {
        // Read again: the last write may have been applied after any earlier read.
        return read(&object);
    }
    let claim = ask.informers.claim(key);
    if claim.is_none_or(|claim| claim.protected.is_some()) {
        return Ok(());
    }
    // The cached object may have had the finalizer and lost it since.
    let json = ask.read(&object)?.ok().and_then(Option::as_deref);
    match json.and_then(with_finalizer) {
        Some(json) => replace(Purpose::Protect, key, json),
        None => read(&object),
    }
}

/// Removes our finalizer from the claim, unless a VolumeSnapshot other than `but` needs it.
pub(super) fn release(ask: Ask<'_>, key: &Text, but: Option<&Text>) -> Flow {
    let claim = ask.informers.claim(key);
    let json = claim.as_ref().and_then(|claim| claim.protected.as_ref());
    let is_gone = || ask.is_gone(&Object::Claim(key.clone()));
    let Some(json) = json.filter(|_| !is_gone() && !ask.in_flight.is_used(key, but)) else {
        return Ok(());
    };
    unless_busy(ask, key)?;
    match without_finalizer(json) {
        Some(json) => replace(Purpose::Release, key, json),
        None => Ok(()),
    }
}

/// Waits until the running write of this claim has ended.
fn unless_busy(ask: Ask<'_>, key: &Text) -> Flow {
    if ask.in_flight.claims.is_busy(key) {
        return Err(End::Wait(key.clone()).into());
    }
    Ok(())
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
