//! Rows 126 to 128: scraped metrics.

use std::time::Duration;

use sidecar_testkit::CallFault;
use tokio::time::sleep;

use super::stage::{Stage, free_address, get, until_metrics};

#[tokio::test]
async fn row_126_series_of_an_ordinary_driver() {
    let stage = Stage::new().await;
    let address = free_address();
    let attacher = stage.start(&[&format!("--http-endpoint={address}")]);
    attacher.logs("Starting CSI attacher").await;
    stage.attach("va1", "pv1");
    stage.until_attached("va1").await;
    // The attempt ends a moment after its last write.
    let idle = r#"csi_sidecar_workqueue_lane_running{lane="attach",name="csi-attacher-va"} 0"#;
    let text = until_metrics(&address, idle).await;
    for line in [
        r#"csi_sidecar_operations_seconds_count{driver_name="unknown-driver",grpc_status_code="OK",method_name="/csi.v1.Identity/Probe"} 1"#,
        r#"csi_sidecar_operations_seconds_count{driver_name="unknown-driver",grpc_status_code="OK",method_name="/csi.v1.Identity/GetPluginInfo"} 1"#,
        r#"csi_sidecar_operations_seconds_count{driver_name="test.csi.driver",grpc_status_code="OK",method_name="/csi.v1.Controller/ControllerPublishVolume"} 1"#,
        r#"workqueue_depth{name="csi-attacher-va"} 0"#,
        r#"workqueue_depth{name="csi-attacher-pv"} 0"#,
        r#"csi_sidecar_workqueue_lane_depth{lane="attach",name="csi-attacher-va"} 0"#,
        r#"csi_sidecar_workqueue_lane_oldest_wait_seconds{lane="detach",name="csi-attacher-va"} 0"#,
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains("migrated"), "{text}");
    assert!(
        !text.contains("leader_election_master_status{"),
        "no election, no series"
    );
    assert_eq!(get(&address, "/healthz/leader-election").await.0, 404);
    assert_eq!(
        get(&address, "/debug/pprof/").await.0,
        404,
        "row 82 of the common rows"
    );
}

#[tokio::test]
async fn a_waiting_backlog_is_visible() {
    let stage = Stage::new().await;
    let address = free_address();
    stage
        .driver
        .fault(CallFault::on("ControllerPublishVolume").hang());
    for index in 0..6 {
        stage.volume(&format!("pv-{index}"), None);
        stage.attach(&format!("va-{index}"), &format!("pv-{index}"));
    }
    let attacher = stage.start(&[
        &format!("--http-endpoint={address}"),
        "--worker-threads=2",
        "--timeout=5m",
    ]);
    attacher.logs("Starting CSI attacher").await;
    stage.until_calls("ControllerPublishVolume", 2).await;
    let waits = r#"workqueue_depth{name="csi-attacher-va"} 4"#;
    until_metrics(&address, waits).await;
    // The waiting key must be older than this.
    sleep(Duration::from_millis(400)).await;
    let text = until_metrics(&address, waits).await;
    let value = |name: &str| -> f64 {
        let start = format!(r#"{name}{{lane="attach",name="csi-attacher-va"}} "#);
        let line = text.lines().find_map(|line| line.strip_prefix(&start));
        line.unwrap_or_else(|| panic!("{name}\n{text}"))
            .parse()
            .unwrap()
    };
    assert_eq!(value("csi_sidecar_workqueue_lane_depth"), 4.0);
    assert!(value("csi_sidecar_workqueue_lane_oldest_wait_seconds") > 0.3);
}

#[tokio::test]
async fn row_136_the_log_of_calls() {
    let stage = Stage::new().await;
    stage.driver.configure(|model| {
        model.publish_context = [("key".to_owned(), "x".repeat(200))].into();
    });
    let attacher = stage.start(&["-v=5", "--max-grpc-log-length=20"]);
    stage.attach("va1", "pv1");
    stage.until_attached("va1").await;
    attacher
        .logs("[response body too large, log capped to 20 chars]")
        .await;
    let log = attacher.log();
    assert!(
        log.contains(r#"\"node_id\":\"NID1\""#) || log.contains(r#""node_id":"NID1""#),
        "row 136: {log}"
    );
}
