//! Objects in the form in which they are compared: two that the API server cannot tell apart are equal.

use serde_json::Value;

/// Fields that are pointers in the API: empty differs from absent.
const POINTERS: &[(&str, &[&str])] = &[
    ("azureDisk", &["cachingMode", "fsType", "readOnly", "kind"]),
    ("azureFile", &["secretNamespace"]),
];

/// Fields that are maps with any keys, from which nothing is left out.
const MAPS: &[&str] = &[
    "labels",
    "annotations",
    "volumeAttributes",
    "parameters",
    "capacity",
];

/// Parts that are written even if they are empty.
const EMPTY: &[&str] = &["metadata", "spec", "status"];

/// Drops everything that equals an absent field.
pub(super) fn canonical(value: &mut Value) {
    object("", value);
}

fn object(name: &str, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let pointers = POINTERS.iter().find(|(owner, _)| *owner == name);
            let pointers = pointers.map_or(&[][..], |(_, fields)| *fields);
            fields.retain(|field, value| {
                if MAPS.contains(&field.as_str()) {
                    return value.as_object().is_some_and(|map| !map.is_empty());
                }
                object(field, value);
                match value {
                    Value::Null => false,
                    Value::Bool(false) => pointers.contains(&field.as_str()),
                    Value::Number(number) => number.as_i64() != Some(0),
                    Value::String(text) => !text.is_empty() || pointers.contains(&field.as_str()),
                    Value::Array(list) => !list.is_empty(),
                    Value::Object(fields) => !fields.is_empty() || !EMPTY.contains(&field.as_str()),
                    Value::Bool(true) => true,
                }
            });
        }
        Value::Array(list) => list.iter_mut().for_each(|one| object("", one)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
