//! Rows for the health monitor, the last one in the order of leases.

use std::time::Duration;

use csi_proto::csi::volume_health::VolumeHealthEntry;
use sidecar_testkit::api::record::Request;
use sidecar_testkit::controller::ELECTION;
use sidecar_testkit::driver::ControllerRpc;

use super::stage::{
    ALL, CALM, DRIVER, Stage, free_address, get, is_together, lease_writes, settle, until_answer,
    until_metrics,
};

const FOUR: &str = "--controllers=health-monitor,provisioner,attacher,resizer";
const INTERVAL: &str = "--monitor-interval=300ms";
const CLAIMS: &str = "persistentvolumeclaims";
const STATUS: &str = "csi_controller_volume_health_status{";

const HEALTH: [ControllerRpc; 2] = [
    ControllerRpc::ListVolumeHealth,
    ControllerRpc::GetVolumeHealth,
];

/// With a driver that reports the volume of the claim `ns1/e0` as slow.
async fn stage() -> Stage {
    let stage = Stage::new().await;
    HEALTH.into_iter().for_each(|rpc| stage.can(rpc));
    stage.driver.configure(|model| {
        let slow = VolumeHealthEntry {
            status: 1,
            reason: "Slow".into(),
            message: "one disk of two".into(),
        };
        model.health.insert("h-e0".to_owned(), vec![slow]);
    });
    stage
}

fn reason(stage: &Stage) -> String {
    let claim = stage.api.object(CLAIMS, "ns1/e0").unwrap_or_default();
    let condition = &claim["status"]["healthStatus"]["healthConditions"][0];
    condition["reason"].as_str().unwrap_or_default().to_owned()
}

async fn until_slow(stage: &Stage) {
    stage
        .until("the claim shows it", || reason(stage) == "Slow")
        .await;
}

#[tokio::test]
async fn a_22_and_24_the_health_monitor_adds_no_list_no_watch_and_no_question() {
    let stage = stage().await;
    let running = stage.start(&[&[FOUR, INTERVAL], &ELECTION[..], &CALM].concat());
    stage.all_work(1).await;
    until_slow(&stage).await;
    let watches: Vec<Request> = { stage.api.requests().into_iter() }
        // Requests for a streamed list were refused before.
        .filter(|request| request.is_watch() && request.status == Some(200))
        .collect();
    for kind in ["persistentvolumes", CLAIMS] {
        let path = format!("/api/v1/{kind}");
        let lists = stage.api.requests_to("GET", &path);
        let lists: Vec<_> = lists.iter().filter(|list| !list.is_watch()).collect();
        assert_eq!(lists.len(), 1, "{kind}: {lists:#?}");
        let of_kind = watches.iter().filter(|watch| watch.path.contains(&path));
        assert_eq!(of_kind.count(), 1, "{kind}: {watches:#?}");
    }
    assert_eq!(stage.calls("ControllerGetCapabilities"), 1);
    assert_eq!(stage.driver.connections(), 1);
    let patches = stage
        .api
        .requests_to("PATCH", "*/persistentvolumeclaims/e0/status");
    let [patch] = &*patches else {
        panic!("{patches:#?}");
    };
    let agent = "csi-external-health-monitor-controller/";
    assert!(patch.user_agent.starts_with(agent), "{}", patch.user_agent);
    running.terminated().await.well();
}

#[tokio::test]
async fn a_34_and_43_its_lease_is_the_last_one_taken_and_the_first_one_given_back() {
    let stage = stage().await;
    let running = stage.start(&[&[FOUR, INTERVAL], &ELECTION[..], &CALM].concat());
    stage.until_held(&["health-monitor"], is_together).await;
    stage.until_held(&ALL, is_together).await;
    until_slow(&stage).await;
    running.terminated().await.well();
    for controller in ["health-monitor", "provisioner"] {
        assert_eq!(stage.holder_of(controller), "", "{controller}");
    }
    let released: Vec<String> = { lease_writes(&stage).into_iter() }
        .filter(|(_, holder)| holder.is_empty())
        .map(|(lease, _)| lease)
        .collect();
    assert_eq!(released.last().map(String::as_str), Some("test-csi-driver"));
}

