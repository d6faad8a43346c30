//! Writes of the CSINode: K-52 to K-62.

use registrar::kubelet::plan::csinode::{
    NodeInfo, Owner, Step, plan_initialize, plan_install, plan_uninstall,
};
use serde_json::{Value, json};

const D: &str = "d.example.com";
const MIGRATED: &str = "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,\
                        kubernetes.io/cinder,kubernetes.io/gce-pd,kubernetes.io/portworx-volume,\
                        kubernetes.io/vsphere-volume";

fn owner() -> Owner {
    Owner {
        name: "n1".to_owned(),
        uid: "uid-1".to_owned(),
    }
}

fn csinode(entries: Value) -> Value {
    json!({
        "metadata": {
            "name": "n1",
            "resourceVersion": "7",
            "annotations": { "storage.alpha.kubernetes.io/migrated-plugins": MIGRATED },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-1" }],
        },
        "spec": { "drivers": entries },
    })
}

fn info(max_volumes: i64, keys: &[&str]) -> NodeInfo {
    NodeInfo {
        node_id: "id-1".to_owned(),
        max_volumes,
        topology: keys
            .iter()
            .map(|&key| (key.to_owned(), "x".to_owned()))
            .collect(),
    }
}

/// `spec.drivers` of a PUT, or `None` if there is no write.
fn put(existing: Value, info: &NodeInfo) -> Option<Value> {
    match plan_install(Some(&csinode(existing)), &owner(), D, info) {
        Step::Replace(object) => Some(object["spec"]["drivers"].clone()),
        Step::Nothing => None,
        step @ (Step::Create(_) | Step::DeleteForeign) => panic!("{step:?}"),
    }
}

fn entry(name: &str, count: Option<i64>) -> Value {
    let mut entry = json!({ "name": name, "nodeID": "id-1", "topologyKeys": null });
    if let Some(count) = count {
        entry["allocatable"] = json!({ "count": count });
    }
    entry
}

#[test]
fn k_53_54_the_driver_goes_to_the_end() {
    let info = info(10, &[]);
    let rows = [
        (
            53,
            json!([entry("a", None)]),
            json!([entry("a", None), entry(D, Some(10))]),
        ),
        (
            54,
            json!([entry(D, Some(9)), entry("a", None)]),
            json!([entry("a", None), entry(D, Some(10))]),
        ),
    ];
    for (row, existing, expected) in rows {
        assert_eq!(put(existing, &info), Some(expected), "K-{row}");
    }
}

#[test]
fn k_55_limits_as_they_are_written() {
    let largest = i64::from(i32::MAX);
    let rows = [
        (10, Some(10)),
        (1, Some(1)),
        (0, None),
        (largest, Some(largest)),
        (largest + 1, Some(largest)),
        (i64::MAX, Some(largest)),
        (-1, None),
        (i64::MIN, None),
    ];
    for (reported, count) in rows {
        let written = put(json!([]), &info(reported, &[]));
        assert_eq!(written, Some(json!([entry(D, count)])), "{reported}");
    }
}

#[test]
fn k_56_57_when_an_entry_needs_no_write() {
    let largest = i64::from(i32::MAX);
    let rows = [
        (56, 10, Some(10), false),
        (56, 10, Some(11), true),
        (56, 10, None, true),
        (56, 0, None, false),
        (56, 0, Some(1), true),
        (56, largest, Some(largest), false),
        (57, largest + 1, Some(largest), true),
        (57, -1, None, true),
    ];
    for (row, reported, existing, written) in rows {
        let step = put(json!([entry(D, existing)]), &info(reported, &[]));
        assert_eq!(
            step.is_some(),
            written,
            "K-{row} {existing:?} -> {reported}"
        );
    }
}

#[test]
fn k_58_topology_keys_are_sorted_or_null() {
    let keys = |info: &NodeInfo| put(json!([]), info).unwrap()[0]["topologyKeys"].clone();
    assert_eq!(keys(&info(0, &["b", "a"])), json!(["a", "b"]));
    assert_eq!(keys(&info(0, &[])), Value::Null);
}

