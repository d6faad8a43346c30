//! Objects as the API server sends them, and their records.

use jiff::Timestamp;
use serde_json::json;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;

use super::*;
use crate::keys::CLONE_FINALIZER;
use crate::model::*;

fn read<R: Record>(value: &serde_json::Value) -> Option<R> {
    let text = value.to_string();
    let wire: R::Wire<'_> = serde_json::from_str(&text).unwrap();
    R::from_wire(wire, &Interner::default())
}

#[test]
fn an_open_claim_is_read_in_full() {
    let claim: Claim = read(&json!({
        "metadata": {"namespace": "ns1", "name": "c1", "uid": "u", "resourceVersion": "7",
            "annotations": {"b": "2", "a": "1"}, "finalizers": ["f"],
            "creationTimestamp": "1970-01-01T00:00:07Z", "deletionTimestamp": "1970-01-01T00:00:08Z",
            "managedFields": [{}]},
        "spec": {"storageClassName": "sc1", "accessModes": ["ReadWriteOnce", "Bogus"],
            "volumeMode": "Block", "selector": {}, "volumeAttributesClassName": "vac",
            "resources": {"requests": {"storage": "1.5Gi", "x": "1"}, "limits": {"storage": "2Gi"}},
            "dataSource": {"kind": "K", "name": "n", "namespace": "ignored"},
            "dataSourceRef": {"apiGroup": "g", "kind": "K", "name": "n", "namespace": "ns0"}},
        "status": {"phase": "Pending"}
    }))
    .unwrap();
    assert_eq!(&*claim.key(), "ns1/c1");
    assert_eq!((&*claim.uid, claim.version, claim.deleting), ("u", 7, true));
    let second = |at| Timestamp::from_second(at).ok();
    assert_eq!((claim.created, claim.deleted), (second(7), second(8)));
    assert_eq!(
        claim.annotations.iter().collect::<Vec<_>>(),
        [("a", "1"), ("b", "2")]
    );
    assert_eq!(claim.request.map(Quantity::value), Some(1_610_612_736));
    assert_eq!(claim.mode, Some(VolumeMode::Block));
    assert!(claim.selector && claim.volume.is_empty());
    assert_eq!(claim.access_modes.len(), 2);
    assert_eq!(claim.attributes_class.as_deref(), Some("vac"));
    assert_eq!(claim.phase, ClaimPhase::Pending);
    assert_eq!(claim.data_source.unwrap().namespace, None);
    let reference = claim.data_source_ref.unwrap();
    assert_eq!(
        (reference.group.as_deref(), reference.namespace.as_deref()),
        (Some("g"), Some("ns0"))
    );
}

#[test]
fn bound_claims_are_not_kept_but_can_be_read_one_by_one() {
    let bound = json!({"metadata": {"name": "c"}, "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}});
    assert_eq!(read::<Claim>(&bound), None);
    let text = bound.to_string();
    let claim = read_claim(serde_json::from_str(&text).unwrap(), &Interner::default());
    assert_eq!(&*claim.volume, "pv");
    let source = json!({
        "metadata": {"name": "c", "finalizers": [CLONE_FINALIZER], "deletionTimestamp": "t"},
        "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}
    });
    let source = read::<Claim>(&source).unwrap();
    assert_eq!((source.deleting, source.deleted), (true, None));
}

#[test]
fn volumes_are_kept_as_far_as_they_call_for_something() {
    let volume = |phase: &str, finalizers: serde_json::Value| {
        json!({
            "metadata": {"name": "pv", "uid": "u", "finalizers": finalizers, "annotations": {
                "pv.kubernetes.io/provisioned-by": "test-driver",
                "volume.kubernetes.io/provisioner-deletion-secret-name": "",
                "volume.beta.kubernetes.io/storage-class": "beta"}},
            "spec": {"persistentVolumeReclaimPolicy": "Delete", "storageClassName": "sc1",
                "csi": {"driver": "test-driver", "volumeHandle": "h", "volumeAttributes": {"a": "b"}},
                "claimRef": {"namespace": "ns", "name": "c", "uid": "cu", "kind": "X"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]},
                    {"matchFields": [{}], "matchExpressions": null}]}}},
            "status": {"phase": phase}
        })
    };
    let ours = json!(["external-provisioner.volume.kubernetes.io/finalizer"]);
    assert_eq!(read(&volume("Bound", ours.clone())), Some(Volume::NameOnly));
    let kept = || Volume::NameOnly.into_shared();
    assert!(std::sync::Arc::ptr_eq(&kept(), &kept()), "all are one");
    let owner = Owner {
        provisioned_by: Some("test-driver".into()),
        migrated_to: None,
        csi_driver: Some("test-driver".into()),
        in_tree: false,
    };
    let due = Volume::Finalizer(std::sync::Arc::new(FinalizerDue {
        owner,
        uid: "u".into(),
        ..FinalizerDue::default()
    }));
    assert_eq!(read(&volume("Bound", json!(null))), Some(due));
    let Some(Volume::Deletable(detail)) = read(&volume("Released", ours)) else {
        panic!("a released volume is kept in full");
    };
    assert!(detail.is_protected());
    assert_eq!(
        (&*detail.class, detail.deletion_secret_name.as_deref()),
        ("beta", Some(""))
    );
    let csi = Csi {
        driver: "test-driver".into(),
        handle: "h".into(),
    };
    assert_eq!(detail.source, Source::Csi(csi));
    let terms = detail.affinity.as_deref().unwrap();
    assert_eq!(
        terms
            .iter()
            .map(|term| (term.expressions.len(), term.fields.len()))
            .collect::<Vec<_>>(),
        [(1, 0), (0, 1)]
    );
}

