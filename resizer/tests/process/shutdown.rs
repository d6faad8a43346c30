//! Z-125 to Z-128 as they are here: a signal ends the process in good order.

use rustix::process::Signal;
use sidecar_testkit::CallFault;
use sidecar_testkit::api::fault::Gate;
use tokio::time::Instant;

use super::stage::{EXPAND, Stage, settle};

const TOLD: &str = "Signal received, shutting down";
const LEASE: &str = "ns/external-resizer-test-csi-driver";

#[tokio::test]
async fn z_125_and_126_the_lease_is_handed_over() {
    for gate in ["true", "false"] {
        let stage = Stage::new().await;
        let gate = format!("--feature-gates=ReleaseLeaderElectionOnExit={gate}");
        let election = ["--leader-election", "--leader-election-namespace=ns", &gate];
        let program = stage.started(&election).await;
        program.signal(Signal::TERM);
        let ended = program.end().await;
        assert_eq!(ended.code, Some(0), "{}", ended.log);
        let lease = stage.api.object("leases", LEASE).unwrap();
        assert_eq!(lease["spec"]["holderIdentity"], "");
        assert_eq!(lease["spec"]["leaseDurationSeconds"], 1);
    }
}

#[tokio::test]
async fn z_127_without_election() {
    for (signal, gate) in [(Signal::TERM, "true"), (Signal::INT, "false")] {
        let stage = Stage::new().await;
        let gate = format!("--feature-gates=ReleaseLeaderElectionOnExit={gate}");
        let program = stage.started(&[&gate]).await;
        program.signal(signal);
        let ended = program.end().await;
        assert_eq!(ended.code, Some(0), "{}", ended.log);
    }
}

#[tokio::test]
async fn z_128_a_running_expansion_is_finished_and_nothing_new_begins() {
    let stage = Stage::new().await;
    let gate = Gate::new();
    stage.driver.fault(CallFault::on(EXPAND).hold(&gate));
    let program = stage.started(&[]).await;
    stage.grow("2Gi");
    stage.until_calls(EXPAND, 1).await;
    program.signal(Signal::TERM);
    program.logs(TOLD).await;
    stage.grow("3Gi");
    settle().await;
    gate.open();
    let ended = program.end().await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert!(
        ended.log.contains("All running operations have ended"),
        "{}",
        ended.log
    );
    assert_eq!(
        (stage.capacity().as_str(), stage.state()),
        (Some("2Gi"), "")
    );
    assert_eq!(stage.size(), "2Gi");
    assert_eq!(stage.events_of("VolumeResizeSuccessful"), 1, "not lost");
    assert_eq!(stage.calls(EXPAND), 1);
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let stage = Stage::new().await;
    stage.driver.fault(CallFault::on(EXPAND).hang());
    let program = stage.started(&[]).await;
    stage.grow("2Gi");
    stage.until_calls(EXPAND, 1).await;
    program.signal(Signal::TERM);
    program.logs(TOLD).await;
    program.signal(Signal::TERM);
    let ended = program.end().await;
    assert_eq!(ended.code, Some(1), "{}", ended.log);
}

#[tokio::test]
async fn before_there_is_a_driver_a_signal_ends_it_at_once() {
    let stage = Stage::new().await;
    stage.driver.stop();
    let program = stage.start(&[]);
    program.logs("Connection attempt failed").await;
    let told = Instant::now();
    program.signal(Signal::TERM);
    let ended = program.end().await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert!(told.elapsed().as_secs() < 15);
}
