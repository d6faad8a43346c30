//! Rows 7 and 22 to 29: from the socket to the first work.

use std::time::Duration;

use sidecar_testkit::driver::ControllerRpc;
use sidecar_testkit::{CallFault, Fault};
use tokio::time::sleep;

use super::stage::{Stage, settle};

fn methods(stage: &Stage) -> Vec<&'static str> {
    stage
        .driver
        .calls()
        .iter()
        .map(|call| call.method)
        .collect()
}

#[tokio::test]
async fn rows_7_and_22_a_probe_that_times_out_is_repeated_for_ever() {
    let stage = Stage::new().await;
    stage.driver.fault(CallFault::on("Probe").hang());
    for arguments in ["--timeout=0", "--timeout=1s"] {
        let mut attacher = stage.start(&[arguments]);
        attacher.logs_times("CSI driver probe timed out", 3).await;
        let took = attacher.elapsed();
        assert!(attacher.is_running(), "{}", attacher.log());
        assert!(took > Duration::from_millis(1900), "{arguments}: {took:?}");
        assert!(!methods(&stage).contains(&"GetPluginInfo"));
    }
    let calls = stage.driver.calls_to("Probe");
    let last = calls.last().unwrap();
    assert!(
        last.deadline
            .is_some_and(|left| left <= Duration::from_secs(1))
    );
}

#[tokio::test]
async fn rows_24_and_25_identity_calls() {
    let stage = Stage::new().await;
    let hangs = stage.driver.fault(CallFault::on("GetPluginInfo").hang());
    let ended = stage.start(&["--timeout=10s"]).end().await;
    assert_eq!(ended.code, Some(1), "row 24");
    let calls = stage.driver.calls_to("GetPluginInfo");
    // It asks again only where it stood still itself.
    let still = "The process was not scheduled until the deadline had passed";
    let most = 1 + ended.log.matches(still).count();
    assert!((1..=most).contains(&calls.len()), "row 24: {calls:?}");
    let second = Duration::from_secs(1);
    for deadline in calls.iter().map(|call| call.deadline) {
        let fits = deadline.is_some_and(|left| left <= second);
        assert!(fits, "row 24: {deadline:?}");
    }
    hangs.remove();

    let slow = |method: &str, millis| {
        stage
            .driver
            .fault(CallFault::on(method).delay(Duration::from_millis(millis)));
    };
    slow("GetPluginCapabilities", 600);
    slow("ControllerGetCapabilities", 700);
    let ended = stage.start(&[]).end().await;
    assert_eq!(ended.code, Some(1), "row 25");
    assert!(
        ended.log.contains("DeadlineExceeded"),
        "row 25: {}",
        ended.log
    );
}

#[tokio::test]
async fn row_28_without_permission_to_list_csinodes() {
    let stage = Stage::new().await;
    stage
        .api
        .fault(Fault::on("GET", "/apis/storage.k8s.io/v1/csinodes*").answer(403));
    let mut attacher = stage.start(&[]);
    stage.attach("va1", "pv1");
    stage.until_error("va1", "attachError").await;
    let message = stage.attachment("va1")["status"]["attachError"]["message"].clone();
    assert_eq!(message, "csinode.storage.k8s.io \"node1\" not found");
    assert!(attacher.is_running());
}

#[tokio::test]
async fn row_29_without_permission_to_list_volumes() {
    let stage = Stage::new().await;
    let fault = stage
        .api
        .fault(Fault::on("GET", "/api/v1/persistentvolumes*").answer(403));
    let mut attacher = stage.start(&[]);
    stage.attach("va1", "pv1");
    // Nothing may happen meanwhile.
    sleep(Duration::from_secs(2)).await;
    assert!(
        attacher.is_running() && stage.trace().is_empty(),
        "{:?}",
        stage.trace()
    );
    fault.remove();
    stage.until_attached("va1").await;
}

#[tokio::test]
async fn nothing_is_listed_that_is_not_needed() {
    let stage = Stage::new().await;
    stage
        .driver
        .configure(|model| model.controller = vec![ControllerRpc::ListVolumes]);
    let attacher = stage.start(&[]);
    attacher.logs("Starting CSI attacher").await;
    settle().await;
    assert!(
        stage.api.requests_to("GET", "*/csinodes").is_empty(),
        "row 26"
    );
}
