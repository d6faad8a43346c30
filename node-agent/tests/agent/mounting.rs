//! The driver's calls during a mount: V-5 to V-8, V-28, V-35 to V-38, V-40.

use std::os::unix::fs::PermissionsExt as _;

use csi_proto::csi;
use csi_proto::csi::volume_capability::AccessType;
use serde_json::{Value, json};
use sidecar_testkit::build::Object;
use sidecar_testkit::driver::NodeRpc;
use sidecar_testkit::{CallFault, Gate};
use tonic::Code;

use crate::stage::{D, N, Stage, handle, pass, uid};

fn metadata(path: &std::path::Path) -> Value {
    let text = std::fs::read_to_string(path.parent().unwrap().join("vol_data.json")).unwrap();
    assert!(
        text.ends_with("}\n") && text.lines().count() == 1,
        "{text:?}"
    );
    serde_json::from_str(&text).unwrap()
}

#[tokio::test(start_paused = true)]
async fn v_5_the_staging_path_and_its_metadata_are_there_before_the_call() {
    let stage = Stage::started().await;
    stage.claimed("c");
    stage.attach("c");
    let gate = stage.hold("NodeStageVolume");
    stage.pod("p", &["c"]);
    stage.until_called("NodeStageVolume", 1).await;
    let staging = stage.staging("c");
    assert_eq!(
        stage.stage_request().staging_target_path,
        staging.to_str().unwrap()
    );
    let mode = std::fs::metadata(&staging).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, 0o750);
    assert_eq!(
        metadata(&staging),
        json!({ "volumeHandle": "h-c", "driverName": D })
    );
    gate.open();
    stage.until_running("p").await;
}

#[tokio::test(start_paused = true)]
async fn v_6_the_driver_makes_the_target_itself() {
    let stage = Stage::started().await;
    stage.claimed("c");
    stage.attach("c");
    let gate = stage.hold("NodePublishVolume");
    stage.pod("p", &["c"]);
    stage.until_called("NodePublishVolume", 1).await;
    let target = stage.target("p", "c");
    let request = stage.publish_request();
    assert_eq!(request.target_path, target.to_str().unwrap());
    assert_eq!(
        request.staging_target_path,
        stage.staging("c").to_str().unwrap()
    );
    assert!(target.parent().unwrap().is_dir() && !target.exists());
    let expected = json!({
        "specVolID": "pv-c", "volumeHandle": "h-c", "driverName": D, "nodeName": N,
        "volumeLifecycleMode": "Persistent", "attachmentID": stage.attachment("c"),
    });
    assert_eq!(metadata(&target), expected);
    gate.open();
    stage.until_running("p").await;
}

#[tokio::test(start_paused = true)]
async fn v_7_a_driver_that_does_not_stage() {
    let stage = Stage::started().await;
    stage.driver.configure(|model| model.node.clear());
    stage.mounted("p", "c").await;
    assert_eq!(stage.calls(), ["NodePublishVolume"]);
    assert_eq!(stage.publish_request().staging_target_path, "");
    stage.delete_pod("p");
    stage.until_gone("p").await;
    assert_eq!(stage.calls(), ["NodePublishVolume", "NodeUnpublishVolume"]);
    stage.until_clean().await;
}

#[tokio::test(start_paused = true)]
async fn v_8_two_pods_share_what_is_staged_and_are_served_in_turn() {
    let stage = Stage::started().await;
    stage.claimed("c");
    stage.attach("c");
    let gate = Gate::new();
    stage
        .driver
        .fault(CallFault::on("NodePublishVolume").hold(&gate).times(1));
    stage.pod("p", &["c"]);
    stage.pod("q", &["c"]);
    stage.until_called("NodePublishVolume", 1).await;
    pass(5.0).await;
    assert_eq!(stage.calls(), ["NodeStageVolume", "NodePublishVolume"]);
    gate.open();
    stage.until_running("p").await;
    stage.until_running("q").await;
    assert_eq!(
        stage.calls(),
        ["NodeStageVolume", "NodePublishVolume", "NodePublishVolume"]
    );
    assert_eq!(stage.driver.peak("NodePublishVolume"), 1);
}

