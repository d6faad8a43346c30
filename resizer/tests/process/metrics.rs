//! Z-123 and Z-124: scraped metrics, and the memory of an idle process.

use sidecar_testkit::CallFault;
use sidecar_testkit::controller::until_metrics;
use tokio::time::sleep;

use super::stage::{EXPAND, PATIENCE, Stage, claim, free_address, get, settle, volume};

#[tokio::test]
async fn z_124_series_of_an_ordinary_driver() {
    let stage = Stage::new().await;
    let address = free_address();
    let _program = stage
        .started(&[&format!("--http-endpoint={address}")])
        .await;
    stage.grow("2Gi");
    stage.until_capacity("2Gi").await;
    settle().await;
    let (code, text) = get(&address, "/metrics").await;
    assert_eq!(code, 200);
    let sample = |driver: &str, method: &str| {
        format!(
            r#"csi_sidecar_operations_seconds_count{{driver_name="{driver}",grpc_status_code="OK",method_name="/csi.v1.{method}"}} 1"#
        )
    };
    for line in [
        sample("unknown-driver", "Identity/Probe"),
        sample("unknown-driver", "Identity/GetPluginInfo"),
        sample("unknown-driver", "Identity/GetPluginCapabilities"),
        sample("unknown-driver", "Controller/ControllerGetCapabilities"),
        sample("test.csi.driver", "Controller/ControllerExpandVolume"),
        r#"workqueue_adds_total{name="test.csi.driver-pvc"} 1"#.to_owned(),
        r#"workqueue_depth{name="test.csi.driver-pvc"} 0"#.to_owned(),
    ] {
        assert!(text.contains(&line), "{line}\n{text}");
    }
    // N-24: requests to this API server alone, among them the watches and the patch of the volume.
    let mut requests = text
        .lines()
        .filter(|line| line.starts_with("rest_client_requests_total{"));
    let here = |line: &str| line.contains(r#"host="127.0.0.1:"#);
    assert!(requests.clone().all(here), "{text}");
    let patches = |line: &str| line.contains(r#"code="200""#) && line.contains(r#"method="PATCH""#);
    assert!(requests.any(patches), "{text}");
    assert!(
        text.contains("rest_client_request_duration_seconds_count{"),
        "{text}"
    );
    assert!(!text.contains("migrated"), "{text}");
    assert!(
        !text.contains("leader_election_master_status{"),
        "no election, no series"
    );
}

#[tokio::test]
async fn a_waiting_backlog_is_visible() {
    let stage = Stage::new().await;
    stage.driver.fault(CallFault::on(EXPAND).hang());
    for index in 0..6 {
        let (key, pv, handle) = (
            format!("ns/m{index}"),
            format!("pv-m{index}"),
            format!("hm{index}"),
        );
        stage.api.insert(volume(&pv, &handle, &key));
        stage.api.insert(claim(&key, &pv).size("2Gi"));
    }
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let _program = stage
        .started(&[&endpoint, "--workers=2", "--timeout=5m"])
        .await;
    stage.until_calls(EXPAND, 2).await;
    let depth = r#"workqueue_depth{name="test.csi.driver-pvc"} 4"#;
    until_metrics(&address, depth).await;
    // The waiting key must be older than this.
    sleep(std::time::Duration::from_millis(400)).await;
    let text = until_metrics(&address, depth).await;
    let start = "csi_sidecar_workqueue_lane_oldest_wait_seconds{";
    let line = text.lines().find(|line| line.starts_with(start));
    let wait: f64 = line.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(wait > 0.3, "{line:?}");
    assert!(wait < PATIENCE.as_secs_f64());
}
