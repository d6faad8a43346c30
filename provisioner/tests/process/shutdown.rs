//! Rows 30 and 31 as they are here: a signal ends the process in good order, and loses nothing.

use std::time::Duration;

use serde_json::json;
use sidecar_testkit::CallFault;
use sidecar_testkit::build::{self, Object};

use super::stage::{ANNOTATION, DRIVER, PV, READY, Stage, claim, finalizers, settle};

#[tokio::test]
async fn row_31_running_calls_finish_and_nothing_new_begins() {
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

pub(crate) async fn calls_that_do_not_end_are_resumed() {
    const CALLS: usize = 100;
    let stage = Stage::new().await;
    stage
        .driver
        .fault(CallFault::on("CreateVolume").lose_reply().times(CALLS));
    let program = stage.start(&["--timeout=10m"]);
    stage.api.insert(claim());
    for number in 1..CALLS {
        let claim = build::claim(&format!("ns1/more{number}"));
        let claim = claim.class("sc1").mode("RWO");
        let claim = claim.uid(&format!("uid-{number}"));
        stage.api.insert(claim.annotation(ANNOTATION, DRIVER));
    }
    stage.until_calls("CreateVolume", CALLS).await;
    program.terminate();
    let ended = program.end().await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert_eq!(stage.intents().len(), CALLS, "{}", ended.log);
    let claims = stage.api.objects("persistentvolumeclaims");
    assert!(claims.iter().all(|claim| finalizers(claim) == json!([])));
    let asked = stage.creations();
    stage.api.delete("persistentvolumeclaims", "ns1/c1");
    assert!(stage.claim("ns1/c1").is_null(), "it waits for nobody");
    let _successor = stage.start(&[]);
    stage.until_volume(PV).await;
    stage
        .until("all volumes are known", |stage| {
            stage.api.objects("persistentvolumes").len() == CALLS
        })
        .await;
    let all = stage.creations();
    assert_eq!(all.len(), 2 * CALLS);
    for request in &all[CALLS..] {
        assert!(asked.contains(request), "word for word: {request:?}");
    }
    stage
        .driver
        .configure(|model| assert_eq!(model.volumes.len(), CALLS));
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
