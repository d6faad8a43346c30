use serde_json::{Value, json};
use sidecar::kube::key::Key;

use super::*;
use crate::testing::objects;

const UID: &str = "6d9b1f1c-6f0e-4a63-9f9e-0d8a3c3c0001";

/// A ready pair, as the API server sends it.
fn ready() -> (Value, Value) {
    let (mut snapshot, mut content) = objects::ready("s1", UID);
    for object in [&mut snapshot, &mut content] {
        object["metadata"]["resourceVersion"] = json!("4711");
        object["metadata"]["creationTimestamp"] = json!("2026-01-02T03:04:00Z");
    }
    content["metadata"]["uid"] = json!("0d9b1f1c-6f0e-4a63-9f9e-0d8a3c3c0002");
    (snapshot, content)
}

/// Whether the record is packed. Asserts that it is rebuilt unchanged.
#[track_caller]
fn is_packed<R: Pack + std::fmt::Debug>(object: &Value) -> bool {
    let (json, strings) = (object.to_string(), Interner::default());
    let read = || serde_json::from_str(&json).unwrap();
    let record = R::from_wire(read(), &strings).unwrap();
    let held = MaybePacked::<R>::from_wire(read(), &strings).unwrap();
    let key = Key::new(
        object["metadata"]["namespace"].as_str(),
        object["metadata"]["name"].as_str().unwrap(),
    );
    assert_eq!(*held.record(key.unwrap().as_str()), record);
    matches!(held, MaybePacked::Packed(_))
}

fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[field] = value;
    object
}

#[test]
fn what_is_ready_is_packed_and_nothing_comes_out_otherwise() {
    let (snapshot, content) = ready();
    assert!(is_packed::<Snapshot>(&snapshot) && is_packed::<Content>(&content));
    let still = [
        ("/spec/volumeSnapshotClassName", Value::Null),
        ("/status/restoreSize", Value::Null),
        ("/metadata/finalizers", json!(["a/b"])),
        ("/metadata/resourceVersion", json!("18446744073709551615")),
    ];
    for (pointer, value) in still {
        let changed = with(snapshot.clone(), pointer, value);
        assert!(is_packed::<Snapshot>(&changed), "{pointer}");
    }
    let whole = [
        ("/metadata/uid", json!("U1")),
        ("/metadata/uid", json!(UID.to_uppercase())),
        ("/metadata/resourceVersion", json!("007")),
        ("/metadata/resourceVersion", json!("x")),
        ("/metadata/deletionTimestamp", json!("2026-01-02T03:04:05Z")),
        (
            "/metadata/ownerReferences",
            json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]),
        ),
        ("/spec/source", json!({"volumeSnapshotContentName": "c"})),
        ("/status/boundVolumeSnapshotContentName", json!("other")),
        ("/status/creationTime", Value::Null),
        ("/status/creationTime", json!("2026-01-02T03:04:05.5Z")),
        ("/status/creationTime", json!("2026-01-02T04:04:05+01:00")),
        ("/status/readyToUse", json!(false)),
        ("/status/readyToUse", Value::Null),
        ("/status/error", json!({"message": "no"})),
        ("/status/volumeGroupSnapshotName", json!("g")),
        ("/status", Value::Null),
    ];
    for (pointer, value) in whole {
        let changed = with(snapshot.clone(), pointer, value);
        assert!(!is_packed::<Snapshot>(&changed), "{pointer}: {changed}");
    }
}

#[test]
fn so_are_contents() {
    let (_, content) = ready();
    let still = [
        ("/spec/volumeSnapshotClassName", Value::Null),
        ("/spec/deletionPolicy", json!("Retain")),
        ("/spec/source", json!({"snapshotHandle": "snap-1"})),
        ("/status/restoreSize", Value::Null),
    ];
    for (pointer, value) in still {
        let changed = with(content.clone(), pointer, value);
        assert!(is_packed::<Content>(&changed), "{pointer}");
    }
    let mark = |name: &str| json!({ name: "yes" });
    let whole = [
        ("/metadata/uid", json!("U1")),
        ("/metadata/resourceVersion", json!("x")),
        ("/metadata/creationTimestamp", Value::Null),
        (
            "/metadata/creationTimestamp",
            json!("2026-01-02T03:04:05.5Z"),
        ),
        ("/metadata/deletionTimestamp", json!("2026-01-02T03:04:05Z")),
        (
            "/metadata/annotations",
            mark(sidecar::snapshot::BEING_CREATED),
        ),
        (
            "/metadata/annotations",
            mark(sidecar::snapshot::BEING_DELETED),
        ),
        (
            "/metadata/annotations",
            mark(sidecar::snapshot::GROUP_HANDLE),
        ),
        ("/spec/volumeSnapshotRef/uid", Value::Null),
        ("/status/creationTime", Value::Null),
        ("/status/readyToUse", json!(false)),
        ("/status/snapshotHandle", Value::Null),
        ("/status/error", json!({})),
        ("/status/volumeGroupSnapshotHandle", json!("g")),
        ("/status", Value::Null),
    ];
    for (pointer, value) in whole {
        let changed = with(content.clone(), pointer, value);
        assert!(!is_packed::<Content>(&changed), "{pointer}: {changed}");
    }
}

/// 20,000 snapshots fit into 25 MB with the program itself.
#[test]
fn what_is_held_is_small() {
    assert!(size_of::<MaybePacked<Snapshot>>() <= 56);
    assert!(size_of::<MaybePacked<Content>>() <= 80);
}