/// A volume of the plugin whose source is `field`, with the other fields of its translation.
fn in_tree(field: &str, source: &serde_json::Value) -> VolumeDetail {
    let object = json!({
        "metadata": {
            "name": "pv1",
            "labels": {"topology.kubernetes.io/zone": "us-east1-b", "other": "x"},
            "annotations": {"kubernetes.io/azure-file-resource-group": "rg"},
        },
        "spec": {
            field: source, "claimRef": {"namespace": "ns2", "name": "claim1"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{
                "matchExpressions": [
                    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east1-b"]},
                    {"key": "other", "operator": "Exists"}],
                "matchFields": [{"key": "metadata.name"}]}]}},
        },
    });
    let text = object.to_string();
    read_volume(serde_json::from_str(&text).unwrap(), &Interner::default())
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn m_71_and_82_to_84_in_tree_sources_are_read_in_the_words_of_their_drivers() {
    const ZONE: &str = "topology.kubernetes.io/zone";
    let aws = json!({"volumeID": "aws://us-east-1a/vol-1"});
    let share = json!({"shareName": "s", "secretName": "azure-storage-account-a-secret"});
    let disk = "projects/UNSPECIFIED/zones/us-east1-b/disks/d";
    let rows = [
        (
            "awsElasticBlockStore",
            aws,
            "ebs.csi.aws.com",
            "vol-1",
            "topology.ebs.csi.aws.com/zone",
        ),
        (
            "gcePersistentDisk",
            json!({"pdName": "d"}),
            "pd.csi.storage.gke.io",
            disk,
            "topology.gke.io/zone",
        ),
        (
            "cinder",
            json!({"volumeID": "c"}),
            "cinder.csi.openstack.org",
            "c",
            "topology.cinder.csi.openstack.org/zone",
        ),
        (
            "azureDisk",
            json!({"diskName": "n", "diskURI": "/uri"}),
            "disk.csi.azure.com",
            "/uri",
            ZONE,
        ),
        (
            "azureFile",
            share,
            "file.csi.azure.com",
            "rg#a#s#pv1#ns2",
            ZONE,
        ),
        (
            "vsphereVolume",
            json!({"volumePath": "[ds] d.vmdk"}),
            "csi.vsphere.vmware.com",
            "[ds] d.vmdk",
            "topology.csi.vmware.com/zone",
        ),
        (
            "portworxVolume",
            json!({"volumeID": "p"}),
            "pxd.portworx.com",
            "p",
            ZONE,
        ),
    ];
    for (field, source, driver, handle, zone) in rows {
        let volume = in_tree(field, &source);
        assert_eq!(volume.driver(), Some(driver), "{field}");
        assert_eq!(volume.handle_of(driver), Some(handle), "{field}");
        assert_eq!(volume.handle_of("another"), None, "{field}");
        assert!(volume.owner.in_tree && volume.owner.csi_driver.as_deref() == Some(driver));
        let terms = volume.affinity.as_deref().unwrap();
        assert_eq!((terms.len(), terms[0].fields.len()), (1, 1), "{field}");
        let expressions = &terms[0].expressions;
        assert_eq!(
            (&*expressions[0].key, &*expressions[0].values[0]),
            (zone, "us-east1-b"),
            "{field}"
        );
        assert_eq!(
            (&*expressions[1].key, &*expressions[1].operator),
            ("other", "Exists"),
            "{field}"
        );
    }
}

#[test]
fn m_80_and_81_in_tree_sources_that_cannot_be_said_are_kept_with_the_reason() {
    let rows = [
        (
            "awsElasticBlockStore",
            json!({"volumeID": "aws://z/x"}),
            "failed to translate Kubernetes ID",
        ),
        (
            "azureDisk",
            json!({"diskURI": "/uri", "kind": "Shared"}),
            "kind(Shared) is not supported",
        ),
    ];
    for (field, source, text) in rows {
        let volume = in_tree(field, &source);
        let Source::InTree(source) = &volume.source else {
            panic!("{volume:?}");
        };
        let why = source.csi.as_ref().unwrap_err();
        assert!(why.starts_with(text), "{why}");
        let terms = volume.affinity.as_deref().unwrap();
        assert_eq!(
            &*terms[0].expressions[0].key, "topology.kubernetes.io/zone",
            "as it is"
        );
    }
    let bare = in_tree("awsElasticBlockStore", &json!(null));
    assert_eq!(
        (bare.source.clone(), bare.owner.in_tree),
        (Source::Other, false)
    );
    let odd = in_tree("cinder", &json!("x"));
    assert_eq!((odd.source, odd.owner.in_tree), (Source::Other, false));
}

