//! Objects as the API server sends them.

use serde_json::{Value, json};
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;

use crate::model::{Class, Content, Member, Members, Policy, SecretRef, Source, Status, Topology};

fn read<R: Record>(object: &Value) -> R {
    let json = object.to_string();
    let wire = serde_json::from_str(&json).unwrap();
    R::from_wire(wire, &Interner::default()).unwrap()
}

fn full() -> Value {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshotContent",
        "metadata": {
            "name": "snapcontent-U1",
            "uid": "C1",
            "resourceVersion": "7",
            "deletionTimestamp": "2026-01-02T03:04:05Z",
            "finalizers": ["snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"],
            "annotations": {
                "snapshot.storage.kubernetes.io/volumesnapshot-being-created": "yes",
                "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted": "yes",
                "snapshot.storage.kubernetes.io/deletion-secret-name": "sec",
                "snapshot.storage.kubernetes.io/deletion-secret-namespace": "ns2",
                "groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle": "g1",
                "foreign": "kept"
            }
        },
        "spec": {
            "deletionPolicy": "Delete",
            "driver": "test.csi.driver",
            "source": {"volumeHandle": "vol-1"},
            "sourceVolumeMode": "Filesystem",
            "volumeSnapshotClassName": "c1",
            "volumeSnapshotRef": {
                "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
                "name": "s1", "namespace": "ns", "uid": "U1", "resourceVersion": "3"
            }
        },
        "status": {
            "creationTime": 1_767_323_045_000_000_000_i64,
            "error": {"time": "2026-01-02T03:04:05Z", "message": "x"},
            "readyToUse": true,
            "restoreSize": 1_073_741_824,
            "snapshotHandle": "snap-1",
            "volumeGroupSnapshotHandle": "g1"
        }
    })
}

#[test]
fn a_content_with_everything() {
    let content: Content = read(&full());
    let expected = Content {
        uid: "C1".into(),
        version: 7,
        deleting: true,
        being_created: true,
        being_deleted: true,
        member: true,
        secret: Some(Box::new(SecretRef {
            namespace: "ns2".into(),
            name: "sec".into(),
        })),
        status: Some(Status {
            handle: Some("snap-1".into()),
            created: Some(1_767_323_045_000_000_000),
            ready: Some(true),
            size: Some(1 << 30),
            group: Some("g1".into()),
            members: Members::default(),
            error: Some("x".into()),
        }),
        ..crate::testing::content()
    };
    assert_eq!(content, expected);
}

#[test]
fn what_is_absent_or_null_or_odd() {
    let nothing: Content = read(&json!({"metadata": {"name": "a"}}));
    assert_eq!(nothing, Content::default());
    let nulls: Content = read(&json!({
        "metadata": {"name": "a", "annotations": null, "finalizers": null},
        "spec": {"source": null, "volumeSnapshotRef": null, "deletionPolicy": null},
        "status": null
    }));
    assert_eq!(nulls, Content::default());
    let empty: Content = read(&json!({"metadata": {"name": "a"}, "status": {}}));
    assert_eq!(empty.status, Some(Status::default()));
    // An error object without a message; upstream's sidecar crashes on it.
    let silent: Content = read(&json!({"metadata": {}, "status": {"error": {}}}));
    assert_eq!(silent.status.unwrap().error.as_deref(), Some(""));
    let unknown: Content = read(&json!({"metadata": {}, "spec": {"deletionPolicy": "Recycle"}}));
    assert_eq!(
        unknown.policy,
        Policy::Retain,
        "nothing is deleted for a word nobody knows"
    );
    let found: Content =
        read(&json!({"metadata": {}, "spec": {"source": {"snapshotHandle": "snap-9"}}}));
    assert_eq!(found.source, Some(Source::Snapshot("snap-9".into())));
}

