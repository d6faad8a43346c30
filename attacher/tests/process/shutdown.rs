//! Rows 132 to 134 as they are here: a signal ends the process in good order.

use std::time::Duration;

use sidecar_testkit::CallFault;
use sidecar_testkit::api::fault::Gate;
use sidecar_testkit::process::Signal;
use tokio::time::Instant;

use super::stage::{Stage, settle};

const TOLD: &str = "Signal received, shutting down";
const ELECTION: [&str; 2] = ["--leader-election", "--leader-election-namespace=ns"];

#[tokio::test]
async fn running_calls_finish_and_are_recorded_and_nothing_new_begins() {
    let stage = Stage::new().await;
    for index in 0..5 {
        stage.volume(&format!("pv-{index}"), None);
        stage.attach(&format!("va-{index}"), &format!("pv-{index}"));
    }
    let gate = Gate::new();
    stage
        .driver
        .fault(CallFault::on("ControllerPublishVolume").hold(&gate));
    let attacher = stage.start(&[ELECTION[0], ELECTION[1], "--worker-threads=2"]);
    attacher.logs("Starting CSI attacher").await;
    stage.until_calls("ControllerPublishVolume", 2).await;
    attacher.terminate();
    attacher.logs(TOLD).await;
    settle().await;
    gate.open();
    let ended = attacher.end().await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert!(
        ended.log.contains("All running operations have ended"),
        "{}",
        ended.log
    );
    let attached = |index| stage.attachment(&format!("va-{index}"))["status"]["attached"] == true;
    assert_eq!(
        (0..5).filter(|index| attached(*index)).count(),
        2,
        "{:#?}",
        stage.trace()
    );
    assert_eq!(stage.driver.calls_to("ControllerPublishVolume").len(), 2);
    let lease = "ns/external-attacher-leader-test-csi-driver";
    let lease = stage.api.object("leases", lease).unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "");
    // Its successor finishes the rest, and asks nothing twice.
    stage.driver.clear_faults();
    let _successor = stage.start(&ELECTION);
    for index in 0..5 {
        stage.until_attached(&format!("va-{index}")).await;
    }
    assert_eq!(stage.driver.calls_to("ControllerPublishVolume").len(), 5);
}

#[tokio::test]
async fn row_134_without_election() {
    let stage = Stage::new().await;
    for (signal, gate) in [(Signal::TERM, "true"), (Signal::INT, "false")] {
        let gate = format!("--feature-gates=ReleaseLeaderElectionOnExit={gate}");
        let attacher = stage.start(&[&gate]);
        attacher.logs("Starting CSI attacher").await;
        attacher.signal(signal);
        let ended = attacher.end().await;
        assert_eq!((ended.code, ended.signal), (Some(0), None), "{}", ended.log);
    }
}

#[tokio::test]
async fn before_there_is_a_driver_a_signal_ends_it_at_once() {
    let stage = Stage::new().await;
    stage.driver.stop();
    let attacher = stage.start(&[]);
    attacher.logs("Connection attempt failed").await;
    let told = Instant::now();
    attacher.terminate();
    let ended = attacher.end().await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert!(told.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let stage = Stage::new().await;
    stage
        .driver
        .fault(CallFault::on("ControllerPublishVolume").hang());
    let attacher = stage.start(&[]);
    stage.attach("va1", "pv1");
    stage.until_calls("ControllerPublishVolume", 1).await;
    attacher.terminate();
    attacher.logs(TOLD).await;
    attacher.terminate();
    let ended = attacher.end().await;
    assert_eq!(ended.code, Some(1), "{}", ended.log);
}
