//! The way to the API server, as far as it shows in the built program.

use std::time::Duration;

use sidecar_testkit::CallFault;
use sidecar_testkit::api::fault::Gate;
use sidecar_testkit::process::within;
use tokio::time::sleep;

use super::stage::{EXPAND, NEVER_AGAIN, PATIENCE, Stage};

#[tokio::test]
async fn fs_16_what_failed_while_the_api_server_was_away_does_not_wait_out_its_back_off() {
    let stage = Stage::new().await;
    let gate = Gate::new();
    stage.driver.fault(CallFault::on(EXPAND).hold(&gate));
    let program = stage.started(&[NEVER_AGAIN]).await;
    stage.grow("4Gi");
    within(PATIENCE, "the call", async || gate.waiting() == 1).await;
    stage.api.set_down(true);
    gate.open();
    program.logs("300s").await;
    // Long enough to be an outage, and for its watches to be in their own back-off.
    sleep(Duration::from_secs(3)).await;
    stage.api.set_down(false);
    stage.until_capacity("4Gi").await;
    program.logs("The API server answers again").await;
}
