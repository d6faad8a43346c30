//! Section 10.4: pre-provisioned snapshots.

use csi_proto::csi::list_snapshots_response::Entry;
use csi_proto::csi::{ListSnapshotsResponse, Snapshot};
use serde_json::json;
use sidecar_testkit::CallFault;
use sidecar_testkit::driver::ControllerRpc;

use super::stage::{LIST, QUICK, Stage, class, pre_provisioned, secret};

#[tokio::test]
async fn s_75_what_the_driver_lists() {
    let stage = Stage::new().await;
    stage.has_snap_9();
    stage.api.insert(pre_provisioned());
    let _program = stage.started(&[]).await;
    stage.until_ready("pp").await;
    let status = r#"st {"creationTime":1767323045000000000,"readyToUse":true,"restoreSize":5,"snapshotHandle":"snap-9"}"#;
    assert_eq!(stage.trace(), ["List snap-9", status]);
    assert!(stage.content_named("pp")["metadata"]["finalizers"].is_null());
}

#[tokio::test]
async fn s_76_s_119_s_120_drivers_that_do_not_list() {
    let stage = Stage::new().await;
    stage.has_snap_9();
    stage.driver.configure(|model| {
        model.controller = vec![
            ControllerRpc::CreateDeleteSnapshot,
            ControllerRpc::GetSnapshot,
        ];
    });
    stage.api.insert(pre_provisioned());
    let _program = stage.started(&[]).await;
    stage.until_ready("pp").await;
    assert_eq!(
        (stage.calls(LIST), stage.calls("GetSnapshot")),
        (0, 0),
        "S-76, S-120"
    );
    assert!(stage.content_named("pp")["status"]["restoreSize"].is_null());
    let stage = Stage::new().await;
    stage.has_snap_9();
    stage.driver.configure(|model| {
        model.controller = vec![
            ControllerRpc::CreateDeleteSnapshot,
            ControllerRpc::GetSnapshot,
        ];
    });
    stage.api.insert(pre_provisioned());
    let _program = stage
        .started(&["--feature-gates=CSIGetSnapshot=true"])
        .await;
    stage.until_ready("pp").await;
    assert_eq!(stage.calls("GetSnapshot"), 1, "S-119");
    assert_eq!(
        stage.content_named("pp")["status"]["restoreSize"],
        5,
        "S-119"
    );
}

#[tokio::test]
async fn s_77_s_79_s_80_class_secret_and_what_is_not_there() {
    let stage = Stage::new().await;
    let mut named = pre_provisioned();
    named["spec"]["volumeSnapshotClassName"] = "c9".into();
    stage.api.insert(named);
    let _program = stage.started(&[QUICK]).await;
    stage
        .until_events("SnapshotContentCheckandUpdateFailed", 1)
        .await;
    let message = |stage: &Stage| {
        let status = &stage.content_named("pp")["status"];
        status["error"]["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let missing = message(&stage);
    assert!(
        missing.contains("failed to get snapshot class c9"),
        "S-79: {missing}"
    );
    stage.api.insert(secret("l-pp"));
    stage.api.insert(class(
        "c9",
        &json!({
            "csi.storage.k8s.io/snapshotter-list-secret-name": "l-${volumesnapshotcontent.name}",
            "csi.storage.k8s.io/snapshotter-list-secret-namespace": "ns2",
        }),
    ));
    let expected = "Failed to check and update snapshot content: failed to list snapshot for content \
                    pp: \"can not find snapshot for snapshotID snap-9\"";
    stage
        .until("S-80", |stage| message(stage) == expected)
        .await;
    let call = &stage.driver.calls_to(LIST)[0];
    let request = call
        .request::<csi_proto::csi::ListSnapshotsRequest>()
        .unwrap();
    assert_eq!(request.secrets, [("u".into(), "p".into())].into(), "S-77");
    stage.has_snap_9();
    stage.until_ready("pp").await;
    assert!(stage.content_named("pp")["status"]["error"].is_null());
}

/// B-10 of the findings, for snapshots: the driver ignores filters and pages.
#[tokio::test]
async fn a_list_of_more_than_4_mib_is_read_too() {
    let stage = Stage::new().await;
    stage.has_snap_9();
    let entry = |id: &str| Entry {
        snapshot: Some(Snapshot {
            snapshot_id: id.into(),
            source_volume_id: "vol-1".into(),
            ready_to_use: true,
            ..Snapshot::default()
        }),
    };
    let mut entries = vec![entry(&"x".repeat(5 << 20)), entry("snap-9")];
    entries[1].snapshot.as_mut().unwrap().size_bytes = 7;
    let answer = ListSnapshotsResponse {
        entries,
        ..ListSnapshotsResponse::default()
    };
    stage.driver.fault(CallFault::on(LIST).answer(answer));
    stage.api.insert(pre_provisioned());
    let _program = stage.started(&[]).await;
    stage.until_ready("pp").await;
    assert_eq!(stage.content_named("pp")["status"]["restoreSize"], 7);
    assert_eq!(stage.calls(LIST), 1);
}
