//! Objects as API servers send them or could send them.

use serde_json::json;
use sidecar::lifecycle::{End, Progress, Since};

use super::*;

fn read<R: Record>(json: &Value) -> R {
    let text = json.to_string();
    let wire: R::Wire<'_> = serde_json::from_str(&text).unwrap();
    R::from_wire(wire, &Interner::default()).unwrap()
}

fn volume(json: &Value) -> Volume {
    read::<KeptVolume>(json).volume()
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
    let read = volume(&json!({
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

/// A volume of the plugin whose source is `field`, with the metadata that the translation reads.
fn in_tree(field: &str, source: &Value) -> VolumeSpec {
    let volume = volume(&json!({
        "metadata": {
            "name": "pv1",
            "labels": {"topology.kubernetes.io/zone": "us-east1-b", "other": "x"},
            "annotations": {
                "kubernetes.io/azure-file-resource-group": "rg",
                "openstorage.io/auth-secret-name": "sec",
                "openstorage.io/auth-secret-namespace": "ns1",
            },
        },
        "spec": {
            field: source, "claimRef": {"namespace": "ns2", "name": "claim1"},
            "accessModes": ["ReadOnlyMany", "ReadWriteOnce"],
            "volumeMode": "Block", "mountOptions": ["noatime"],
        },
    }));
    assert!(volume.spec.block && &*volume.spec.mount_options[0] == "noatime");
    volume.spec
}

#[test]
fn m_99_to_111_in_tree_sources_are_read_in_the_words_of_their_drivers() {
    let modes = ["ReadOnlyMany", "ReadWriteOnce"].as_slice();
    let rows = [
        (
            (
                "awsElasticBlockStore",
                json!({"volumeID": "aws://us-east-1a/vol-1"}),
            ),
            ("ebs.csi.aws.com", "vol-1", modes),
        ),
        (
            ("gcePersistentDisk", json!({"pdName": "d"})),
            (
                "pd.csi.storage.gke.io",
                "projects/UNSPECIFIED/zones/us-east1-b/disks/d",
                ["ReadWriteOnce"].as_slice(),
            ),
        ),
        (
            ("cinder", json!({"volumeID": "c"})),
            ("cinder.csi.openstack.org", "c", modes),
        ),
        (
            ("azureDisk", json!({"diskName": "n", "diskURI": "/uri"})),
            ("disk.csi.azure.com", "/uri", modes),
        ),
        (
            (
                "azureFile",
                json!({"shareName": "s", "secretName": "azure-storage-account-a-secret"}),
            ),
            ("file.csi.azure.com", "rg#a#s#pv1#ns2", modes),
        ),
        (
            ("vsphereVolume", json!({"volumePath": "[ds] d.vmdk"})),
            ("csi.vsphere.vmware.com", "[ds] d.vmdk", modes),
        ),
        (
            ("portworxVolume", json!({"volumeID": "p"})),
            ("pxd.portworx.com", "p", modes),
        ),
    ];
    for ((field, source), (driver, handle, modes)) in rows {
        let spec = in_tree(field, &source);
        assert_eq!(spec.access_modes, crate::testing::list(modes), "{field}");
        let Source::InTree(read) = spec.source else {
            panic!("{field}: {:?}", spec.source)
        };
        let csi = read.csi.unwrap();
        assert_eq!((read.driver, &*csi.handle), (driver, handle), "{field}");
        let secret = csi.publish_secret.as_deref();
        let secret = secret.map(|secret| (&*secret.namespace, &*secret.name));
        let expected = (field == "portworxVolume").then_some(("ns1", "sec"));
        assert_eq!(secret, expected, "{field}");
    }
}

#[test]
fn m_106_what_cannot_be_translated_keeps_its_reason() {
    let disk = json!({"diskName": "n", "diskURI": "/uri", "kind": "Shared"});
    let spec = in_tree("azureDisk", &disk);
    assert_eq!(spec.access_modes.len(), 2);
    let Source::InTree(read) = spec.source else {
        panic!("{:?}", spec.source)
    };
    assert_eq!(read.driver, "disk.csi.azure.com");
    let why = read.csi.unwrap_err();
    assert!(
        why.starts_with("kind(Shared) is not supported in csi migration"),
        "{why}"
    );
}

#[test]
fn sources_of_other_plugins_and_inline_ones_are_not_translated() {
    let source = |spec: Value| volume(&json!({"spec": spec})).spec.source;
    assert_eq!(source(json!({"nfs": {"server": "s"}})), Source::Other);
    assert_eq!(source(json!({"rbd": {"image": "i"}})), Source::Other);
    assert_eq!(source(json!({"cinder": null, "csi": null})), Source::Other);
    assert_eq!(source(json!({"cinder": "no object"})), Source::Other);
    let both = source(json!({"cinder": {"volumeID": "c"}, "csi": {"volumeHandle": "h"}}));
    assert!(matches!(both, Source::Csi(csi) if &*csi.handle == "h"));
    let inline: Attachment = read(&json!({"spec": {"source": {
        "inlineVolumeSpec": {"cinder": {"volumeID": "c"}},
    }}}));
    assert_eq!(inline.inline.unwrap().source, Source::Other);
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
        let _: KeptVolume = read(&json);
        let _: CsiNode = read(&json);
    }
}

const ATTACHER: &str = "test.driver";
const FINALIZER: &str = "external-attacher/test-driver";

fn attachment_with(metadata: &Value, attached: bool) -> String {
    let mut all = json!({
        "uid": "u1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": [FINALIZER],
    });
    for (key, value) in metadata.as_object().unwrap() {
        all[key] = value.clone();
    }
    let spec = json!({ "attacher": ATTACHER, "nodeName": "n1" });
    json!({ "metadata": all, "spec": spec, "status": { "attached": attached } }).to_string()
}

fn progress(json: &str, look: Look, attacher: &str) -> Vec<Progress> {
    let wire = serde_json::from_str(json).unwrap();
    let steps = steps(&wire, look, attacher);
    steps.iter().map(|step| step.progress).collect()
}

#[test]
fn o_87_an_attachment_begins_with_its_creation_and_ends_without_its_finalizer() {
    let at = |second: u32| Progress::Open {
        since: Since::At(1_767_225_600 + second),
        moves: true,
    };
    let done = Progress::Done {
        at: None,
        end: End::Own,
    };
    let none = json!({});
    let deleting = json!({ "deletionTimestamp": "2026-01-01T00:01:00Z" });
    let freed = json!({ "deletionTimestamp": "2026-01-01T00:01:00Z", "finalizers": [] });
    let rows = [
        (
            "new",
            &none,
            false,
            Look::First,
            vec![at(0), Progress::Dropped],
        ),
        ("tried again", &none, false, Look::Again, vec![]),
        (
            "attached",
            &none,
            true,
            Look::Again,
            vec![done, Progress::Dropped],
        ),
        (
            "found attached",
            &none,
            true,
            Look::First,
            vec![done, Progress::Dropped],
        ),
        (
            "deleted",
            &deleting,
            true,
            Look::Again,
            vec![Progress::Dropped, at(60)],
        ),
        (
            "never attached",
            &deleting,
            false,
            Look::First,
            vec![Progress::Dropped, at(60)],
        ),
        (
            "detached",
            &freed,
            false,
            Look::Again,
            vec![Progress::Dropped, done],
        ),
        (
            "gone",
            &deleting,
            true,
            Look::Gone,
            vec![Progress::Dropped, done],
        ),
    ];
    for (row, metadata, attached, look, expected) in rows {
        let json = attachment_with(metadata, attached);
        assert_eq!(progress(&json, look, ATTACHER), expected, "{row}");
        assert_eq!(progress(&json, look, "another.driver"), [], "{row}");
    }
}
