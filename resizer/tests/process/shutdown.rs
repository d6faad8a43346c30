//! Z-128, as far as it applies here: a signal ends the process cleanly.

use rustix::process::Signal;
use sidecar_testkit::CallFault;
use sidecar_testkit::api::fault::Gate;

use super::stage::{EXPAND, Stage, settle};

const TOLD: &str = "Signal received, shutting down";

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
