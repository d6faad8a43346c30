//! The connection to the API server, as far as it shows in the built program.

use std::time::Duration;

use serde_json::json;
use sidecar_testkit::api::fault::Gate;
use sidecar_testkit::build::Object;
use sidecar_testkit::driver::ControllerRpc;
use sidecar_testkit::process::within;
use sidecar_testkit::{CallFault, Fault, build};
use tokio::time::sleep;

use super::capacity;
use super::source::CLONED;
use super::stage::{PATIENCE, PROTECTION, PV, Stage, claim, finalizers, released};

/// One key of each queue: a claim, a volume, a cloned claim, and storage capacity.
#[tokio::test]
async fn fs_16_what_failed_while_the_api_server_was_away_does_not_wait_out_its_back_off() {
    let stage = capacity::stage().await;
    stage.can(ControllerRpc::CloneVolume);
    let gate = Gate::new();
    for method in ["CreateVolume", "DeleteVolume", "GetCapacity"] {
        stage.driver.fault(CallFault::on(method).hold(&gate));
    }
    let release = Fault::on("PUT", "*/persistentvolumeclaims/src").times(1);
    stage.api.fault(release.hold(&gate));
    stage.api.insert(claim());
    stage.api.insert(released("pv1"));
    let source = build::claim("ns1/src").bound_to("pvs").finalizer(CLONED);
    stage.api.insert(source.deleting());
    let program = capacity::start(
        &stage,
        &[
            "--v=2",
            "--timeout=5m",
            "--retry-interval-start=10m",
            "--retry-interval-max=20m",
            "--capacity-poll-interval=1h",
        ],
    );
    within(PATIENCE, "four requests", async || gate.waiting() == 4).await;
    stage.api.set_down(true);
    gate.open();
    for (text, times) in [
        ("Provisioning failed", 1),
        ("Volume deletion failed", 1),
        // One zone after the other.
        ("Storage capacity is not up to date", 2),
        ("Cannot remove the finalizer of a cloned claim", 1),
    ] {
        let failed = async || program.log().matches(text).count() == times;
        within(PATIENCE, text, failed).await;
    }
    // Long enough to count as an outage, and for the watches to be in their own back-off.
    sleep(Duration::from_secs(3)).await;
    stage.api.set_down(false);
    stage.until_volume(PV).await;
    let deleted = |stage: &Stage| finalizers(&stage.volume("pv1")) == json!([PROTECTION]);
    stage.until("deleted", deleted).await;
    let freed = |stage: &Stage| stage.claim("ns1/src").is_null();
    stage.until("the cloned claim is freed", freed).await;
    let published = |stage: &Stage| stage.api.objects(capacity::KIND).len() == 2;
    stage.until("room is told", published).await;
    program.logs("The API server answers again").await;
}
