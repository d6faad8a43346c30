//! Objects as an API server sends them, complete and odd.

use serde_json::{Value, json};
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;

use crate::model::{
    AttributesClass, Claim, ClaimPhase, ModifyPhase, Pod, Quantity, ResizeStatus, Source, Text,
    Uid, Volume,
};

fn read<R: Record>(json: &Value) -> Option<R> {
    let text = json.to_string();
    R::from_wire(serde_json::from_str(&text).unwrap(), &Interner::default())
}

fn claim() -> Value {
    json!({
        "metadata": {"namespace": "ns", "name": "c1", "uid": "u1", "resourceVersion": "229",
            "annotations": {"volume.kubernetes.io/storage-resizer": "r",
                "volume.kubernetes.io/node-expansion-not-required": "true",
                "volume.kubernetes.io/storage-provisioner": "p"}},
        "spec": {"volumeName": "pv1", "volumeAttributesClassName": "b",
            "resources": {"requests": {"storage": "2Gi"}}},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"},
            "allocatedResources": {"storage": "2Gi"},
            "allocatedResourceStatuses": {"storage": "ControllerResizeInProgress"},
            "conditions": [{"type": "Resizing", "status": "True", "lastProbeTime": null,
                "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "Other", "status": "False", "reason": "r", "message": "m",
                "lastProbeTime": "2026-01-02T00:00:00Z"}],
            "currentVolumeAttributesClassName": "a",
            "modifyVolumeStatus": {"status": "InProgress", "targetVolumeAttributesClassName": "b"}},
    })
}

#[test]
fn a_claim_for_which_something_is_due_is_read_in_full() {
    let claim: Claim = read(&claim()).unwrap();
    let detail = claim.detail().unwrap();
    assert_eq!(
        (&*detail.namespace, &*detail.name, &*detail.version),
        ("ns", "c1", "229")
    );
    assert_eq!(detail.uid, Uid::new("u1"));
    assert_eq!(detail.resizer.as_deref(), Some("r"));
    assert_eq!(detail.provisioner.as_deref(), Some("p"));
    assert_eq!(detail.node_expansion_not_required.as_deref(), Some("true"));
    assert_eq!(
        (&*detail.volume, &*detail.class, &*detail.current_class),
        ("pv1", "b", "a")
    );
    assert_eq!(detail.phase, ClaimPhase::Bound);
    let bytes = |quantity: Option<Quantity>| quantity.map(Quantity::value);
    assert_eq!(bytes(detail.request), Some(2 << 30));
    assert_eq!(bytes(detail.capacity), Some(1 << 30));
    assert_eq!(bytes(detail.allocated), Some(2 << 30));
    assert_eq!(detail.resize, Some(ResizeStatus::ControllerInProgress));
    let [resizing, other] = &*detail.conditions else {
        panic!("{:?}", detail.conditions)
    };
    assert_eq!(
        (
            &*resizing.kind,
            resizing.is_true(),
            resizing.probed.as_deref()
        ),
        ("Resizing", true, None)
    );
    assert_eq!(resizing.changed.as_deref(), Some("2026-01-01T00:00:00Z"));
    assert_eq!(
        (&*other.reason, &*other.message, other.is_true()),
        ("r", "m", false)
    );
    let modify = detail.modify.as_ref().unwrap();
    assert_eq!(
        (modify.phase, &*modify.target),
        (ModifyPhase::InProgress, "b")
    );
}

#[test]
fn of_a_claim_that_has_what_it_asks_for_hardly_anything_is_kept() {
    let mut json = claim();
    json["status"]["capacity"]["storage"] = "2Gi".into();
    json["status"]["currentVolumeAttributesClassName"] = "b".into();
    json["status"]
        .as_object_mut()
        .unwrap()
        .remove("modifyVolumeStatus");
    let claim: Claim = read(&json).unwrap();
    assert!(claim.detail().is_none());
    assert_eq!(claim.capacity().map(Quantity::value), Some(2 << 30));
}

