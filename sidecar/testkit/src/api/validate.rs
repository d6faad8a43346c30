//! The server's validation and defaulting, where sidecars can notice them.

use serde_json::{Value, json};

use super::{group, kind::Kind};

/// The longest message of a volume error (`storage.k8s.io/v1` `VolumeError`).
const MESSAGE_LIMIT: usize = 1024;

/// Converts an object to the form in which the server returns it.
pub(super) fn normalize(kind: &Kind, object: &mut Value) {
    if !kind.custom {
        drop_nulls(object);
    }
    for field in &kind.without {
        let (parent, name) = field.rsplit_once('/').unwrap_or_default();
        if let Some(parent) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
            parent.remove(name);
        }
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["finalizers", "labels", "annotations", "ownerReferences"] {
            let empty = metadata.get(field).is_some_and(|value| {
                value.as_array().is_some_and(Vec::is_empty)
                    || value.as_object().is_some_and(serde_json::Map::is_empty)
            });
            if empty {
                metadata.remove(field);
            }
        }
    }
    match kind.kind.as_str() {
        "VolumeAttachment" => {
            let status = &mut object["status"];
            if status["attached"].is_null() {
                status["attached"] = false.into();
            }
            if let Some(status) = status.as_object_mut()
                && status
                    .get("attachmentMetadata")
                    .is_some_and(|map| *map == json!({}))
            {
                status.remove("attachmentMetadata");
            }
        }
        "CSINode" => {
            // The server's storage drops empty lists.
            if object["spec"]["drivers"] == json!([]) {
                object["spec"]["drivers"] = Value::Null;
            }
            // Present even when null, unlike other fields.
            let drivers = object["spec"]["drivers"].take();
            object["spec"]["drivers"] = drivers;
            for driver in object["spec"]["drivers"]
                .as_array_mut()
                .into_iter()
                .flatten()
            {
                let keys = driver["topologyKeys"].take();
                driver["topologyKeys"] = keys;
            }
        }
        _ => {}
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, field| !field.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// All violations in `new`, in the server's words.
pub(super) fn problems(kind: &Kind, new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut problems = metadata(new, old);
    match kind.kind.as_str() {
        "VolumeAttachment" => volume_attachment(new, old, &mut problems),
        "CSINode" => csi_node(new, old, &mut problems),
        "PersistentVolume" => persistent_volume(new, old, &mut problems),
        "Event" if kind.group.is_empty() => event(new, &mut problems),
        "Lease" => lease(new, &mut problems),
        _ => problems.extend(group::problems(kind, new, old)),
    }
    problems
}

fn metadata(new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut problems = Vec::new();
    let name = new["metadata"]["name"].as_str().unwrap_or_default();
    if old.is_none() && !subdomain(name) {
        problems.push(format!(
            "metadata.name: Invalid value: \"{name}\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character"
        ));
    }
    for (index, finalizer) in strings(&new["metadata"]["finalizers"]).enumerate() {
        let standard = ["orphan", "foregroundDeletion", "kubernetes"].contains(&finalizer);
        let full = finalizer.contains('/') && qualified(finalizer);
        if !standard && !full {
            problems.push(format!(
                "metadata.finalizers[{index}]: Invalid value: \"{finalizer}\": name is neither a standard finalizer name nor is it fully qualified"
            ));
        }
    }
    for field in ["labels", "annotations"] {
        for key in new["metadata"][field].as_object().into_iter().flatten() {
            if !qualified(&key.0.to_lowercase()) {
                problems.push(format!(
                    "metadata.{field}: Invalid value: \"{}\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
                    key.0
                ));
            }
            let value = key.1.as_str().unwrap_or_default();
            if field == "labels" && (value.len() > 63 || !value.is_empty() && !name_part(value)) {
                problems.push(format!("metadata.labels: Invalid value: \"{value}\": must be no more than 63 characters"));
            }
        }
    }
    if let Some(old) = old
        && !old["metadata"]["deletionTimestamp"].is_null()
    {
        let had: Vec<&str> = strings(&old["metadata"]["finalizers"]).collect();
        let fresh: Vec<&str> = strings(&new["metadata"]["finalizers"])
            .filter(|finalizer| !had.contains(finalizer))
            .collect();
        if !fresh.is_empty() {
            problems.push(format!(
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers {fresh:?}"
            ));
        }
    }
    problems
}

fn lease(new: &Value, problems: &mut Vec<String>) {
    for (field, least, must) in [
        ("leaseDurationSeconds", 1, "greater than 0"),
        ("leaseTransitions", 0, "greater than or equal to 0"),
    ] {
        if let Some(value) = new["spec"][field].as_i64().filter(|value| *value < least) {
            problems.push(format!(
                "spec.{field}: Invalid value: {value}: must be {must}"
            ));
        }
    }
}

/// Why the object cannot be decoded as its kind.
pub(super) fn unreadable(kind: &Kind, object: &Value) -> Option<String> {
    if kind.kind != "Lease" {
        return None;
    }
    ["acquireTime", "renewTime"].into_iter().find_map(|field| {
        let time = object["spec"][field].as_str()?;
        // Exactly six digits: a time without a fraction is refused.
        let fraction = time.split_once('.').map_or(0, |(_, rest)| {
            rest.bytes().take_while(u8::is_ascii_digit).count()
        });
        let valid = fraction == 6 && time.parse::<jiff::Timestamp>().is_ok();
        (!valid).then(|| {
            format!(
                "{0} in version \"{1}\" cannot be handled as a {0}: parsing time \"{time}\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse",
                kind.kind, kind.version
            )
        })
    })
}

fn volume_attachment(new: &Value, old: Option<&Value>, problems: &mut Vec<String>) {
    for field in ["attachError", "detachError"] {
        let message = new["status"][field]["message"].as_str().unwrap_or_default();
        if message.len() > MESSAGE_LIMIT {
            problems.push(format!(
                "status.{field}.message: Too long: may not be more than {MESSAGE_LIMIT} bytes"
            ));
        }
    }
    if new["status"]["attachmentMetadata"].to_string().len() > 256 * 1024 {
        problems.push(
            "status.attachmentMetadata: Too long: may not be more than 262144 bytes".to_owned(),
        );
    }
    if let Some(old) = old
        && old["spec"] != new["spec"]
    {
        problems.push("spec: Invalid value: field is immutable".to_owned());
    }
}

fn csi_node(new: &Value, old: Option<&Value>, problems: &mut Vec<String>) {
    let drivers = |object: &Value| {
        object["spec"]["drivers"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    let before = old.map(drivers).unwrap_or_default();
    let mut seen = Vec::new();
    for (index, driver) in drivers(new).iter().enumerate() {
        let at = format!("spec.drivers[{index}]");
        let name = driver["name"].as_str().unwrap_or_default().to_owned();
        if !subdomain(&name.to_lowercase()) || name.len() > 63 {
            problems.push(format!(
                "{at}.name: Invalid value: \"{name}\": must be a valid CSI driver name"
            ));
        }
        if seen.contains(&name) {
            problems.push(format!("{at}.name: Duplicate value: \"{name}\""));
        }
        let id = driver["nodeID"].as_str().unwrap_or_default();
        if id.is_empty() {
            problems.push(format!("{at}.nodeID: Required value"));
        }
        if id.len() > 256 {
            problems.push(format!(
                "{at}.nodeID: Invalid value: \"{id}\": must be 256 characters or less"
            ));
        }
        for key in strings(&driver["topologyKeys"]).filter(|key| !qualified(&key.to_lowercase())) {
            problems.push(format!("{at}.topologyKeys: Invalid value: \"{key}\": name part must consist of alphanumeric characters"));
        }
        if driver["allocatable"]["count"]
            .as_i64()
            .is_some_and(|count| count < 0)
        {
            problems.push(format!(
                "{at}.allocatable.count: Invalid value: must be greater than or equal to 0"
            ));
        }
        let fixed = before.iter().find(|old| old["name"] == driver["name"]);
        if fixed.is_some_and(|old| {
            old["nodeID"] != driver["nodeID"] || old["topologyKeys"] != driver["topologyKeys"]
        }) {
            problems.push(format!("{at}: Invalid value: field is immutable"));
        }
        seen.push(name);
    }
}

fn persistent_volume(new: &Value, old: Option<&Value>, problems: &mut Vec<String>) {
    if let Some(old) = old
        && ["csi", "nfs", "hostPath"].iter().any(|source| {
            old["spec"][source]["volumeHandle"] != new["spec"][source]["volumeHandle"]
                || old["spec"][source]["driver"] != new["spec"][source]["driver"]
        })
    {
        problems.push(
            "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation"
                .to_owned(),
        );
    }
}

/// A core event lives in its object's namespace, or in `default` for cluster-scoped objects.
fn event(new: &Value, problems: &mut Vec<String>) {
    let own = new["metadata"]["namespace"].as_str().unwrap_or_default();
    let about = new["involvedObject"]["namespace"]
        .as_str()
        .unwrap_or_default();
    let fits = if about.is_empty() {
        own == "default" || own == "kube-system"
    } else {
        own == about
    };
    if !fits {
        problems.push(format!(
            "involvedObject.namespace: Invalid value: \"{about}\": does not match event.namespace"
        ));
    }
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

fn subdomain(name: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    !name.is_empty()
        && name.len() <= 253
        && name.split('.').all(|label| {
            label.starts_with(edge)
                && label.ends_with(edge)
                && label.chars().all(|c| edge(c) || c == '-')
        })
}

fn qualified(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => subdomain(prefix) && name_part(name),
        None => name_part(key),
    }
}

fn name_part(name: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    name.len() <= 63
        && name.starts_with(edge)
        && name.ends_with(edge)
        && name
            .chars()
            .all(|c| edge(c) || matches!(c, '-' | '_' | '.'))
}