#[test]
fn equal_entries_are_compared_by_set_of_keys_and_node_id() {
    let existing = |keys: Value| json!([{ "name": D, "nodeID": "id-1", "topologyKeys": keys }]);
    assert_eq!(
        put(existing(json!(["b", "a"])), &info(0, &["a", "b"])),
        None
    );
    assert!(put(existing(json!(["a"])), &info(0, &["a", "b"])).is_some());
    assert!(put(json!([{ "name": D, "nodeID": "id-0" }]), &info(0, &[])).is_some());
}

#[test]
fn a_missing_csinode_is_created_and_a_foreign_one_deleted() {
    let expected = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {
            "name": "n1",
            "annotations": { "storage.alpha.kubernetes.io/migrated-plugins": MIGRATED },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-1" }],
        },
        "spec": { "drivers": [] },
    });
    assert_eq!(
        plan_install(None, &owner(), D, &info(0, &[])),
        Step::Create(expected.clone())
    );
    assert_eq!(plan_initialize(None, &owner()), Step::Create(expected));

    let foreign = [
        json!([]),
        json!([{ "kind": "Node", "name": "n1", "uid": "uid-2" }]),
        json!([{ "kind": "Node", "name": "n2", "uid": "uid-1" }]),
        json!([{ "kind": "Pod", "name": "n1", "uid": "uid-1" }]),
    ];
    for owners in foreign {
        let mut object = csinode(json!([]));
        object["metadata"]["ownerReferences"] = owners;
        assert_eq!(
            plan_initialize(Some(&object), &owner()),
            Step::DeleteForeign
        );
        let step = plan_install(Some(&object), &owner(), D, &info(0, &[]));
        assert_eq!(step, Step::DeleteForeign);
    }
}

#[test]
fn the_annotation_is_compared_as_a_set_and_others_are_kept() {
    let with = |value: &str| {
        let mut object = csinode(json!([]));
        object["metadata"]["annotations"] =
            json!({ "mine": "kept", "storage.alpha.kubernetes.io/migrated-plugins": value });
        object
    };
    let mut reversed: Vec<&str> = MIGRATED.split(',').collect();
    reversed.reverse();
    assert_eq!(
        plan_initialize(Some(&with(&reversed.join(","))), &owner()),
        Step::Nothing
    );
    for value in ["", "kubernetes.io/aws-ebs", "other"] {
        assert_eq!(
            plan_initialize(Some(&with(value)), &owner()),
            Step::Replace(with(MIGRATED))
        );
    }
    let Step::Replace(object) = plan_install(Some(&with("other")), &owner(), D, &info(0, &[]))
    else {
        panic!("no write");
    };
    assert_eq!(
        object["metadata"]["annotations"],
        with(MIGRATED)["metadata"]["annotations"]
    );
}

#[test]
fn an_uninstall_removes_the_entry_and_nothing_else() {
    let mut object = csinode(json!([entry(D, None), entry("a", None)]));
    object["spec"]["fromTheFuture"] = json!(1);
    let Step::Replace(written) = plan_uninstall(Some(&object), D) else {
        panic!("no write")
    };
    object["spec"]["drivers"] = json!([entry("a", None)]);
    assert_eq!(written, object);
    assert_eq!(plan_uninstall(Some(&object), D), Step::Nothing);
    assert_eq!(plan_uninstall(None, D), Step::Nothing);
}

#[test]
fn objects_of_any_shape_are_read_without_a_panic() {
    let shapes = [
        json!({}),
        json!({ "spec": 1 }),
        json!({ "spec": { "drivers": [1, { "name": 2 }, null] } }),
    ];
    for mut shape in shapes {
        shape["metadata"] = csinode(json!([]))["metadata"].clone();
        let step = plan_install(Some(&shape), &owner(), D, &info(1, &["a"]));
        assert!(matches!(step, Step::Replace(_)), "{step:?}");
        assert_eq!(plan_uninstall(Some(&shape), D), Step::Nothing);
    }
}
