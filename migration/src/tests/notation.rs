//! The short form of objects in rows: fields of `metadata` and `spec` side by side, keys of topology by the letters of
//! the specification, affinity and topologies as `[E∈us-east-1a; R∃] | [x∉1,2]`.

use serde_json::{Map, Value, json};

const LETTERS: &[(&str, &str)] = &[
    ("Z", "topology.kubernetes.io/zone"),
    ("R", "topology.kubernetes.io/region"),
    ("z", "failure-domain.beta.kubernetes.io/zone"),
    ("r", "failure-domain.beta.kubernetes.io/region"),
    ("E", "topology.ebs.csi.aws.com/zone"),
    ("G", "topology.gke.io/zone"),
    ("C", "topology.cinder.csi.openstack.org/zone"),
    ("D", "topology.disk.csi.azure.com/zone"),
    ("VZ", "topology.csi.vmware.com/zone"),
    ("VR", "topology.csi.vmware.com/region"),
];

pub(super) fn key(short: &str) -> &str {
    let found = LETTERS.iter().find(|(letter, _)| *letter == short);
    found.map_or(short, |(_, key)| key)
}

/// The request for a row's operation on its input.
pub(super) fn request(op: &str, input: &Value) -> Value {
    let whole = |kind: fn(&Value) -> Value, value: &Value| {
        if value.is_null() {
            Value::Null
        } else {
            kind(value)
        }
    };
    match op {
        "pv-to-csi" | "csi-to-pv" => json!({"op": op, "pv": whole(volume, input)}),
        "class" => json!({"op": op, "plugin": input["provisioner"], "class": class(input)}),
        "inline" => {
            json!({"op": op, "volume": whole(pod_volume, input), "namespace": input["namespace"]})
        }
        "plugin-name" => json!({
            "op": op,
            "pv": whole(volume, &input["pv"]),
            "volume": whole(pod_volume, &input["volume"]),
        }),
        _ => {
            let mut request = input.clone();
            request["op"] = op.into();
            request
        }
    }
}

/// The expected result of a row's operation.
pub(super) fn result(op: &str, output: &Value) -> Value {
    match op {
        "pv-to-csi" | "csi-to-pv" | "inline" => volume(output),
        "class" => class(output),
        _ => output.clone(),
    }
}

fn volume(short: &Value) -> Value {
    let (mut metadata, mut spec) = (json!({"name": "p"}), Map::new());
    let mut out = json!({});
    for (field, value) in short.as_object().unwrap() {
        match field.as_str() {
            "name" | "uid" | "resourceVersion" | "finalizers" | "annotations" => {
                metadata[field] = value.clone();
            }
            "labels" => {
                let labels = value.as_object().unwrap().iter();
                let labels = labels.map(|(short, value)| (key(short).to_owned(), value.clone()));
                metadata[field] = labels.collect::<Map<_, _>>().into();
            }
            "status" => out["status"] = value.clone(),
            "modes" => {
                let modes = value.as_str().unwrap().split_whitespace();
                let modes: Vec<&str> = modes.map(mode).collect();
                spec.insert("accessModes".into(), modes.into());
            }
            "affinity" => {
                let terms = terms(value.as_str().unwrap()).into_iter();
                let terms: Vec<Value> = terms
                    .map(|expressions| json!({"matchExpressions": expressions}))
                    .collect();
                let affinity = json!({"required": {"nodeSelectorTerms": terms}});
                spec.insert("nodeAffinity".into(), affinity);
            }
            _ => {
                spec.insert(field.clone(), value.clone());
            }
        }
    }
    out["metadata"] = metadata;
    out["spec"] = spec.into();
    out
}

fn pod_volume(short: &Value) -> Value {
    let mut volume = short.clone();
    volume.as_object_mut().unwrap().remove("namespace");
    volume["name"] = "v".into();
    volume
}

fn class(short: &Value) -> Value {
    let expression = |key: &str, values: Value| json!({"key": key, "values": values});
    let terms: Vec<Vec<Value>> = match &short["topologies"] {
        Value::String(text) => {
            let term = |term: Vec<Value>| {
                let all = term.iter();
                all.map(|one| expression(one["key"].as_str().unwrap(), one["values"].clone()))
                    .collect()
            };
            terms(text).into_iter().map(term).collect()
        }
        Value::Array(terms) => {
            let term = |term: &Value| {
                let all = term.as_array().unwrap().iter();
                all.map(|one| expression(key(one[0].as_str().unwrap()), one[1].clone()))
                    .collect()
            };
            terms.iter().map(term).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    };
    let terms: Vec<Value> = { terms.into_iter() }
        .map(|all| json!({"matchLabelExpressions": all}))
        .collect();
    json!({
        "provisioner": short["provisioner"],
        "parameters": short["parameters"],
        "allowedTopologies": terms,
    })
}

fn mode(short: &str) -> &str {
    match short {
        "RWO" => "ReadWriteOnce",
        "ROX" => "ReadOnlyMany",
        "RWX" => "ReadWriteMany",
        "RWOP" => "ReadWriteOncePod",
        other => other,
    }
}

fn terms(text: &str) -> Vec<Vec<Value>> {
    let terms = text.split(" | ").map(|term| {
        let term = term.strip_prefix('[').unwrap().strip_suffix(']').unwrap();
        let expressions = term.split("; ").filter(|one| !one.is_empty());
        expressions.map(expression).collect()
    });
    terms.collect()
}

fn expression(text: &str) -> Value {
    let operators = [('∈', "In"), ('∉', "NotIn"), ('∃', "Exists")];
    let found = operators.iter().find_map(|(sign, operator)| {
        let (short, values) = text.split_once(*sign)?;
        Some((key(short), *operator, values))
    });
    let (key, operator, values) = found.unwrap();
    let mut out = json!({"key": key, "operator": operator});
    if operator != "Exists" {
        out["values"] = values.split(',').collect::<Vec<_>>().into();
    }
    out
}
