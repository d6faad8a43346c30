//! Requests in JSON, in the oracle's form, and a translator's answers.

use serde_json::{Map, Value, json};

use crate::{Class, Error, Requirement, Translator};

pub(super) fn answer(translator: &Translator<'_>, request: &Value) -> Result<Value, Error> {
    let text = |field: &str| request[field].as_str().unwrap_or_default();
    match text("op") {
        "pv-to-csi" => translator.volume_to_csi(&request["pv"]),
        "csi-to-pv" => translator.volume_to_in_tree(&request["pv"]),
        "inline" => translator.inline_to_csi(&request["volume"], text("namespace")),
        "class" => {
            let class = class(&request["class"]);
            let translated = translator.class_to_csi(text("plugin"), &class)?;
            Ok(object(&request["class"], &translated))
        }
        "repair" => { translator.repaired_handle(text("driver"), text("handle"), text("node")) }
            .map(Value::from),
        "csi-name" => translator.driver_of_plugin(text("plugin")).map(Value::from),
        "in-tree-name" => translator.plugin_of_driver(text("driver")).map(Value::from),
        "plugin-name" => translator
            .plugin_of_volume(&request["pv"], &request["volume"])
            .map(Value::from),
        other => panic!("no such operation: {other}"),
    }
}

fn class(object: &Value) -> Class {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let requirement = |one: &Value| Requirement {
        key: text(&one["key"]),
        values: list(&one["values"]).iter().map(text).collect(),
    };
    let terms = list(&object["allowedTopologies"]);
    let terms = terms
        .iter()
        .map(|term| list(&term["matchLabelExpressions"]));
    let parameters = object["parameters"].as_object().cloned();
    let parameters = parameters.unwrap_or_default().into_iter();
    Class {
        provisioner: text(&object["provisioner"]),
        parameters: parameters.map(|(key, value)| (key, text(&value))).collect(),
        allowed_topologies: terms
            .map(|term| term.iter().map(requirement).collect())
            .collect(),
    }
}

/// `class` in JSON, with the other fields of `original`.
fn object(original: &Value, class: &Class) -> Value {
    let requirement = |one: &Requirement| json!({"key": one.key, "values": one.values});
    let term = |term: &Vec<Requirement>| json!({"matchLabelExpressions": term.iter().map(requirement).collect::<Vec<_>>()});
    let mut out = original.as_object().cloned().unwrap_or_else(Map::new);
    out.insert("provisioner".into(), json!(class.provisioner));
    out.insert("parameters".into(), json!(class.parameters));
    let terms: Vec<Value> = class.allowed_topologies.iter().map(term).collect();
    out.insert("allowedTopologies".into(), terms.into());
    out.into()
}
