//! S-11 to S-15, S-20, S-23, S-25 and S-27: from the socket to the first work.

use std::time::Duration;

use sidecar_testkit::api::access::Allow;
use sidecar_testkit::driver::ControllerRpc;

use super::stage::{NAME, READY, Stage, content, free_address, get};

fn methods(stage: &Stage) -> Vec<&'static str> {
    let calls = stage.driver.calls();
    calls.iter().map(|call| call.method).collect()
}

/// The process goes on with a driver that comes back.
#[tokio::test]
async fn s_27_a_driver_that_restarts() {
    let stage = Stage::new().await;
    let mut program = stage
        .started(&["--retry-interval-start=5m", "--timeout=2s"])
        .await;
    stage.driver.stop();
    stage.api.insert(content("u1"));
    stage.until_events("SnapshotCreationFailed", 1).await;
    stage.driver.start();
    stage.until_ready(NAME).await;
    assert!(program.is_running(), "{}", program.log());
}

/// Probe comes before GetPluginInfo here, as in all programs.
#[tokio::test]
async fn s_14_what_the_driver_is_asked() {
    for (arguments, deadline) in [(&[][..], 60), (&["--timeout=1s"], 1)] {
        let stage = Stage::new().await;
        let _program = stage.started(arguments).await;
        assert_eq!(
            methods(&stage),
            [
                "Probe",
                "GetPluginInfo",
                "GetPluginCapabilities",
                "ControllerGetCapabilities"
            ]
        );
        for call in stage.driver.calls() {
            let given = call.deadline.unwrap();
            let fits =
                given <= Duration::from_secs(deadline) && given > Duration::from_secs(deadline - 1);
            assert!(fits, "{} {given:?}", call.method);
        }
    }
}

#[tokio::test]
async fn s_15_a_driver_that_takes_no_snapshots() {
    let stage = Stage::new().await;
    let lists = vec![ControllerRpc::ListSnapshots];
    stage.driver.configure(|model| model.controller = lists);
    let ended = stage.start(&[]).end().await;
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    let text = "CSI driver test.csi.driver does not support ControllerCreateSnapshot";
    assert!(ended.log.contains(text), "{}", ended.log);
}

#[tokio::test]
async fn s_20_the_gate_of_group_snapshots() {
    let stage = Stage::new().await;
    let program = stage
        .started(&["--feature-gates=CSIVolumeGroupSnapshot=false"])
        .await;
    assert!(
        program.log().contains("GA feature gate"),
        "{}",
        program.log()
    );
    let groups = stage.api.requests_to("GET", "*groupsnapshot*");
    assert!(groups.is_empty(), "{groups:?}");
}

#[tokio::test]
async fn s_23_missing_rules_are_named() {
    let stage = Stage::new().await;
    stage.api.allow_only([
        Allow::new(
            "snapshot.storage.k8s.io",
            "volumesnapshotclasses",
            "list,watch",
        ),
        Allow::new(
            "snapshot.storage.k8s.io",
            "volumesnapshotcontents",
            "get,list,patch",
        ),
        Allow::new(
            "snapshot.storage.k8s.io",
            "volumesnapshotcontents/status",
            "patch",
        ),
        Allow::new("authorization.k8s.io", "selfsubjectaccessreviews", "create"),
        Allow::new("", "events", "create,patch"),
        Allow::new("", "secrets", "get"),
    ]);
    let program = stage.start(&[]);
    program.logs("volumesnapshotcontents").await;
    program.logs("watch").await;
}

#[tokio::test]
async fn s_25_metrics() {
    let stage = Stage::new().await;
    stage.api.insert(content("u1"));
    let address = free_address();
    let _program = stage
        .started(&[&format!("--http-endpoint={address}")])
        .await;
    stage.until_ready(NAME).await;
    let (code, text) = get(&address, "/metrics").await;
    assert_eq!(code, 200);
    for line in [
        r#"csi_sidecar_operations_seconds_count{driver_name="test.csi.driver",grpc_status_code="OK",method_name="/csi.v1.Controller/CreateSnapshot"} 1"#,
        r#"workqueue_adds_total{name="csi-snapshotter-content"} 1"#,
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert_eq!(get(&address, "/healthz/leader-election").await.0, 404);
    assert!(READY.starts_with("Starting"));
}
