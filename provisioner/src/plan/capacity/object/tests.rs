//! Rows 238 to 245, 256 and 257, as far as they are about an object's content.

use std::sync::Arc;

use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;

use super::*;
use crate::plan::topology::Term;

const GI: i64 = 1 << 30;
const MI: i64 = 1 << 20;

fn owner() -> Owner {
    Owner {
        api_version: "apps/v1".into(),
        kind: "StatefulSet".into(),
        name: "set".into(),
        uid: "set-uid".into(),
    }
}

fn producer(owner: Option<Owner>) -> Producer {
    Producer {
        driver: "test-driver".into(),
        managed_by: "external-provisioner".into(),
        namespace: "ns".into(),
        owner,
    }
}

fn item(labels: &[(&str, &str)]) -> Item {
    let labels = labels
        .iter()
        .map(|(key, value)| ((*key).into(), (*value).into()));
    Item {
        class: "sc1".into(),
        segment: Term::new(labels),
    }
}

fn free(available: i64, largest: Option<i64>) -> FreeCapacity {
    FreeCapacity::new(&GetCapacityResponse {
        available_capacity: available,
        maximum_volume_size: largest,
        minimum_volume_size: Some(5),
    })
    .unwrap()
}

/// The object as the API server stores it.
fn stored(object: &Value, change: impl FnOnce(&mut Value)) -> StorageCapacity {
    let mut object = object.clone();
    object["metadata"]["name"] = "csisc-x".into();
    object["metadata"]["uid"] = "u1".into();
    object["metadata"]["resourceVersion"] = "7".into();
    change(&mut object);
    let text = object.to_string();
    StorageCapacity::from_wire(serde_json::from_str(&text).unwrap(), &Interner::default()).unwrap()
}

fn created(producer: &Producer, item: &Item, free: FreeCapacity) -> Value {
    match producer.decide(item, free, None) {
        Step::Create(object) => object,
        step @ (Step::Keep | Step::Update(..)) => panic!("{step:?}"),
    }
}

#[test]
fn row_238_a_new_object() {
    let item = item(&[("zone", "1"), ("rack", "A")]);
    let expected = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {
            "generateName": "csisc-",
            "namespace": "ns",
            "labels": {
                "csi.storage.k8s.io/drivername": "test-driver",
                "csi.storage.k8s.io/managed-by": "external-provisioner",
            },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "set", "uid": "set-uid",
                "controller": true,
            }],
        },
        "storageClassName": "sc1",
        "nodeTopology": {"matchLabels": {"zone": "1", "rack": "A"}},
        "capacity": "1Gi",
    });
    assert_eq!(
        created(&producer(Some(owner())), &item, free(GI, None)),
        expected
    );
    let unowned = created(&producer(None), &item, free(GI, None));
    assert_eq!(unowned["metadata"].get("ownerReferences"), None);
    assert_eq!(
        producer(None).selector(),
        "csi.storage.k8s.io/drivername=test-driver,csi.storage.k8s.io/managed-by=external-provisioner"
    );
}

/// A row: capacity and maximum of the object, those of the driver's answer, and those that are written.
type Row = (
    u32,
    (i64, Option<i64>),
    (i64, Option<i64>),
    Option<(&'static str, Option<&'static str>)>,
);

#[test]
fn rows_239_to_243_values() {
    let producer = producer(Some(owner()));
    let item = item(&[("zone", "1")]);
    let rows: [Row; 7] = [
        (
            239,
            (GI, Some(MI)),
            (GI, Some(2 * MI)),
            Some(("1Gi", Some("2Mi"))),
        ),
        (239, (GI, None), (GI, Some(MI)), Some(("1Gi", Some("1Mi")))),
        (239, (GI, None), (GI, Some(0)), Some(("1Gi", Some("0")))),
        (239, (GI, Some(0)), (GI, None), Some(("1Gi", None))),
        (240, (GI, None), (0, None), Some(("0", None))),
        (242, (GI, Some(MI)), (GI, Some(MI)), None),
        (
            243,
            (GI, Some(MI)),
            (2 * GI, Some(MI)),
            Some(("2Gi", Some("1Mi"))),
        ),
    ];
    for (row, (held, held_largest), (available, largest), written) in rows {
        let object = created(&producer, &item, free(held, held_largest));
        let object = stored(&object, |_| {});
        let step = producer.decide(&item, free(available, largest), Some(&object));
        let Some((capacity, maximum)) = written else {
            assert_eq!(step, Step::Keep, "row {row}");
            continue;
        };
        let Step::Update(name, object) = step else {
            panic!("row {row}: {step:?}");
        };
        assert_eq!(&*name, "csisc-x");
        assert_eq!(object["capacity"], capacity, "row {row}");
        assert_eq!(
            object.get("maximumVolumeSize"),
            maximum.map(Value::from).as_ref(),
            "row {row}"
        );
    }
    let zero = created(&producer, &item, free(0, None));
    assert_eq!(zero["capacity"], "0", "row 240");
    let largest = created(&producer, &item, free(GI, Some(MI)));
    assert_eq!(largest["maximumVolumeSize"], "1Mi", "row 239");
}

