//! The driver is lost, and comes back.

use serde_json::json;
use sidecar_testkit::CallFault;
use sidecar_testkit::driver::{ControllerRpc, Memory};

use super::stage::{PROTECTION, PV, READY, Stage, claim, finalizers, released};

#[tokio::test]
async fn what_failed_without_the_driver_is_tried_when_it_is_back() {
    let stage = Stage::new().await;
    let program = stage.start(&["--timeout=10s", "--retry-interval-start=5m"]);
    program.logs(READY).await;
    stage.driver.stop();
    program.logs("Lost the connection to the CSI driver").await;
    stage.api.insert(claim());
    stage.api.insert(released("pv1"));
    stage.until_events("ProvisioningFailed", 1).await;
    stage.until_events("VolumeFailedDelete", 1).await;
    let puts = stage.api.requests_to("PUT", "*/persistentvolumeclaims/*");
    assert!(puts.is_empty(), "nothing was asked, nothing is in doubt");
    stage.driver.start();
    stage.until_volume(PV).await;
    stage
        .until("deleted", |stage| {
            finalizers(&stage.volume("pv1")) == json!([PROTECTION])
        })
        .await;
}

/// The back-off is longer than the test.
#[tokio::test]
async fn fs_7_a_driver_killed_during_its_calls() {
    let stage = Stage::new().await;
    let create = CallFault::on("CreateVolume").lose_reply().times(1);
    stage.driver.fault(create);
    let delete = CallFault::on("DeleteVolume").hang().times(1);
    stage.driver.fault(delete);
    let mut program = stage.start(&["--retry-interval-start=5m", "--timeout=10m"]);
    stage.api.insert(claim());
    stage.api.insert(released("pv1"));
    stage.until_calls("CreateVolume", 1).await;
    stage.until_calls("DeleteVolume", 1).await;
    stage.driver.stop();
    stage.until_events("ProvisioningFailed", 1).await;
    stage.until_events("VolumeFailedDelete", 1).await;
    assert_eq!(stage.intents().len(), 1, "in doubt");
    stage.driver.start();
    stage.until_volume(PV).await;
    stage
        .until("deleted", |stage| {
            finalizers(&stage.volume("pv1")) == json!([PROTECTION])
        })
        .await;
    assert_eq!(stage.handles().len(), 1);
    let requests = stage.creations();
    assert_eq!(requests[0], requests[1]);
    assert!(program.is_running());
}

#[tokio::test]
async fn a_driver_that_came_back_as_another_ends_the_process() {
    let stage = Stage::new().await;
    let program = stage.start(&[]);
    program.logs(READY).await;
    stage
        .driver
        .configure(|model| model.controller.push(ControllerRpc::CloneVolume));
    stage.driver.restart(Memory::Kept);
    let ended = program.end().await;
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    assert!(ended.log.contains("CLONE_VOLUME"), "{}", ended.log);
}
