//! Objects as an API server may send them.

use std::sync::Arc;

use serde_json::{Value, json};
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::snapshot::{BEING_DELETED, CLAIM_AS_SOURCE, CONTENT_BOUND, SNAPSHOT_AS_SOURCE};

use crate::model::{
    Claim, ClaimRef, Class, Content, ContentSource, ContentStatus, Csi, Failure, Node, Phase,
    Policy, Snapshot, SnapshotRef, SnapshotStatus, Source, Text, Uid, Volume,
};

fn read<R: Record>(object: &Value) -> R {
    let json = object.to_string();
    let wire = serde_json::from_str(&json).unwrap();
    R::from_wire(wire, &Interner::default()).unwrap()
}

fn text(text: &str) -> Option<Text> {
    Some(text.into())
}

#[test]
fn a_snapshot() {
    let object = json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": {
            "name": "s1", "namespace": "ns", "uid": "U1", "resourceVersion": "7",
            "deletionTimestamp": "2026-01-02T03:04:05Z", "finalizers": [SNAPSHOT_AS_SOURCE],
        },
        "spec": {"source": {"persistentVolumeClaimName": "p1"}, "volumeSnapshotClassName": "c1"},
        "status": {
            "boundVolumeSnapshotContentName": "snapcontent-U1", "readyToUse": false,
            "creationTime": "2026-01-02T03:04:05Z", "restoreSize": "1Gi",
            "error": {"message": "m", "time": "2026-01-02T03:04:05Z"},
            "volumeGroupSnapshotName": "g",
        },
    });
    let expected = Snapshot {
        namespace: "ns".into(),
        name: "s1".into(),
        uid: "U1".into(),
        version: "7".into(),
        deleting: true,
        finalizers: Arc::new([SNAPSHOT_AS_SOURCE.into()]),
        source: Source::Claim("p1".into()),
        class: text("c1"),
        status: Some(Box::new(SnapshotStatus {
            bound: text("snapcontent-U1"),
            creation_time: text("2026-01-02T03:04:05Z"),
            ready: Some(false),
            restore_size: text("1Gi"),
            error: Some(Failure {
                message: text("m"),
                time: text("2026-01-02T03:04:05Z"),
            }),
            group: text("g"),
        })),
        ..Snapshot::default()
    };
    assert_eq!(read::<Snapshot>(&object), expected);
}

#[test]
fn a_content() {
    let object = json!({
        "metadata": {
            "name": "v", "uid": "C1", "resourceVersion": "8",
            "annotations": {BEING_DELETED: ""}, "finalizers": [CONTENT_BOUND],
        },
        "spec": {
            "volumeSnapshotRef": {"namespace": "ns", "name": "s1", "uid": "U1"},
            "source": {"volumeHandle": "vol-1"}, "driver": "T", "deletionPolicy": "Delete",
        },
        "status": {"creationTime": 5, "restoreSize": 6, "readyToUse": true},
    });
    let expected = Content {
        name: "v".into(),
        uid: "C1".into(),
        version: "8".into(),
        finalizers: Arc::new([CONTENT_BOUND.into()]),
        // The annotation counts by its presence, not its value.
        being_deleted: true,
        snapshot: SnapshotRef {
            namespace: "ns".into(),
            name: "s1".into(),
            uid: "U1".into(),
        },
        source: ContentSource::Volume,
        driver: "T".into(),
        policy: Policy::Delete,
        status: Some(Box::new(ContentStatus {
            creation_time: Some(5),
            restore_size: Some(6),
            ready: Some(true),
            ..ContentStatus::default()
        })),
        ..Content::default()
    };
    assert_eq!(read::<Content>(&object), expected);
}

#[test]
fn a_claim_is_read_with_itself_only_if_it_is_ours() {
    let mut object = json!({
        "metadata": {"name": "p1", "namespace": "ns", "uid": "P1", "finalizers": [CLAIM_AS_SOURCE]},
        "spec": {"volumeName": "pv1"}, "status": {"phase": "Bound"},
    });
    let expected = Claim {
        uid: Uid::new("P1"),
        phase: Phase::Bound,
        volume: "pv1".into(),
        protected: Some(object.to_string().into()),
        ..Claim::default()
    };
    assert_eq!(read::<Claim>(&object), expected);
    object["metadata"]["finalizers"] = json!(["a/b"]);
    assert_eq!(read::<Claim>(&object).protected, None);
}