#[test]
fn s_38_s_39_s_40_the_secret_that_annotations_name() {
    let annotated = |name: Option<&str>, namespace: Option<&str>| {
        let mut object = full();
        object["metadata"]["annotations"] = json!({
            "snapshot.storage.kubernetes.io/deletion-secret-name": name,
            "snapshot.storage.kubernetes.io/deletion-secret-namespace": namespace,
        });
        let object = object.to_string();
        // Absent instead of null: annotations cannot be null.
        let object: Value = serde_json::from_str(&object).unwrap();
        let mut object = object;
        let annotations = object["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.retain(|_, value| !value.is_null());
        let content: Content = read(&object);
        content
            .secret
            .map(|secret| format!("{}/{}", secret.namespace, secret.name))
    };
    for (row, name, namespace, expected) in [
        ("S-38", Some("sec"), Some("ns2"), Some("ns2/sec")),
        ("S-39", Some("sec"), None, None),
        ("S-39, the other", None, Some("ns2"), None),
        ("S-40", Some(""), Some("ns2"), Some("ns2/")),
        ("none", None, None, None),
    ] {
        assert_eq!(annotated(name, namespace).as_deref(), expected, "{row}");
    }
}

#[test]
fn the_mark_is_its_presence() {
    for (value, again) in [("yes", false), ("again", true), ("", true)] {
        let mut object = full();
        let key = "snapshot.storage.kubernetes.io/volumesnapshot-being-created";
        object["metadata"]["annotations"][key] = value.into();
        let content: Content = read(&object);
        assert!(content.being_created, "{value:?}");
        assert_eq!(content.marked_again, again, "{value:?}");
    }
}

fn full_group() -> Value {
    json!({
        "apiVersion": "groupsnapshot.storage.k8s.io/v1",
        "kind": "VolumeGroupSnapshotContent",
        "metadata": {
            "name": "groupsnapcontent-V1",
            "uid": "CV1",
            "resourceVersion": "7",
            "finalizers": [
                "groupsnapshot.storage.kubernetes.io/volumegroupsnapshotcontent-bound-protection"
            ],
            "annotations": {
                "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-created": "yes",
                "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-deleted": "yes",
                "groupsnapshot.storage.kubernetes.io/deletion-secret-name": "sec",
                "groupsnapshot.storage.kubernetes.io/deletion-secret-namespace": "ns2",
                // Annotations of the other kind have no meaning here.
                "snapshot.storage.kubernetes.io/deletion-secret-name": "other"
            }
        },
        "spec": {
            "deletionPolicy": "Delete",
            "driver": "test.csi.driver",
            "source": {"volumeHandles": ["vol-1", "vol-2"]},
            "volumeGroupSnapshotClassName": "g",
            "volumeGroupSnapshotRef": {"name": "v1", "namespace": "ns", "uid": "V1"}
        },
        "status": {
            "creationTime": "2026-01-02T03:04:05Z",
            "readyToUse": true,
            "volumeGroupSnapshotHandle": "grp-1",
            "volumeSnapshotInfoList": [
                {
                    "volumeHandle": "vol-1", "snapshotHandle": "snap-1", "readyToUse": true,
                    "creationTime": 1_767_323_045_000_000_000_i64, "restoreSize": 5
                },
                {"volumeHandle": "vol-2", "snapshotHandle": "snap-2", "restoreSize": null}
            ]
        }
    })
}

#[test]
fn a_group_with_everything() {
    let content: Content = read(&full_group());
    let member = |volume: &str, handle: &str| Member {
        volume: volume.into(),
        handle: handle.into(),
        ..Member::default()
    };
    let first = Member {
        created: Some(1_767_323_045_000_000_000),
        ready: Some(true),
        size: Some(5),
        ..member("vol-1", "snap-1")
    };
    let expected = Content {
        version: 7,
        being_created: true,
        being_deleted: true,
        secret: Some(Box::new(SecretRef {
            namespace: "ns2".into(),
            name: "sec".into(),
        })),
        status: Some(Status {
            handle: Some("grp-1".into()),
            created: Some(1_767_323_045_000_000_000),
            ready: Some(true),
            members: [first, member("vol-2", "snap-2")].into(),
            ..Status::default()
        }),
        ..crate::testing::group_content()
    };
    assert_eq!(content, expected);
    assert!(content.is_protected());
}

#[test]
fn sources_of_groups() {
    let source = |source: Value| {
        let mut object = full_group();
        object["spec"]["source"] = source;
        let content: Content = read(&object);
        content.source
    };
    assert_eq!(source(json!({"volumeHandles": []})), None);
    assert_eq!(source(json!({"volumeHandles": null})), None);
    assert_eq!(source(json!({"groupSnapshotHandles": {}})), None);
    let handles = json!({
        "volumeGroupSnapshotHandle": "grp-9",
        "volumeSnapshotHandles": ["snap-8", "snap-9"]
    });
    let expected = crate::testing::pre_provisioned_group().source;
    assert_eq!(source(json!({ "groupSnapshotHandles": handles })), expected);
    let mut object = full_group();
    object["status"]["creationTime"] = "yesterday".into();
    let content: Content = read(&object);
    assert_eq!(content.status.unwrap().created, Some(0));
}

#[test]
fn s_114_s_116_annotations_about_topology() {
    let mut object = full();
    let annotations = &mut object["metadata"]["annotations"];
    annotations["csi-sidecars.io/snapshot-allowed-topologies"] = "[]".into();
    annotations["csi-sidecars.io/snapshot-accessible-topology"] = "[{}]".into();
    let content: Content = read(&object);
    let expected = Topology {
        allowed: Some("[]".into()),
        accessible: Some("[{}]".into()),
    };
    assert_eq!(content.topology, Some(Box::new(expected)));
}

#[test]
fn a_class() {
    let class: Class = read(&json!({
        "metadata": {"name": "c1"},
        "driver": "test.csi.driver",
        "deletionPolicy": "Delete",
        "parameters": {"a": "b"}
    }));
    assert_eq!(class, crate::testing::class());
    let bare: Class = read(&json!({"metadata": {"name": "c1"}, "parameters": null}));
    assert_eq!(bare, Class::default());
}
