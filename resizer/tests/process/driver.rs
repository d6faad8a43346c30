//! The driver is lost, and comes back.

use sidecar_testkit::CallFault;
use sidecar_testkit::controller::ELECTION;
use sidecar_testkit::driver::{ControllerRpc, Memory};

use super::stage::{EXPAND, GI, NEVER_AGAIN, Stage, settle};

#[tokio::test]
async fn fs_7_a_driver_killed_during_an_expansion() {
    let stage = Stage::new().await;
    let hang = stage.driver.fault(CallFault::on(EXPAND).hang());
    let mut program = stage.started(&[NEVER_AGAIN]).await;
    stage.grow("4Gi");
    stage.until_calls(EXPAND, 1).await;
    stage.driver.stop();
    stage.until_events("VolumeResizeFailed", 1).await;
    assert_eq!(
        (stage.state(), stage.conditions()),
        ("CRIP", vec!["Resizing".to_owned()])
    );
    hang.remove();
    stage.driver.start();
    // Only the driver's return requeues the claim.
    stage.until_capacity("4Gi").await;
    assert_eq!(stage.asked(), [4 * GI, 4 * GI]);
    assert!(program.is_running());
}

#[tokio::test]
async fn calls_wait_no_longer_than_their_timeout_and_the_drivers_return_wakes_them() {
    let stage = Stage::new().await;
    let program = stage.started(&["--timeout=10s", NEVER_AGAIN]).await;
    stage.driver.stop();
    program.logs("Lost the connection to the CSI driver").await;
    stage.grow("2Gi");
    stage.until_events("VolumeResizeFailed", 1).await;
    let message = &stage.events("VolumeResizeFailed")[0];
    assert!(
        message.contains("rpc error: code = Unavailable desc = "),
        "{message}"
    );
    stage.driver.start();
    stage.until_capacity("2Gi").await;
}

#[tokio::test]
async fn a_driver_that_came_back_as_another_ends_the_process() {
    type Change = fn(&mut sidecar_testkit::driver::Model);
    let rows: [(&str, Change); 3] = [
        ("EXPAND_VOLUME", |model| {
            model.controller = vec![ControllerRpc::ModifyVolume]
        }),
        ("MODIFY_VOLUME", |model| {
            model.controller.push(ControllerRpc::ModifyVolume)
        }),
        ("CSI driver does not support resize nor modify", |model| {
            model.controller = Vec::new()
        }),
    ];
    for (text, change) in rows {
        let stage = Stage::new().await;
        let program = stage.started(&ELECTION).await;
        stage.driver.configure(change);
        stage.driver.restart(Memory::Kept);
        let ended = program.end().await;
        assert_ne!(ended.code, Some(0), "{}", ended.log);
        assert!(
            ended.log.lines().last().unwrap().contains(text),
            "{}",
            ended.log
        );
        settle().await;
        let lease = stage
            .api
            .object("leases", "ns/external-resizer-test-csi-driver");
        assert_eq!(
            lease.unwrap()["spec"]["holderIdentity"],
            "",
            "others may go on"
        );
    }
}