#[test]
fn classes_nodes_and_the_others_are_read() {
    let class: Class = read(&json!({
        "metadata": {"name": "sc1", "uid": "u"}, "provisioner": "test-driver",
        "parameters": {"b": "2", "a": "1"}, "reclaimPolicy": "Retain", "mountOptions": ["x", "y"],
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["z2", "z1"]}]}, {}]
    }))
    .unwrap();
    assert_eq!(class.binding_mode, BindingMode::WaitForFirstConsumer);
    assert_eq!(
        class
            .allowed_topologies
            .iter()
            .map(|term| term.len())
            .collect::<Vec<_>>(),
        [1, 0]
    );
    assert_eq!(class.reclaim_policy.as_deref(), Some("Retain"));
    let node: Node =
        read(&json!({"metadata": {"labels": {"zone": "z1"}}, "status": {"images": [{}]}})).unwrap();
    assert_eq!(node.labels.get("zone"), Some("z1"));
    let csi_node: CsiNode = read(&json!({"spec": {"drivers": [
        {"name": "d", "nodeID": "i", "topologyKeys": ["zone", "rack"]}, {"name": "e", "topologyKeys": null}]}})).unwrap();
    assert_eq!(csi_node.keys_of("d").unwrap().len(), 2);
    assert_eq!(csi_node.keys_of("e").unwrap().len(), 0);
    assert_eq!(csi_node.keys_of("f"), None);
    let inline = json!({"spec": {"nodeName": "n1", "source": {"inlineVolumeSpec": {}}}});
    assert_eq!(read::<Attachment>(&inline), None);
    let named = json!({"spec": {"nodeName": "n1", "source": {"persistentVolumeName": "pv"}}});
    let attachment = Attachment {
        volume: "pv".into(),
        node: "n1".into(),
    };
    assert_eq!(read(&named), Some(attachment));
    let snapshot: Snapshot = read(&json!({"metadata": {"name": "s1"}, "status": {
        "boundVolumeSnapshotContentName": "k1", "readyToUse": true, "restoreSize": "1Gi"}}))
    .unwrap();
    assert!(snapshot.ready);
    assert_eq!(snapshot.restore_size.map(Quantity::value), Some(1 << 30));
    let content: Content = read(&json!({"metadata": {"name": "k1"}, "spec": {"driver": "d",
        "volumeSnapshotRef": {"namespace": "ns", "name": "s1", "uid": "su"}, "sourceVolumeMode": "Filesystem"},
        "status": {"snapshotHandle": "sid"}})).unwrap();
    assert_eq!(
        (&*content.snapshot.uid, content.handle.as_deref()),
        ("su", Some("sid"))
    );
    assert_eq!(content.source_mode, Some(VolumeMode::Filesystem));
    let vac: AttributesClass =
        read(&json!({"metadata": {"name": "v"}, "driverName": "d", "parameters": {"p": "1"}}))
            .unwrap();
    assert_eq!((&*vac.driver, vac.parameters.get("p")), ("d", Some("1")));
    let grant: Grant = read(&json!({"metadata": {"namespace": "ns0"}, "spec": {
        "from": [{"group": "", "kind": "PersistentVolumeClaim", "namespace": "ns1"}],
        "to": [{"group": "", "kind": "PersistentVolumeClaim"}]}}))
    .unwrap();
    assert_eq!((grant.from.len(), grant.to[0].name.as_deref()), (1, None));
}

/// `null` for every field that is read, and for every object that contains one.
#[test]
fn nulls_are_read_as_absent() {
    fn alike<R: Record + PartialEq + std::fmt::Debug>(value: &serde_json::Value) {
        assert_eq!(read::<R>(value), read::<R>(&json!({})), "{value}");
    }
    let nulls = json!({"metadata": null, "spec": null, "status": null, "provisioner": null,
        "parameters": null, "mountOptions": null, "allowedTopologies": null, "driverName": null});
    alike::<Claim>(&nulls);
    alike::<Volume>(&nulls);
    alike::<Class>(&nulls);
    alike::<AttributesClass>(&nulls);
    alike::<Node>(&nulls);
    alike::<CsiNode>(&nulls);
    alike::<Attachment>(&nulls);
    alike::<Snapshot>(&nulls);
    alike::<Content>(&nulls);
    alike::<Grant>(&nulls);
    alike::<Claim>(
        &json!({"spec": {"accessModes": null, "resources": null, "dataSource": null,
        "dataSourceRef": null, "selector": null, "volumeMode": null}, "status": {"phase": null}}),
    );
    alike::<Volume>(
        &json!({"spec": {"csi": null, "cinder": null, "claimRef": null, "nodeAffinity": null}}),
    );
    alike::<Snapshot>(&json!({"status": {"readyToUse": null, "restoreSize": null}}));
    alike::<Content>(&json!({"spec": {"volumeSnapshotRef": null}}));
}