#[tokio::test(start_paused = true)]
async fn v_28_a_block_device() {
    let stage = Stage::started().await;
    stage.driver.configure(|model| model.node.clear());
    stage.claimed_with("c", |volume| volume.mode("RWO").block());
    stage.attach("c");
    stage.pod_with("p", &["c"], |pod| {
        let container = &mut pod["spec"]["containers"][0];
        container["volumeMounts"] = Value::Null;
        container["volumeDevices"] = json!([{ "name": "v-c", "devicePath": "/dev/x" }]);
    });
    stage.until_running("p").await;
    let devices = stage.root().join("plugins/kubernetes.io/csi/volumeDevices");
    let request = stage.publish_request();
    let target = devices.join("publish/pv-c").join(uid("p"));
    assert_eq!(request.target_path, target.to_str().unwrap());
    let staging = devices.join("staging/pv-c");
    assert_eq!(
        request.staging_target_path,
        staging.to_str().unwrap(),
        "although not staged"
    );
    let access = request.volume_capability.unwrap().access_type.unwrap();
    assert!(matches!(access, AccessType::Block(_)), "{access:?}");
    let pod = stage.root().join("pods").join(uid("p"));
    let link = pod.join("volumeDevices/kubernetes.io~csi/pv-c");
    assert_eq!(std::fs::read_link(link).unwrap(), target);
    stage
        .until_event("p", "SuccessfulMountVolume", "MapPodDevice")
        .await;
    let data = devices.join("pv-c/data/vol_data.json");
    let data: Value = serde_json::from_str(&std::fs::read_to_string(data).unwrap()).unwrap();
    let expected = json!({ "specVolID": "pv-c", "volumeHandle": "h-c", "driverName": D,
        "nodeName": N, "attachmentID": stage.attachment("c") });
    assert_eq!(data, expected);
    stage.delete_pod("p");
    stage.until_gone("p").await;
    assert_eq!(stage.calls(), ["NodePublishVolume", "NodeUnpublishVolume"]);
    stage.until_clean().await;
}

#[tokio::test(start_paused = true)]
async fn v_28_a_block_device_that_is_staged() {
    let stage = Stage::started().await;
    stage.claimed_with("c", |volume| {
        volume.mode("RWO").block().mount_option("noatime")
    });
    stage.attach("c");
    stage.pod_with("p", &["c"], |pod| {
        let container = &mut pod["spec"]["containers"][0];
        container["volumeMounts"] = Value::Null;
        container["volumeDevices"] = json!([{ "name": "v-c", "devicePath": "/dev/x" }]);
    });
    stage.until_running("p").await;
    let devices = stage.root().join("plugins/kubernetes.io/csi/volumeDevices");
    let request = stage.stage_request();
    let staging = devices.join("staging/pv-c");
    assert_eq!(request.staging_target_path, staging.to_str().unwrap());
    assert!(staging.is_dir());
    let access = request.volume_capability.unwrap().access_type.unwrap();
    assert!(matches!(access, AccessType::Block(_)), "{access:?}");
    stage.delete_pod("p");
    stage.until_gone("p").await;
    stage.until_clean().await;
    assert_eq!(
        stage.calls(),
        [
            "NodeStageVolume",
            "NodePublishVolume",
            "NodeUnpublishVolume",
            "NodeUnstageVolume"
        ]
    );
}

fn grown(stage: &Stage) {
    stage.driver.configure(|model| {
        model.node = vec![NodeRpc::StageUnstageVolume, NodeRpc::ExpandVolume];
    });
    stage.claimed_with("c", |volume| {
        volume.mode("RWO").with("/spec/capacity/storage", "2Gi")
    });
    stage.attach("c");
}