#[test]
fn row_242_a_value_may_be_written_otherwise() {
    let producer = producer(None);
    let item = item(&[]);
    let object = created(&producer, &item, free(GI, None));
    let other = stored(&object, |object| object["capacity"] = "1024Mi".into());
    assert_eq!(
        producer.decide(&item, free(GI, None), Some(&other)),
        Step::Keep
    );
    // Upstream ends when there is none.
    let none = stored(&object, |object| object["capacity"] = Value::Null);
    let step = producer.decide(&item, free(0, None), Some(&none));
    assert!(matches!(step, Step::Update(..)), "{step:?}");
}

#[test]
fn row_244_a_missing_owner_is_appended_and_all_else_stays() {
    let item = item(&[("zone", "1")]);
    let mut object = created(&producer(None), &item, free(GI, None));
    let extra = json!({
        "generateName": "csisc-", "namespace": "ns",
        "labels": {"a": "b", "csi.storage.k8s.io/drivername": "test-driver"},
        "annotations": {"c": "d"}, "finalizers": ["f"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n-uid", "blockOwnerDeletion": true}],
    });
    object["metadata"] = extra.clone();
    let held = stored(&object, |_| {});
    let step = producer(Some(owner())).decide(&item, free(GI, None), Some(&held));
    let Step::Update(_, updated) = step else {
        panic!("{step:?}");
    };
    let mut expected = extra;
    expected["name"] = "csisc-x".into();
    expected["uid"] = "u1".into();
    expected["resourceVersion"] = "7".into();
    let owners = expected["ownerReferences"].as_array_mut().unwrap();
    owners.push(owner().reference(true));
    assert_eq!(updated["metadata"], expected);
    // The API server allows one controller only: before an update of a Deployment it was another ReplicaSet.
    object["metadata"]["ownerReferences"][0]["controller"] = true.into();
    let held = stored(&object, |_| {});
    let step = producer(Some(owner())).decide(&item, free(GI, None), Some(&held));
    let Step::Update(_, updated) = step else {
        panic!("{step:?}");
    };
    let owners = updated["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!(owners[0]["controller"], true);
    assert_eq!(owners[1], owner().reference(false));
}

#[test]
fn row_245_an_owner_is_never_removed() {
    let item = item(&[("zone", "1")]);
    let object = stored(
        &created(&producer(Some(owner())), &item, free(GI, None)),
        |_| {},
    );
    let step = producer(None).decide(&item, free(GI, None), Some(&object));
    assert_eq!(step, Step::Keep);
    let step = producer(None).decide(&item, free(0, None), Some(&object));
    let Step::Update(_, updated) = step else {
        panic!("{step:?}");
    };
    assert_eq!(updated["metadata"]["ownerReferences"][0]["uid"], "set-uid");
}

#[test]
fn rows_256_257_the_request() {
    let parameters = [("csi.storage.k8s.io/fstype", "xfs"), ("tier", "fast")];
    let class = Class {
        parameters: parameters.into_iter().collect(),
        allowed_topologies: Arc::from([]),
        ..Class::default()
    };
    let sent = request(&item(&[("zone", "1")]), &class);
    assert!(sent.volume_capabilities.is_empty());
    assert_eq!(sent.parameters.len(), 2);
    assert_eq!(sent.parameters["csi.storage.k8s.io/fstype"], "xfs");
    assert_eq!(sent.accessible_topology.unwrap().segments["zone"], "1");
    let sent = request(&item(&[]), &class);
    assert!(sent.accessible_topology.unwrap().segments.is_empty());
}

#[test]
fn negative_numbers_are_an_error() {
    for (available, largest, field) in [
        (-1, None, "available_capacity: -1"),
        (0, Some(i64::MIN), "maximum_volume_size: -9"),
    ] {
        let answer = GetCapacityResponse {
            available_capacity: available,
            maximum_volume_size: largest,
            minimum_volume_size: None,
        };
        let error = FreeCapacity::new(&answer).unwrap_err().to_string();
        assert!(error.contains(field), "{error}");
    }
}
