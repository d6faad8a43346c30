//! Properties of every object that need no oracle.

use serde_json::{Value, json};

use super::answer::answer;
use super::draw::Draw;
use super::generator::{OPERATIONS, request};
use crate::TRANSLATOR;
use crate::model::drivers::{AZURE_DISK, CINDER, DRIVERS, EBS, PORTWORX};

const OBJECTS: usize = 2_000;

#[test]
fn labels_are_only_added_and_all_else_is_kept() {
    for driver in &DRIVERS {
        for op in ["pv-to-csi", "csi-to-pv"] {
            let mut draw = Draw(3);
            for _ in 0..OBJECTS {
                let request = request(driver, op, &mut draw);
                let Ok(out) = answer(&TRANSLATOR, &request) else {
                    continue;
                };
                let given = &request["pv"];
                for (key, value) in given["metadata"]["labels"].as_object().unwrap() {
                    assert_eq!(out["metadata"]["labels"][key], *value, "{request}");
                }
                for path in [
                    "/status",
                    "/metadata/name",
                    "/spec/capacity",
                    "/spec/claimRef",
                ] {
                    assert_eq!(given.pointer(path), out.pointer(path), "{request}");
                }
            }
        }
    }
}

#[test]
fn a_handle_comes_back_as_it_was() {
    for driver in [EBS, CINDER, AZURE_DISK, PORTWORX] {
        let mut draw = Draw(4);
        let mut same = 0;
        for _ in 0..OBJECTS {
            let asked = request(&driver, "csi-to-pv", &mut draw);
            let handle = &asked["pv"]["spec"]["csi"]["volumeHandle"];
            let Ok(volume) = TRANSLATOR.volume_to_in_tree(&asked["pv"]) else {
                continue;
            };
            // On the way back, a handle that looks like a URL counts as one.
            if handle.as_str().unwrap().starts_with("aws://") {
                continue;
            }
            let back = TRANSLATOR.volume_to_csi(&volume).unwrap();
            assert_eq!(back["spec"]["csi"]["volumeHandle"], *handle, "{asked}");
            same += 1;
        }
        assert!(same > OBJECTS / 4, "{}: {same}", driver.name);
    }
}

/// Replaces a part of `value`, at any depth, by one of another type.
fn mangle(value: &mut Value, draw: &mut Draw) {
    let children: Vec<&mut Value> = match value {
        Value::Object(fields) => fields.values_mut().collect(),
        Value::Array(list) => list.iter_mut().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    if children.is_empty() || draw.chance(15) {
        let odd = [
            json!(null),
            json!([]),
            json!({}),
            json!(""),
            json!(-1),
            json!(1.5),
            json!([null, 1, {"key": 1, "values": {}}]),
        ];
        *value = odd[draw.below(odd.len())].clone();
        return;
    }
    let at = draw.below(children.len());
    let child = children.into_iter().nth(at).unwrap();
    mangle(child, draw);
}

#[test]
fn objects_of_another_shape_are_refused_or_translated_and_never_end_the_program() {
    let mut refused = 0;
    for driver in &DRIVERS {
        for op in OPERATIONS {
            let mut draw = Draw(5);
            for _ in 0..OBJECTS {
                let mut request = request(driver, op, &mut draw);
                let part = if op == "inline" { "volume" } else { "pv" };
                if op != "repair" && op != "class" {
                    mangle(&mut request[part], &mut draw);
                }
                if let Err(error) = answer(&TRANSLATOR, &request) {
                    let text = error.to_string();
                    assert!(text.ends_with(&format!("{})", error.advice())), "{text}");
                    refused += usize::from(text.starts_with("not a "));
                }
            }
        }
    }
    assert!(refused > OBJECTS, "{refused}");
}

#[test]
fn an_error_names_object_field_and_the_way_out() {
    let volume = json!({
        "metadata": {"name": "pv-1"},
        "spec": {"azureDisk": {"diskURI": "u", "diskName": "n", "kind": "Shared"}},
    });
    let error = TRANSLATOR.volume_to_csi(&volume).unwrap_err();
    assert_eq!(
        error.to_string(),
        "kind(Shared) is not supported in csi migration (PersistentVolume \"pv-1\": \
         spec.azureDisk.kind: only managed disks have a CSI driver; if it is one, make the volume \
         again with kind Managed)"
    );
    let volume = json!({"metadata": {"name": "pv-1"}, "spec": {"cinder": {"volumeID": 5}}});
    let error = TRANSLATOR.volume_to_csi(&volume).unwrap_err();
    assert_eq!(
        error.to_string(),
        "not a string (PersistentVolume \"pv-1\": spec.cinder.volumeID: the API server would \
         refuse it; restore the field)"
    );
}

#[test]
fn secrets_of_a_class_are_found_whatever_its_topologies_are() {
    let parameters = [
        ("zone", "a"),
        ("csi.storage.k8s.io/provisioner-secret-name", "s"),
        ("fstype", "xfs"),
    ];
    let parameters = parameters.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let found = TRANSLATOR.parameters_to_csi(EBS.plugin, &parameters.into());
    let found = found.unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|(key, value)| (&**key, &**value))
        .collect();
    assert_eq!(
        found,
        [
            ("csi.storage.k8s.io/fstype", "xfs"),
            ("csi.storage.k8s.io/provisioner-secret-name", "s")
        ]
    );
    assert_eq!(
        TRANSLATOR.parameters_to_csi("example.com/x", &Default::default()),
        None
    );
}