#[tokio::test]
async fn a_39_and_55_without_its_lease_it_counts_no_volumes_and_the_others_work_on() {
    let stage = stage().await;
    let address = free_address();
    let running = stage.start(&[
        FOUR,
        ELECTION[0],
        ELECTION[1],
        CALM[0],
        CALM[1],
        INTERVAL,
        "--leader-election-retry-period=500ms",
        &format!("--http-endpoint={address}"),
    ]);
    until_slow(&stage).await;
    let series =
        format!("{STATUS}driver_name=\"{DRIVER}\",reason=\"Slow\",status=\"Degraded\"}} 1");
    let metrics = until_metrics(&address, &series).await;
    for line in [
        "csi_sidecar_controller_up{controller=\"health-monitor\"} 1",
        "csi_volume_health_cycle_seconds ",
        "csi_volume_health_writes_dropped_total 0",
        "method=\"ControllerListVolumeHealth\",result=\"success\"",
        "csi_sidecar_kube_api_concurrency_limit{controller=\"health-monitor\"}",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    stage.take_away("health-monitor", "another-host");
    until_gone(&address).await;
    let calls = stage.calls("ControllerListVolumeHealth");
    stage.all_work(1).await;
    settle().await;
    assert_eq!(stage.calls("ControllerListVolumeHealth"), calls);
    stage.take_away("health-monitor", "");
    until_metrics(&address, &series).await;
    running.terminated().await.well();
}

/// Restarts the driver with these health capabilities.
fn back_with(stage: &Stage, rpcs: &[ControllerRpc]) {
    stage.driver.stop();
    stage.driver.configure(|model| {
        model.controller.retain(|rpc| !HEALTH.contains(rpc));
        model.controller.extend(rpcs);
    });
    stage.driver.start();
}

/// Waits until the metrics count no volume any more.
async fn until_gone(address: &str) {
    let gone = async {
        while get(address, "/metrics").await.1.contains(STATUS) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let limit = Duration::from_secs(30);
    tokio::time::timeout(limit, gone).await.unwrap();
}

#[tokio::test]
async fn a_4_and_51_a_driver_without_health_leaves_it_out_unless_it_is_named() {
    let stage = Stage::new().await;
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let running = stage.start(&["--controllers=*,-snapshotter", &endpoint]);
    stage.all_work(0).await;
    running
        .logs("Controller left out: it has nothing to do with this driver")
        .await;
    let log = running.log();
    let is_left_out = |line: &str| {
        line.contains("health-monitor") && line.contains("says nothing about the health of volumes")
    };
    assert!(log.lines().any(is_left_out), "{log}");
    assert_eq!(get(&address, "/readyz").await.0, 200);
    running.terminated().await.well();

    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let named = stage.start(&["--controllers=provisioner,health-monitor", &endpoint]);
    named.logs("Starting external health monitor").await;
    until_answer(&address, "/readyz", 200, "").await;
    let log = named.log();
    assert!(!log.contains("Controller left out"), "{log}");
    assert!(!log.contains("Controller switched off"), "{log}");
    named.terminated().await.well();
}

/// H-7 for a health monitor that is not named: losing a capability at work does not switch it off.
#[tokio::test]
async fn a_19_back_without_health_it_asks_nothing_and_back_with_it_asks_again() {
    let stage = stage().await;
    let running = stage.start(&["--controllers=*,-snapshotter", INTERVAL]);
    until_slow(&stage).await;
    back_with(&stage, &[]);
    running.logs("The CSI driver's capabilities changed").await;
    settle().await;
    let calls = stage.calls("ControllerListVolumeHealth");
    stage.all_work(1).await;
    settle().await;
    assert_eq!(stage.calls("ControllerListVolumeHealth"), calls);
    assert_eq!(reason(&stage), "Slow", "it stays until there is a report");
    stage.driver.configure(|model| model.health.clear());
    back_with(&stage, &HEALTH);
    stage
        .until("the claim is healthy", || reason(&stage).is_empty())
        .await;
    running.terminated().await.well();
}

/// It loses its lease while the driver is back without health: it takes the lease again, and asks once the driver has
/// health again.
#[tokio::test]
async fn a_19_led_anew_without_health_it_asks_again_once_the_driver_has_it() {
    let stage = stage().await;
    let running = stage.start(&[
        "--controllers=*,-snapshotter",
        ELECTION[0],
        ELECTION[1],
        CALM[0],
        CALM[1],
        INTERVAL,
        "--leader-election-retry-period=500ms",
    ]);
    until_slow(&stage).await;
    back_with(&stage, &[]);
    running.logs("The CSI driver's capabilities changed").await;
    stage.take_away("health-monitor", "another-host");
    settle().await;
    stage.take_away("health-monitor", "");
    stage.until_held(&["health-monitor"], is_together).await;
    stage.driver.configure(|model| model.health.clear());
    back_with(&stage, &HEALTH);
    stage
        .until("the claim is healthy", || reason(&stage).is_empty())
        .await;
    running.terminated().await.well();
}
