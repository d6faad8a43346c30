//! Strategic merge patch for the lists that sidecars and kubelets patch.
//!
//! Unlike in the real server there is no schema: a list merges by the key that Kubernetes declares
//! for a field of that name; other lists are replaced.

use serde_json::{Map, Value};

/// How a list field merges.
enum Strategy {
    Replace,
    Set,
    ByKey(&'static str),
}

fn strategy(field: &str) -> Strategy {
    match field {
        "finalizers" => Strategy::Set,
        "conditions" | "addresses" => Strategy::ByKey("type"),
        "ownerReferences" => Strategy::ByKey("uid"),
        "volumesAttached" | "containers" | "volumes" | "drivers" => Strategy::ByKey("name"),
        _ => Strategy::Replace,
    }
}

/// Merges `patch` into `target`.
pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if patch.get("$patch").and_then(Value::as_str) == Some("replace") {
        let mut plain = patch.clone();
        plain.remove("$patch");
        *target = Value::Object(plain);
        return;
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(fields) = target.as_object_mut() else {
        return;
    };
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            delete_values(fields.get_mut(list), value);
        } else if name.starts_with('$') {
            // Skips order directives: the order of sets and keyed lists has no meaning here.
        } else if value.is_null() {
            fields.remove(name);
        } else {
            merge_field(
                fields.entry(name.clone()).or_insert(Value::Null),
                name,
                value,
            );
        }
    }
}

fn merge_field(current: &mut Value, name: &str, value: &Value) {
    let Value::Array(additions) = value else {
        merge(current, value);
        return;
    };
    match strategy(name) {
        Strategy::Replace => *current = value.clone(),
        Strategy::Set => {
            let list = list_of(current);
            for addition in additions {
                if !list.contains(addition) {
                    list.push(addition.clone());
                }
            }
        }
        Strategy::ByKey(key) => merge_keyed(list_of(current), key, additions),
    }
}

fn merge_keyed(list: &mut Vec<Value>, key: &str, additions: &[Value]) {
    if additions.iter().any(|item| item["$patch"] == "replace") {
        list.clear();
    }
    for addition in additions {
        let position = list.iter().position(|item| item[key] == addition[key]);
        match (addition["$patch"].as_str(), position) {
            (Some("delete"), Some(position)) => {
                list.remove(position);
            }
            (Some(_), _) => {}
            (None, Some(position)) => {
                if let Some(item) = list.get_mut(position) {
                    merge(item, addition);
                }
            }
            (None, None) => list.push(addition.clone()),
        }
    }
}

fn delete_values(list: Option<&mut Value>, values: &Value) {
    if let (Some(Value::Array(list)), Value::Array(values)) = (list, values) {
        list.retain(|item| !values.contains(item));
    }
}

fn list_of(value: &mut Value) -> &mut Vec<Value> {
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    value.as_array_mut().expect("just made a list")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_merge_by_their_key_and_maps_by_field() {
        let cases = [
            (
                "a new annotation beside an old one",
                json!({"metadata": {"annotations": {"a": "1"}}}),
                json!({"metadata": {"annotations": {"b": "2"}}}),
                json!({"metadata": {"annotations": {"a": "1", "b": "2"}}}),
            ),
            (
                "null removes",
                json!({"metadata": {"labels": {"a": "1", "b": "2"}}}),
                json!({"metadata": {"labels": {"a": null}}}),
                json!({"metadata": {"labels": {"b": "2"}}}),
            ),
            (
                "finalizers are a set",
                json!({"metadata": {"finalizers": ["a/b"]}}),
                json!({"metadata": {"finalizers": ["a/b", "c/d"]}}),
                json!({"metadata": {"finalizers": ["a/b", "c/d"]}}),
            ),
            (
                "a value leaves a set by directive",
                json!({"metadata": {"finalizers": ["a/b", "c/d"]}}),
                json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/b"]}}),
                json!({"metadata": {"finalizers": ["c/d"]}}),
            ),
            (
                "conditions merge by type",
                json!({"status": {"conditions": [{"type": "A", "status": "False", "reason": "r"}]}}),
                json!({"status": {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}],
                    "$setElementOrder/conditions": [{"type": "A"}, {"type": "B"}]}}),
                json!({"status": {"conditions": [{"type": "A", "status": "True", "reason": "r"}, {"type": "B", "status": "True"}]}}),
            ),
            (
                "a keyed element leaves by directive",
                json!({"status": {"conditions": [{"type": "A"}, {"type": "B"}]}}),
                json!({"status": {"conditions": [{"type": "A", "$patch": "delete"}]}}),
                json!({"status": {"conditions": [{"type": "B"}]}}),
            ),
            (
                "other lists are replaced",
                json!({"spec": {"accessModes": ["a"]}}),
                json!({"spec": {"accessModes": ["b"]}}),
                json!({"spec": {"accessModes": ["b"]}}),
            ),
        ];
        for (name, mut current, patch, want) in cases {
            merge(&mut current, &patch);
            assert_eq!(current, want, "{name}");
        }
    }
}
