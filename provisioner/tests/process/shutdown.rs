//! Rows 30 and 31 as they are here: a signal ends the process in good order, and loses nothing.

use std::time::Duration;

use serde_json::json;
use sidecar_testkit::CallFault;
use sidecar_testkit::build::{self, Object};
use tokio::time::Instant;

use super::stage::{ANNOTATION, DOUBT, DRIVER, PV, READY, Stage, claim, finalizers, settle};

#[tokio::test]
async fn running_calls_finish_and_nothing_new_begins() {
    let stage = Stage::new().await;
    stage
        .driver
        .fault(CallFault::on("CreateVolume").delay(Duration::from_secs(2)));
    let program = stage.start(&["--worker-threads=2"]);
    program.logs(READY).await;
    for number in 0..5 {
        let claim = build::claim(&format!("ns1/c{number}"))
            .class("sc1")
            .mode("RWO");
        let claim = claim
            .uid(&format!("uid-{number}"))
            .annotation(ANNOTATION, DRIVER);
        stage.api.insert(claim);
    }
    stage.until_calls("CreateVolume", 2).await;
    program.terminate();
    let ended = program.end().await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert_eq!(stage.calls("CreateVolume"), 2, "{}", ended.log);
    assert_eq!(stage.api.objects("persistentvolumes").len(), 2);
    assert!(
        stage
            .api
            .requests_to("PUT", "*/persistentvolumeclaims/*")
            .is_empty()
    );
}

#[tokio::test]
async fn a_call_that_does_not_end_is_recorded_and_resumed() {
    let stage = Stage::new().await;
    stage
        .driver
        .fault(CallFault::on("CreateVolume").lose_reply().times(1));
    let program = stage.start(&["--timeout=10m"]);
    stage.api.insert(claim());
    stage.until_calls("CreateVolume", 1).await;
    let told = Instant::now();
    program.terminate();
    let ended = program.end().await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert!(
        told.elapsed() < Duration::from_secs(29),
        "{:?}",
        told.elapsed()
    );
    assert_eq!(
        finalizers(&stage.claim("ns1/c1")),
        json!([DOUBT]),
        "{}",
        ended.log
    );
    stage.api.delete("persistentvolumeclaims", "ns1/c1");
    let _successor = stage.start(&[]);
    stage
        .until("the claim may go", |stage| stage.claim("ns1/c1").is_null())
        .await;
    assert!(!stage.volume(PV).is_null());
    let requests = stage.creations();
    assert_eq!(requests[0], requests[1]);
    stage
        .driver
        .configure(|model| assert_eq!(model.volumes.len(), 1));
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let stage = Stage::new().await;
    stage.driver.fault(CallFault::on("CreateVolume").hang());
    let program = stage.start(&["--timeout=10m"]);
    stage.api.insert(claim());
    stage.until_calls("CreateVolume", 1).await;
    program.terminate();
    settle().await;
    program.terminate();
    assert_eq!(program.end().await.code, Some(1));
}
