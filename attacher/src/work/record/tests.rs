//! Objects as an API server sends them, and as it might.

use serde_json::json;

use super::*;

fn read<R: Record>(json: &serde_json::Value) -> R {
    let text = json.to_string();
    let wire: R::Wire<'_> = serde_json::from_str(&text).unwrap();
    R::from_wire(wire, &Interner::default()).unwrap()
}

#[test]
fn a_volume_attachment_is_read() {
    let read: Attachment = read(&json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": {
            "name": "csi-1", "uid": "u", "resourceVersion": "77",
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["a/b", "external-attacher/x"],
            "annotations": {"other": "y", "csi.alpha.kubernetes.io/node-id": "NID"},
            "managedFields": [{"manager": "x"}],
        },
        "spec": {
            "attacher": "x", "nodeName": "n1", "source": {"persistentVolumeName": "pv1"},
        },
        "status": {
            "attached": true, "attachmentMetadata": {"b": "2", "a": "1"},
            "attachError": {"message": "m", "time": "t", "errorCode": 8},
            "detachError": {"message": "d"},
        },
    }));
    assert_eq!((&*read.name, &*read.uid, read.version), ("csi-1", "u", 77));
    assert!(read.deleting && read.attached);
    assert!(read.has_finalizer("external-attacher/x"));
    assert_eq!(read.node_id.as_deref(), Some("NID"));
    assert_eq!((&*read.attacher, &*read.node), ("x", "n1"));
    assert_eq!(read.volume.as_deref(), Some("pv1"));
    assert!(read.metadata.iter().eq([("a", "1"), ("b", "2")]));
    assert_eq!(read.attach_error.unwrap().code, Some(8));
    assert_eq!(read.detach_error.unwrap().message.as_deref(), Some("d"));
}

#[test]
fn a_persistent_volume_is_read() {
    let read: Volume = read(&json!({
        "metadata": {
            "name": "pv1", "uid": "0b0c2a5e-6c2d-4f53-8a2e-1f5f0e6f7a10",
            "finalizers": ["kubernetes.io/pv-protection"],
        },
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Block", "mountOptions": ["noatime"],
            "csi": {
                "driver": "x", "volumeHandle": "h", "readOnly": true, "fsType": "xfs",
                "volumeAttributes": {"k": "v"},
                "controllerPublishSecretRef": {"name": "sec", "namespace": "ns1"},
                "nodeStageSecretRef": {"name": "other", "namespace": "ns1"},
            },
        },
    }));
    assert!(read.uid.is_some() && !read.deleting && read.spec.block);
    assert!(read.has_finalizer("kubernetes.io/pv-protection"));
    let Source::Csi(csi) = read.spec.source else {
        panic!("{:?}", read.spec.source)
    };
    assert_eq!(
        (&*csi.handle, csi.read_only, &*csi.fs_type),
        ("h", true, "xfs")
    );
    assert!(csi.attributes.iter().eq([("k", "v")]));
    let secret = csi.publish_secret.unwrap();
    assert_eq!((&*secret.namespace, &*secret.name), ("ns1", "sec"));
}

#[test]
fn in_tree_sources_are_told_from_others() {
    let source = |field: &str| {
        let volume: Volume = read(&json!({"spec": {field: {"volumeID": "x"}}}));
        volume.spec.source
    };
    let rows = [
        ("awsElasticBlockStore", InTree::AwsElasticBlockStore),
        ("gcePersistentDisk", InTree::GcePersistentDisk),
        ("cinder", InTree::Cinder),
        ("azureDisk", InTree::AzureDisk),
        ("azureFile", InTree::AzureFile),
        ("vsphereVolume", InTree::VsphereVolume),
        ("portworxVolume", InTree::PortworxVolume),
    ];
    for (field, kind) in rows {
        assert_eq!(source(field), Source::InTree(kind), "{}", kind.plugin());
    }
    assert_eq!(source("nfs"), Source::Other);
    let null: Volume = read(&json!({"spec": {"cinder": null, "csi": null}}));
    assert_eq!(null.spec.source, Source::Other);
}

#[test]
fn a_csinode_is_read() {
    let read: CsiNode = read(&json!({"metadata": {"name": "n"}, "spec": {"drivers": [
        {"name": "a", "nodeID": "1", "topologyKeys": ["x"], "allocatable": {"count": 3}},
        {"name": "b", "nodeID": "2"},
    ]}}));
    assert_eq!((read.id_for("b"), read.id_for("c")), (Some("2"), None));
}

#[test]
fn nothing_that_is_absent_or_null_fails() {
    for text in [
        "{}",
        r#"{"metadata":null,"spec":null,"status":null}"#,
        r#"{"metadata":{"name":null},"spec":{"source":null,"attacher":null,"csi":null,
            "accessModes":null,"mountOptions":null,"drivers":null},
            "status":{"attached":null,"attachmentMetadata":null,"attachError":null}}"#,
    ] {
        let json = serde_json::from_str(text).unwrap();
        let _: Attachment = read(&json);
        let _: Volume = read(&json);
        let _: CsiNode = read(&json);
    }
}
