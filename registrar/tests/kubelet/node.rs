//! Writes of the Node: K-45 to K-51.

use std::collections::BTreeMap;

use registrar::kubelet::plan::node::{NodeError, plan_install, plan_uninstall};
use serde_json::{Value, json};

const D: &str = "d.example.com";

fn node(annotation: Option<&str>, labels: &[(&str, &str)]) -> Value {
    let labels: BTreeMap<_, _> = labels.iter().copied().collect();
    let mut node = json!({ "metadata": { "name": "n1", "labels": labels } });
    if let Some(value) = annotation {
        node["metadata"]["annotations"] = json!({ "csi.volume.kubernetes.io/nodeid": value });
    }
    node
}

fn topology(segments: &[(&str, &str)]) -> BTreeMap<String, String> {
    segments
        .iter()
        .map(|&(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

fn annotation(value: impl Into<Value>) -> Value {
    json!({ "metadata": { "annotations": { "csi.volume.kubernetes.io/nodeid": value.into() } } })
}

#[test]
fn annotation_patches_of_an_install() {
    let rows = [
        ("no annotation", None, Some(r#"{"d.example.com":"n1"}"#)),
        (
            "empty annotation",
            Some(""),
            Some(r#"{"d.example.com":"n1"}"#),
        ),
        (
            "null annotation",
            Some("null"),
            Some(r#"{"d.example.com":"n1"}"#),
        ),
        ("same", Some(r#"{ "d.example.com": "n1" }"#), None),
        (
            "other id",
            Some(r#"{"d.example.com":"n0"}"#),
            Some(r#"{"d.example.com":"n1"}"#),
        ),
        (
            "keys are sorted",
            Some(r#"{"z":"2","a":"1"}"#),
            Some(r#"{"a":"1","d.example.com":"n1","z":"2"}"#),
        ),
    ];
    for (name, existing, expected) in rows {
        let patch = plan_install(&node(existing, &[]), D, "n1", &topology(&[])).unwrap();
        assert_eq!(patch, expected.map(annotation), "{name}");
    }
}

#[test]
fn annotations_that_are_not_ours_to_read_are_errors() {
    for value in ["not json", "[]", r#"{"a":1}"#, r#"{"a":"b"}x"#] {
        let node = node(Some(value), &[]);
        let install = plan_install(&node, D, "n1", &topology(&[]));
        assert!(
            matches!(install, Err(NodeError::Annotation { .. })),
            "{value}"
        );
        assert!(
            matches!(plan_uninstall(&node, D), Err(NodeError::Annotation { .. })),
            "{value}"
        );
    }
}

#[test]
fn label_patches_of_an_install() {
    let known = Some(r#"{"d.example.com":"n1"}"#);
    let none = node(known, &[]);
    let zone = topology(&[("zone", "a")]);
    assert_eq!(
        plan_install(&none, D, "n1", &zone),
        Ok(Some(json!({ "metadata": { "labels": { "zone": "a" } } }))),
        "nothing but the difference"
    );
    let same = node(known, &[("zone", "a")]);
    assert_eq!(
        plan_install(&same, D, "n1", &zone),
        Ok(Some(json!({}))),
        "sent all the same"
    );
    let other = node(None, &[("zone", "b")]);
    let error = plan_install(&other, D, "n1", &zone).unwrap_err();
    assert!(
        error.to_string().contains("topology value collision"),
        "{error}"
    );
}

#[test]
fn no_node_id_is_an_error() {
    assert_eq!(
        plan_install(&node(None, &[]), D, "", &topology(&[])),
        Err(NodeError::NoNodeId)
    );
}

#[test]
fn annotation_patches_of_an_uninstall() {
    let rows = [
        (
            "last one",
            Some(r#"{"d.example.com":"n1"}"#),
            Some(annotation(Value::Null)),
        ),
        (
            "one of two",
            Some(r#"{"d.example.com":"n1","e":"2"}"#),
            Some(annotation(r#"{"e":"2"}"#)),
        ),
        ("unknown driver", Some(r#"{"e":"2"}"#), None),
        ("no annotation", None, None),
    ];
    for (name, existing, expected) in rows {
        let labels = [("zone", "a")];
        assert_eq!(
            plan_uninstall(&node(existing, &labels), D),
            Ok(expected),
            "{name}"
        );
    }
}

#[test]
fn objects_of_any_shape_are_read_without_a_panic() {
    for node in [
        json!(null),
        json!([1]),
        json!({ "metadata": 3 }),
        json!({ "metadata": { "labels": [] } }),
    ] {
        assert!(plan_install(&node, D, "n1", &topology(&[("zone", "a")])).is_ok());
        assert_eq!(plan_uninstall(&node, D), Ok(None));
    }
}
