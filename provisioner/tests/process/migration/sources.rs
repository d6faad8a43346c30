//! Rows M-65 to M-70: snapshots and clones, which in-tree plugins did not have.

use csi_proto::csi;
use csi_proto::csi::volume_content_source::Type;
use serde_json::{Value, json};
use sidecar_testkit::CallFault;
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::driver::ControllerRpc;

use super::super::stage::{GI, PV, Stage, finalizers, free_address, settle, together};
use super::{
    EBS, PORTWORX, answer, claim_for, intents, on, plugin, until_counted, until_settled, with_class,
};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Origin {
    Snapshot,
    NativeVolume,
    InTreeVolume,
}

/// Row, driver, whether the class is the plugin's, source, and the cause if there is no volume.
type Row = (
    &'static str,
    &'static str,
    bool,
    Origin,
    Option<&'static str>,
);

#[tokio::test]
async fn m_65_to_70_what_volumes_are_made_from() {
    use Origin::{InTreeVolume, NativeVolume, Snapshot};
    const FOREIGN: &str = "not to the StorageClass's provisioner";
    let rows: [Row; 7] = [
        ("M-65", EBS, true, Snapshot, Some(FOREIGN)),
        ("M-66", EBS, false, Snapshot, None),
        ("M-67", PORTWORX, true, Snapshot, None),
        ("M-68", EBS, true, NativeVolume, Some(FOREIGN)),
        ("M-69", EBS, true, InTreeVolume, Some("is no CSI volume")),
        (
            "M-69 native class",
            EBS,
            false,
            InTreeVolume,
            Some("is no CSI volume"),
        ),
        ("M-70", PORTWORX, true, NativeVolume, None),
    ];
    together(rows, made).await;
}

fn source(from: Origin) -> Value {
    match from {
        Origin::Snapshot => {
            json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s1"})
        }
        Origin::NativeVolume | Origin::InTreeVolume => {
            json!({"kind": "PersistentVolumeClaim", "name": "src"})
        }
    }
}

fn add_snapshot(stage: &Stage, driver: &str) {
    stage.can(ControllerRpc::CreateDeleteSnapshot);
    stage.driver.configure(|model| {
        let snapshot = csi::Snapshot {
            snapshot_id: "sid".into(),
            size_bytes: GI,
            ready_to_use: true,
            ..csi::Snapshot::default()
        };
        model.snapshots.insert("sid".into(), snapshot);
    });
    let group = "snapshot.storage.k8s.io/v1";
    stage.api.insert(json!({
        "apiVersion": group, "kind": "VolumeSnapshot",
        "metadata": {"namespace": "ns1", "name": "s1", "uid": "uid-s1"},
        "spec": {"source": {"volumeSnapshotContentName": "k1"}},
        "status": {"boundVolumeSnapshotContentName": "k1", "readyToUse": true, "restoreSize": "1Gi"},
    }));
    stage.api.insert(json!({
        "apiVersion": group, "kind": "VolumeSnapshotContent", "metadata": {"name": "k1"},
        "spec": {"driver": driver, "deletionPolicy": "Retain", "source": {"snapshotHandle": "sid"},
            "volumeSnapshotRef": {"namespace": "ns1", "name": "s1", "uid": "uid-s1"}},
        "status": {"snapshotHandle": "sid", "readyToUse": true},
    }));
}

fn add_volume(stage: &Stage, driver: &str, in_tree: bool) {
    stage.can(ControllerRpc::CloneVolume);
    stage.driver.configure(|model| model.add("vol-src"));
    let claim = build::claim("ns1/src")
        .class("sc1")
        .mode("RWO")
        .uid("uid-src");
    stage
        .api
        .insert(claim.bound_to("pv-src").with("/status/phase", "Bound"));
    let volume = build::volume("pv-src")
        .mode("RWO")
        .class("sc1")
        .bound_to("ns1/src")
        .phase("Bound");
    let volume = volume.with("/spec/claimRef/uid", "uid-src");
    stage.api.insert(if in_tree {
        volume.with("/spec/awsElasticBlockStore/volumeID", "vol-src")
    } else {
        volume.csi(driver, "vol-src")
    });
}

#[tokio::test]
async fn m_63_a_volume_without_its_source_is_deleted_as_of_any_driver() {
    let stage = with_class(PORTWORX, &[]).await;
    add_volume(&stage, PORTWORX, false);
    // The driver returns an empty volume, although a copy was requested.
    let empty = CallFault::on("CreateVolume").answer(answer("empty", &[], &[]));
    stage.driver.fault(empty);
    let address = free_address();
    let http = format!("--http-endpoint={address}");
    let _program = stage.start(&["--retry-interval-start=300s", &http]);
    let claim = claim_for(PORTWORX).with("/spec/dataSource", source(Origin::NativeVolume));
    stage.api.insert(claim);
    stage.until_events("ProvisioningFailed", 1).await;
    until_counted(&address, "CreateVolume", (1, 0)).await;
    until_counted(&address, "DeleteVolume", (0, 1)).await;
    let deleted = stage.driver.calls_to("DeleteVolume");
    let request: &csi::DeleteVolumeRequest = deleted[0].request().unwrap();
    assert_eq!(request.volume_id, "empty");
    until_settled(&stage, PORTWORX).await;
    assert!(stage.api.object("persistentvolumes", PV).is_none());
}

async fn made((row, driver, in_tree, from, cause): Row) {
    let stage = on(driver).await;
    stage.api.remove("storageclasses", "sc1");
    let provisioner = if in_tree { plugin(driver) } else { driver };
    stage.api.insert(build::class("sc1").of(provisioner));
    match from {
        Origin::Snapshot => add_snapshot(&stage, driver),
        Origin::NativeVolume | Origin::InTreeVolume => {
            add_volume(&stage, driver, from == Origin::InTreeVolume);
        }
    }
    let _program = stage.start(&["--snapshot-orphan-sweep-interval=0"]);
    stage
        .api
        .insert(claim_for(driver).with("/spec/dataSource", source(from)));
    if let Some(cause) = cause {
        stage.until_events("ProvisioningFailed", 1).await;
        settle().await;
        let event = stage.events("ProvisioningFailed")[0].clone();
        assert!(event.contains(cause), "{row}: {event}");
        assert_eq!(
            (stage.calls("CreateVolume"), intents(&stage, driver).len()),
            (0, 0),
            "{row}"
        );
        let (kind, name) = match from {
            Origin::Snapshot => ("volumesnapshots", "ns1/s1"),
            Origin::NativeVolume | Origin::InTreeVolume => ("persistentvolumeclaims", "ns1/src"),
        };
        let object = stage.api.object(kind, name).unwrap();
        assert_eq!(finalizers(&object), json!([]), "{row}");
        return;
    }
    stage.until_volume(PV).await;
    let request = stage.creations().remove(0);
    let source = request
        .volume_content_source
        .and_then(|source| source.r#type)
        .unwrap();
    let id = match source {
        Type::Snapshot(source) => source.snapshot_id,
        Type::Volume(source) => source.volume_id,
    };
    let expected = if from == Origin::Snapshot {
        "sid"
    } else {
        "vol-src"
    };
    assert_eq!(id, expected, "{row}");
    let spec = stage.volume(PV)["spec"].clone();
    assert_eq!(spec["csi"].is_null(), in_tree, "{row}: {spec}");
    assert_eq!(
        spec["portworxVolume"]["volumeID"].is_null(),
        !in_tree,
        "{row}: {spec}"
    );
}
