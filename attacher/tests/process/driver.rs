//! Rows 130 and 131, as far as they apply here: the driver's restart does not end the process.

use std::time::Duration;

use sidecar_testkit::CallFault;
use sidecar_testkit::controller::ELECTION;
use sidecar_testkit::driver::ControllerRpc;
use sidecar_testkit::driver::Memory;
use tokio::time::sleep;

use super::stage::{Stage, settle};

const PUBLISH: &str = "ControllerPublishVolume";

#[tokio::test]
async fn row_131_a_driver_killed_during_publish() {
    let stage = Stage::new().await;
    let fault = stage.driver.fault(CallFault::on(PUBLISH).hang());
    let mut attacher = stage.start(&["--retry-interval-start=5m"]);
    stage.attach("va1", "pv1");
    stage.until_calls(PUBLISH, 1).await;
    stage.driver.stop();
    stage.until_error("va1", "attachError").await;
    let error = stage.attachment("va1")["status"]["attachError"].clone();
    assert_eq!(error["errorCode"], 14, "{error}");
    fault.remove();
    stage.driver.start();
    stage.until_attached("va1").await;
    assert!(attacher.is_running());
}

#[tokio::test]
async fn calls_wait_for_a_driver_no_longer_than_their_timeout_and_its_return_wakes_them() {
    let stage = Stage::new().await;
    stage.attached("gone", "pv1");
    stage.volume("pv2", None);
    let attacher = stage.start(&["--timeout=10s", "--retry-interval-start=5m"]);
    attacher.logs("Starting CSI attacher").await;
    stage.driver.stop();
    attacher.logs("Lost the connection to the CSI driver").await;
    stage.attach("va1", "pv2");
    stage.api.delete("volumeattachments", "gone");
    stage.until_error("gone", "detachError").await;
    let error = stage.error("va1", "attachError").await;
    assert_eq!(error["errorCode"], 14, "{error}");
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .starts_with("rpc error: code = Unavailable desc = ")
    );
    assert!(stage.driver.calls_to(PUBLISH).is_empty());
    stage.driver.start();
    stage.until_attached("va1").await;
    stage.until_gone("gone").await;
}

#[tokio::test]
async fn what_the_driver_can_do_is_read_again() {
    let stage = Stage::new().await;
    let attacher = stage.start(&[]);
    attacher.logs("Starting CSI attacher").await;
    stage
        .driver
        .configure(|model| model.controller.push(ControllerRpc::SingleNodeMultiWriter));
    stage.driver.restart(Memory::Kept);
    attacher.logs("The CSI driver is back").await;
    stage.attach("va1", "pv1");
    stage.until_attached("va1").await;
    use csi_proto::csi::ControllerPublishVolumeRequest as Request;
    use csi_proto::csi::volume_capability::access_mode::Mode;
    let calls = stage.driver.calls_to(PUBLISH);
    let request: &Request = calls[0].request().unwrap();
    let mode = request
        .volume_capability
        .as_ref()
        .unwrap()
        .access_mode
        .unwrap()
        .mode;
    assert_eq!(mode, i32::from(Mode::SingleNodeMultiWriter), "row 52");
}

#[tokio::test]
async fn a_driver_that_came_back_as_another_ends_the_process() {
    type Change = fn(&mut sidecar_testkit::driver::Model);
    let rows: [(&str, Change); 1] = [("PUBLISH_UNPUBLISH_VOLUME", |model| {
        model.controller = Vec::new()
    })];
    for (text, change) in rows {
        let stage = Stage::new().await;
        let attacher = stage.start(&ELECTION);
        attacher.logs("Starting CSI attacher").await;
        stage.driver.configure(change);
        stage.driver.restart(Memory::Kept);
        let ended = attacher.end().await;
        assert_eq!(ended.code, Some(1), "{}", ended.log);
        assert!(
            ended.log.lines().last().unwrap().contains(text),
            "{}",
            ended.log
        );
        settle().await;
        let lease = stage
            .api
            .object("leases", "ns/external-attacher-leader-test-csi-driver");
        assert_eq!(
            lease.unwrap()["spec"]["holderIdentity"],
            "",
            "others may go on"
        );
    }
}

/// Shows the duration; the tests of `sidecar::controller::driver` show the reaction.
#[tokio::test]
#[ignore = "takes a minute"]
async fn a_leader_without_driver_makes_room_after_a_minute() {
    let stage = Stage::over_tls().await;
    let arguments = ["--leader-election", "--leader-election-namespace=ns"];
    let attacher = stage.start(&arguments);
    attacher.logs("Starting CSI attacher").await;
    stage.driver.stop();
    // The process has a minute to find the driver again, and leads meanwhile.
    sleep(Duration::from_secs(55)).await;
    let lease = || {
        let name = "ns/external-attacher-leader-test-csi-driver";
        stage.api.object("leases", name).unwrap()["spec"]["holderIdentity"].clone()
    };
    assert_ne!(lease(), "");
    let ended = attacher.end().await;
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    let last = ended.log.lines().last().unwrap();
    assert!(
        last.contains("Lost connection to CSI driver, exiting"),
        "{last}"
    );
    assert_eq!(lease(), "", "others may go on");
}