#[tokio::test(start_paused = true)]
async fn v_35_a_volume_that_has_grown_is_expanded_when_it_is_mounted() {
    let stage = Stage::started().await;
    grown(&stage);
    stage.pod("p", &["c"]);
    stage.until_running("p").await;
    assert_eq!(
        stage.calls(),
        ["NodeStageVolume", "NodePublishVolume", "NodeExpandVolume"]
    );
    let calls = stage.driver.calls_to("NodeExpandVolume");
    let request = calls[0].request::<csi::NodeExpandVolumeRequest>().unwrap();
    assert_eq!(request.volume_id, handle("c"));
    assert_eq!(
        request.volume_path,
        stage.target("p", "c").to_str().unwrap()
    );
    assert_eq!(
        request.staging_target_path,
        stage.staging("c").to_str().unwrap()
    );
    let range = request.capacity_range.unwrap();
    assert_eq!((range.required_bytes, range.limit_bytes), (2 << 30, 0));
    let claim = stage
        .api
        .object("persistentvolumeclaims", "default/c")
        .unwrap();
    assert_eq!(claim["status"]["capacity"]["storage"], "2Gi");
    pass(200.0).await;
    assert_eq!(stage.driver.calls_to("NodeExpandVolume").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn v_35_a_volume_that_grows_in_use_is_expanded_where_it_is() {
    let stage = Stage::started().await;
    grown(&stage);
    stage.api.edit("persistentvolumes", "pv-c", |volume| {
        volume["spec"]["capacity"]["storage"] = json!("1Gi");
    });
    stage.pod("p", &["c"]);
    stage.until_running("p").await;
    stage.api.edit("persistentvolumes", "pv-c", |volume| {
        volume["spec"]["capacity"]["storage"] = json!("2Gi");
    });
    stage.until_called("NodeExpandVolume", 1).await;
    assert_eq!(
        stage.calls().len(),
        3,
        "nothing is mounted again: {:?}",
        stage.calls()
    );
    let calls = stage.driver.calls_to("NodeExpandVolume");
    let request = calls[0].request::<csi::NodeExpandVolumeRequest>().unwrap();
    assert_eq!(
        request.volume_path,
        stage.target("p", "c").to_str().unwrap()
    );
}

#[tokio::test(start_paused = true)]
async fn v_36_a_driver_that_cannot_expand_now_is_not_asked_again() {
    let stage = Stage::started().await;
    grown(&stage);
    let fault = CallFault::on("NodeExpandVolume").fail(Code::FailedPrecondition, "in use");
    stage.driver.fault(fault);
    stage.pod("p", &["c"]);
    stage.until_running("p").await;
    pass(300.0).await;
    assert_eq!(stage.driver.calls_to("NodeExpandVolume").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn v_37_a_claim_that_is_not_bound() {
    let stage = Stage::started().await;
    stage.claimed("c");
    stage.attach("c");
    let key = "default/c";
    stage.api.edit("persistentvolumeclaims", key, |claim| {
        claim["status"]["phase"] = json!("Pending");
    });
    stage.pod("p", &["c"]);
    stage
        .until_event("p", "FailedMount", "PVC default/c: PVC is not bound")
        .await;
    assert!(stage.all_calls().is_empty());
    stage.api.edit("persistentvolumeclaims", key, |claim| {
        claim["status"]["phase"] = json!("Bound");
    });
    stage.until_running("p").await;
}

#[tokio::test(start_paused = true)]
async fn v_37_claims_that_cannot_be_used() {
    type Change = fn(&Stage);
    let rows: [(&str, Change); 5] = [
        ("not found", |stage| {
            stage.api.remove("persistentvolumeclaims", "default/c");
        }),
        ("is being deleted", |stage| {
            stage
                .api
                .edit("persistentvolumeclaims", "default/c", |claim| {
                    claim["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z");
                    claim["metadata"]["finalizers"] = json!(["another.example.com/one"]);
                });
        }),
        ("bound to another claim", |stage| {
            stage.api.edit("persistentvolumes", "pv-c", |volume| {
                volume["spec"]["claimRef"]["uid"] = json!("another");
            });
        }),
        ("volumeMode Block", |stage| {
            stage.api.edit("persistentvolumes", "pv-c", |volume| {
                volume["spec"]["volumeMode"] = json!("Block");
            });
        }),
        ("is not a CSI volume", |stage| {
            stage.api.edit("persistentvolumes", "pv-c", |volume| {
                volume["spec"]["csi"] = Value::Null;
            });
        }),
    ];
    for (expected, change) in rows {
        let stage = Stage::started().await;
        stage.claimed("c");
        stage.attach("c");
        change(&stage);
        stage.pod("p", &["c"]);
        stage.until_event("p", "FailedMount", expected).await;
        assert!(stage.all_calls().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn v_38_capabilities_are_asked_for_every_time_on_connections_of_their_own() {
    let stage = Stage::started().await;
    let before = stage.driver.connections();
    stage.mounted("p", "c").await;
    let ask = "NodeGetCapabilities";
    assert_eq!(
        stage.all_calls(),
        [
            ask,
            ask,
            ask,
            "NodeStageVolume",
            ask,
            ask,
            ask,
            "NodePublishVolume"
        ]
    );
    assert_eq!(stage.driver.connections() - before, 8);
    stage.delete_pod("p");
    stage.until_gone("p").await;
    stage.until_clean().await;
    assert_eq!(
        stage.all_calls()[8..],
        ["NodeUnpublishVolume", ask, "NodeUnstageVolume"]
    );
    for call in stage.driver.calls() {
        assert_eq!(call.authority, "localhost", "{call:?}");
        assert!(call.deadline.is_some(), "{call:?}");
    }
    let metrics = stage.metrics();
    for line in [
        "csi_operations_seconds_count{driver_name=\"d.example.com\",grpc_status_code=\"OK\",\
         method_name=\"/csi.v1.Node/NodeStageVolume\",migrated=\"false\"} 1",
        "storage_operation_duration_seconds_count{migrated=\"false\",\
         operation_name=\"volume_mount\",status=\"success\",\
         volume_plugin=\"kubernetes.io/csi:d.example.com\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
}

#[tokio::test(start_paused = true)]
async fn v_40_a_volume_that_no_container_uses_is_left_alone() {
    let stage = Stage::started().await;
    stage.claimed("c");
    stage.attach("c");
    stage.pod_with("p", &["c"], |pod| {
        pod["spec"]["containers"][0]["volumeMounts"] = json!([]);
    });
    stage.until_running("p").await;
    pass(10.0).await;
    assert!(stage.all_calls().is_empty() && stage.in_use().is_empty());
}
