//! FR-11: who expands a volume next, and the progress in the claim's status. Section 6.11 of the
//! specification.

use serde_json::{Value, json};
use sidecar_testkit::build::Object as _;
use sidecar_testkit::driver::NodeRpc;
use sidecar_testkit::{CallFault, Fault};
use tonic::Code;

use crate::stage::{Stage, pass};

const EXPAND: &str = "NodeExpandVolume";

/// A running pod with a volume of 1 GiB.
async fn running() -> Stage {
    let stage = Stage::started().await;
    stage.driver.configure(|model| {
        model.node = vec![NodeRpc::StageUnstageVolume, NodeRpc::ExpandVolume];
    });
    stage.claimed_with("c", |volume| {
        volume.mode("RWO").with("/spec/capacity/storage", "1Gi")
    });
    stage.attach("c");
    stage.pod("p", &["c"]);
    stage.until_running("p").await;
    stage
}

/// Does the resizer's part: the volume has grown, and the claim's status says who expands next.
fn grow(stage: &Stage, resize_status: &str) {
    stage.api.edit("persistentvolumes", "pv-c", |volume| {
        volume["spec"]["capacity"]["storage"] = json!("2Gi");
    });
    set_resize_status(stage, resize_status);
}

fn set_resize_status(stage: &Stage, resize_status: &str) {
    stage
        .api
        .edit("persistentvolumeclaims", "default/c", |claim| {
            claim["status"]["allocatedResources"] = json!({ "storage": "2Gi" });
            claim["status"]["allocatedResourceStatuses"] = json!({ "storage": resize_status });
        });
}

fn status(stage: &Stage) -> Value {
    let claim = stage.api.object("persistentvolumeclaims", "default/c");
    claim.unwrap()["status"].clone()
}

fn resize_status(stage: &Stage) -> Value {
    status(stage)["allocatedResourceStatuses"]["storage"].clone()
}

fn size(stage: &Stage) -> Value {
    status(stage)["capacity"]["storage"].clone()
}

#[tokio::test(start_paused = true)]
async fn fr_11_it_is_grown_when_it_is_the_nodes_turn_and_the_claim_says_so() {
    let stage = running().await;
    grow(&stage, "ControllerResizeInProgress");
    pass(300.0).await;
    assert!(stage.driver.calls_to(EXPAND).is_empty());
    let gate = stage.hold(EXPAND);
    set_resize_status(&stage, "NodeResizePending");
    stage.until_called(EXPAND, 1).await;
    assert_eq!(resize_status(&stage), "NodeResizeInProgress");
    gate.open();
    stage
        .until("the claim has grown", |stage| size(stage) == "2Gi")
        .await;
    assert_eq!(resize_status(&stage), Value::Null);
    pass(300.0).await;
    assert_eq!(stage.driver.calls_to(EXPAND).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn fr_11_a_size_that_the_driver_refuses_is_not_asked_for_again() {
    let stage = running().await;
    let fault = CallFault::on(EXPAND).fail(Code::OutOfRange, "too large");
    stage.driver.fault(fault);
    grow(&stage, "NodeResizePending");
    stage.until_called(EXPAND, 1).await;
    stage
        .until("the claim says so", |stage| {
            resize_status(stage) == "NodeResizeInfeasible"
        })
        .await;
    let condition = &status(&stage)["conditions"][0];
    assert_eq!(condition["type"], "NodeResizeError");
    let message = condition["message"].as_str().unwrap();
    assert!(message.contains("too large"), "{message}");
    pass(300.0).await;
    assert_eq!(stage.driver.calls_to(EXPAND).len(), 1);
    assert_eq!(size(&stage), "1Gi");
}

#[tokio::test(start_paused = true)]
async fn fr_11_what_was_written_meanwhile_is_not_overwritten() {
    let stage = running().await;
    let gate = stage.hold(EXPAND);
    grow(&stage, "NodeResizePending");
    stage.until_called(EXPAND, 1).await;
    // The user requests a larger size, and the controller starts to expand.
    set_resize_status(&stage, "ControllerResizeInProgress");
    gate.open();
    stage.until_event("p", "VolumeResizeFailed", "claim").await;
    pass(300.0).await;
    assert_eq!(resize_status(&stage), "ControllerResizeInProgress");
    assert_eq!(size(&stage), "1Gi");
    set_resize_status(&stage, "NodeResizePending");
    stage
        .until("the claim has grown", |stage| size(stage) == "2Gi")
        .await;
}

#[tokio::test(start_paused = true)]
async fn fr_11_a_claim_that_could_not_be_written_is_written_later() {
    let stage = running().await;
    let path = "/api/v1/namespaces/default/persistentvolumeclaims/c/status";
    let fault = stage.api.fault(Fault::on("PATCH", path).answer(500));
    // With a resizer that does not track, the agent writes nothing before the call.
    stage.api.edit("persistentvolumes", "pv-c", |volume| {
        volume["spec"]["capacity"]["storage"] = json!("2Gi");
    });
    stage.until_called(EXPAND, 1).await;
    pass(30.0).await;
    fault.remove();
    stage
        .until("the claim has grown", |stage| size(stage) == "2Gi")
        .await;
}

/// With ReadWriteMany: another node has updated the claim first.
#[tokio::test(start_paused = true)]
async fn fr_11_every_node_grows_its_own_file_system() {
    let stage = running().await;
    stage.api.edit("persistentvolumes", "pv-c", |volume| {
        volume["spec"]["capacity"]["storage"] = json!("2Gi");
    });
    stage
        .api
        .edit("persistentvolumeclaims", "default/c", |claim| {
            claim["status"]["capacity"]["storage"] = json!("2Gi");
        });
    let version = |stage: &Stage| {
        let claim = stage.api.object("persistentvolumeclaims", "default/c");
        claim.unwrap()["metadata"]["resourceVersion"].clone()
    };
    let before = version(&stage);
    stage.until_called(EXPAND, 1).await;
    pass(300.0).await;
    assert_eq!(stage.driver.calls_to(EXPAND).len(), 1);
    assert_eq!(version(&stage), before, "there is nothing to write");
}