#[test]
fn c_73_c_74_which_snapshot_a_claim_is_restored_from() {
    let group = "snapshot.storage.k8s.io";
    let snapshot = json!({"apiGroup": group, "kind": "VolumeSnapshot", "name": "s1"});
    let elsewhere =
        json!({"apiGroup": group, "kind": "VolumeSnapshot", "name": "s1", "namespace": "ns2"});
    let claim = json!({"kind": "PersistentVolumeClaim", "name": "s1"});
    let other = json!({"apiGroup": "x.io", "kind": "VolumeSnapshot", "name": "s1"});
    let ungrouped = json!({"kind": "VolumeSnapshot", "name": "s1"});
    for (phase, source, source_ref, expected) in [
        ("Pending", snapshot.clone(), json!(null), text("ns/s1")),
        ("Pending", snapshot.clone(), snapshot.clone(), text("ns/s1")),
        ("Pending", json!(null), elsewhere, text("ns2/s1")),
        ("Bound", snapshot.clone(), snapshot, None),
        ("Pending", claim.clone(), claim, None),
        ("Pending", other.clone(), other, None),
        ("Pending", ungrouped.clone(), ungrouped, None),
    ] {
        let object = json!({
            "metadata": {"name": "r1", "namespace": "ns"},
            "spec": {"dataSource": source, "dataSourceRef": source_ref},
            "status": {"phase": phase},
        });
        assert_eq!(read::<Claim>(&object).restores, expected, "{object}");
    }
}

#[test]
fn a_volume() {
    let object = json!({
        "metadata": {"name": "pv1"},
        "spec": {
            "csi": {"driver": "T", "volumeHandle": "vol-1"},
            "claimRef": {"namespace": "ns", "name": "p1", "uid": "P1"},
            "volumeMode": "Filesystem",
            "nodeAffinity": {"required": {"nodeSelectorTerms": []}},
        },
    });
    let expected = Volume {
        csi: Some(Csi {
            driver: "T".into(),
            handle: "vol-1".into(),
        }),
        claim: Some(ClaimRef {
            namespace: "ns".into(),
            name: "p1".into(),
            uid: Some(Uid::new("P1")),
        }),
        mode: text("Filesystem"),
        affinity: text(r#"{"nodeSelectorTerms":[]}"#),
    };
    assert_eq!(read::<Volume>(&object), expected);
}

#[test]
fn a_class_and_who_is_the_default() {
    for (annotation, default) in [(Some("true"), true), (Some("True"), false), (None, false)] {
        let object = json!({
            "metadata": {"name": "c1", "annotations": {
                "snapshot.storage.kubernetes.io/is-default-class": annotation.unwrap_or("false"),
            }},
            "driver": "T", "deletionPolicy": "Delete",
            "parameters": {"a": "b", "csi.storage.k8s.io/snapshotter-secret-name": "n"},
        });
        let expected = Class {
            driver: "T".into(),
            policy: Policy::Delete,
            default,
            secret_name: text("n"),
            ..Class::default()
        };
        assert_eq!(read::<Class>(&object), expected);
    }
    let both = json!({
        "metadata": {"annotations": {"csi-sidecars.io/snapshot-allowed-topologies": "[]"}},
        "allowedTopologies": [1],
    });
    assert_eq!(read::<Class>(&both).topologies, text("[1]"));
    let annotation = json!({"metadata": both["metadata"]});
    assert_eq!(read::<Class>(&annotation).topologies, text("[]"));
}

#[test]
fn nothing_is_too_little() {
    for object in [
        json!({}),
        json!({"metadata": null, "spec": null, "status": null}),
        json!({"metadata": {}, "spec": {}, "status": {}}),
    ] {
        let bare = read::<Snapshot>(&object);
        let blank = bare
            .status
            .as_deref()
            .is_none_or(|s| *s == SnapshotStatus::default());
        assert!(blank && bare.source == Source::Unclear);
        assert_eq!(read::<Content>(&object).source, ContentSource::Unclear);
        // An unknown policy counts as Retain.
        assert_eq!(read::<Content>(&object).policy, Policy::Retain);
        assert_eq!(read::<Class>(&object), Class::default());
        assert_eq!(read::<Volume>(&object), Volume::default());
        assert_eq!(read::<Node>(&object), Node::default());
        assert_eq!(read::<Claim>(&object).phase, Phase::Other);
    }
}