#[test]
fn null_and_absent_are_alike() {
    let null = json!({
        "metadata": {"namespace": "ns", "name": "c1", "uid": null, "annotations": null},
        "spec": {"volumeName": null, "resources": null, "volumeAttributesClassName": null},
        "status": {"phase": null, "capacity": null, "allocatedResources": null,
            "allocatedResourceStatuses": null, "conditions": null, "modifyVolumeStatus": null},
    });
    let absent = json!({"metadata": {"namespace": "ns", "name": "c1"}});
    let (null, absent): (Claim, Claim) = (read(&null).unwrap(), read(&absent).unwrap());
    assert_eq!(null, absent);
    assert!(null.detail().is_none());
    let odd = json!({"metadata": {"name": "pv1"}, "spec": {"csi": null, "claimRef": null,
        "capacity": {"storage": "much"}, "accessModes": null, "mountOptions": null}});
    let volume: Volume = read(&odd).unwrap();
    assert_eq!(volume, Volume::default());
}

#[test]
fn a_volume_is_known_well_enough_for_its_request() {
    let volume: Volume = read(&json!({
        "metadata": {"name": "pv1", "annotations": {
            "volume.alpha.kubernetes.io/pre-resize-capacity": "512Mi",
            "volume.kubernetes.io/controller-modify-secret-name": "ms",
            "volume.kubernetes.io/controller-modify-secret-namespace": "sns"}},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Block", "mountOptions": ["noatime"], "volumeAttributesClassName": "a",
            "claimRef": {"namespace": "ns", "name": "c1", "uid": "u1"},
            "csi": {"driver": "d", "volumeHandle": "h1", "fsType": "xfs",
                "volumeAttributes": {"big": "secret"},
                "controllerExpandSecretRef": {"name": "es", "namespace": "ns"}}},
    }))
    .unwrap();
    let source = volume.csi("d").unwrap();
    assert_eq!((&*volume.handle, &*source.fs_type), ("h1", "xfs"));
    assert_eq!(&*source.expand_secret.as_ref().unwrap().name, "es");
    assert_eq!(
        &*volume.kind.modify_secret.as_ref().unwrap().namespace,
        "sns"
    );
    assert!(volume.kind.block && volume.belongs_to("ns", &Uid::new("u1")));
    assert_eq!(&*volume.pre_resize.as_ref().unwrap().capacity, "512Mi");
    assert_eq!(volume.annotated_claim().as_deref(), Some("ns/c1"));
    assert_eq!(volume.kind.class.as_deref(), Some("a"));
    assert_eq!(
        (
            volume.kind.access_modes.len(),
            volume.kind.mount_options.len()
        ),
        (1, 1)
    );
}

#[test]
fn z_104_a_secret_with_half_a_name_is_none() {
    for (name, namespace) in [("ms", ""), ("", "ns")] {
        let volume: Volume = read(&json!({"metadata": {"name": "pv1", "annotations": {
            "volume.kubernetes.io/controller-modify-secret-name": name,
            "volume.kubernetes.io/controller-modify-secret-namespace": namespace}}}))
        .unwrap();
        assert_eq!(volume.kind.modify_secret, None);
    }
}

fn in_tree_volume(source: &str, value: Value) -> Volume {
    let volume: Option<Volume> = read(&json!({
        "metadata": {
            "name": "pv1",
            "labels": {"topology.kubernetes.io/zone": "z1"},
            "annotations": {
                "openstorage.io/auth-secret-name": "sec",
                "openstorage.io/auth-secret-namespace": "ns1",
            },
        },
        "spec": {
            source: value, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
            "claimRef": {"namespace": "ns", "name": "c1", "uid": "u"},
            "mountOptions": ["noatime"],
        },
    }));
    volume.unwrap()
}

#[test]
fn m_133_to_140_in_tree_volumes_are_read_in_the_words_of_their_drivers() {
    let file = json!({"shareName": "s", "secretName": "azure-storage-account-a-secret"});
    let rows = [
        (
            "awsElasticBlockStore",
            json!({"volumeID": "vol-1", "fsType": "xfs"}),
            "ebs.csi.aws.com",
            "vol-1",
        ),
        (
            "gcePersistentDisk",
            json!({"pdName": "d"}),
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/z1/disks/d",
        ),
        (
            "cinder",
            json!({"volumeID": "c"}),
            "cinder.csi.openstack.org",
            "c",
        ),
        (
            "azureDisk",
            json!({"diskURI": "/u"}),
            "disk.csi.azure.com",
            "/u",
        ),
        ("azureFile", file, "file.csi.azure.com", "#a#s#pv1#ns"),
        (
            "vsphereVolume",
            json!({"volumePath": "[d] v"}),
            "csi.vsphere.vmware.com",
            "[d] v",
        ),
        (
            "portworxVolume",
            json!({"volumeID": "p"}),
            "pxd.portworx.com",
            "p",
        ),
    ];
    for (field, value, driver, handle) in rows {
        let volume = in_tree_volume(field, value);
        assert!(volume.is_served_by(driver) && volume.csi(driver).is_none());
        assert_eq!(&*volume.handle, handle);
        assert_eq!(&*volume.kind.mount_options[0], "noatime");
        let modes = if driver.starts_with("pd.") { 1 } else { 2 };
        assert_eq!(volume.kind.access_modes.len(), modes, "{field}");
        let Source::InTree(source) = &volume.kind.source else {
            panic!("{field}: {:?}", volume.kind.source)
        };
        let csi = source.csi.as_ref().unwrap();
        assert_eq!((source.driver, &*csi.driver), (driver, driver));
        assert_eq!(&*csi.fs_type == "xfs", driver.starts_with("ebs"), "{field}");
        let secret = csi.expand_secret.as_ref();
        let secret = secret.map(|secret| (&*secret.namespace, &*secret.name));
        assert_eq!(
            secret,
            (field == "portworxVolume").then_some(("ns1", "sec"))
        );
    }
}

#[test]
fn m_138_and_139_what_cannot_be_translated_keeps_its_reason() {
    let bad = in_tree_volume("awsElasticBlockStore", json!({"volumeID": "aws://z/x"}));
    let Source::InTree(source) = &bad.kind.source else {
        panic!("{:?}", bad.kind.source)
    };
    let why = source.csi.as_ref().unwrap_err();
    assert!(
        why.starts_with("failed to translate Kubernetes ID"),
        "M-138: {why}"
    );
    assert!(bad.handle.is_empty() && bad.kind.access_modes.len() == 2);
    let other = in_tree_volume("nfs", json!({"server": "s"}));
    assert_eq!(other.kind.source, Source::Other);
}

#[test]
fn z_90_to_93_pods_by_the_claims_they_use() {
    let pod = |phase: &str| {
        json!({"metadata": {"namespace": "ns", "name": "p"}, "status": {"phase": phase},
            "spec": {"containers": [{"name": "c"}], "volumes": [
                {"name": "a", "persistentVolumeClaim": {"claimName": "c1"}},
                {"name": "b", "emptyDir": {}}, {"name": "e", "ephemeral": {}},
                {"name": "c", "persistentVolumeClaim": null}]}})
    };
    let running: Pod = read(&pod("Running")).unwrap();
    assert_eq!(
        running.claim_keys().collect::<Vec<_>>(),
        [Text::from("ns/c1")]
    );
    assert_eq!(read::<Pod>(&pod("Succeeded")), None);
    let idle = json!({"metadata": {"namespace": "ns", "name": "p"}, "spec": {"volumes": null}});
    assert_eq!(read::<Pod>(&idle), None);
}

#[test]
fn a_class_is_its_driver_and_parameters() {
    let class: AttributesClass = read(&json!({"metadata": {"name": "b", "uid": "u"},
        "driverName": "d", "parameters": {"iops": "9"}}))
    .unwrap();
    assert_eq!(
        (&*class.driver, class.parameters.get("iops")),
        ("d", Some("9"))
    );
}
