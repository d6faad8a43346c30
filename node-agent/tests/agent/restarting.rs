//! After a restart the agent rebuilds its state from the disk: V-32 and V-33.

use serde_json::json;
use sidecar_testkit::{CallFault, Fault, Gate};

use crate::stage::{N, Stage, pass};

#[tokio::test(start_paused = true)]
async fn v_32_a_volume_whose_pod_is_still_there_is_published_again() {
    let mut stage = Stage::started().await;
    stage.mounted("p", "c").await;
    stage.stop();
    stage.driver.clear_calls();
    let pods = stage
        .api
        .fault(Fault::on("GET", "/api/v1/pods").answer(500));
    stage.start().await;
    pass(30.0).await;
    assert!(
        stage.calls().is_empty(),
        "pods are not known: {:?}",
        stage.calls()
    );
    assert_eq!(stage.in_use().len(), 1);
    pods.remove();
    stage.until_called("NodePublishVolume", 1).await;
    pass(5.0).await;
    assert_eq!(stage.calls(), ["NodeStageVolume", "NodePublishVolume"]);
    stage.delete_pod("p");
    stage.until_gone("p").await;
    stage.until_clean().await;
}

#[tokio::test(start_paused = true)]
async fn v_32_a_claim_that_cannot_be_looked_up_does_not_cost_a_pod_its_volume() {
    let mut stage = Stage::started().await;
    stage.mounted("p", "c").await;
    stage.stop();
    stage.driver.clear_calls();
    let path = "/api/v1/namespaces/default/persistentvolumeclaims/c";
    let claims = stage.api.fault(Fault::on("GET", path).answer(500));
    stage.start().await;
    stage.until_event("p", "FailedMount", "PVC default/c").await;
    pass(30.0).await;
    assert!(stage.calls().is_empty(), "{:?}", stage.calls());
    claims.remove();
    stage.until_called("NodePublishVolume", 1).await;
}

#[tokio::test(start_paused = true)]
async fn v_33_a_volume_whose_pod_has_gone_is_taken_down() {
    let mut stage = Stage::started().await;
    stage.mounted("p", "c").await;
    stage.stop();
    stage.api.remove("pods", "default/p");
    // Only the disk still knows the volume.
    stage.api.remove("persistentvolumeclaims", "default/c");
    stage.api.remove("persistentvolumes", "pv-c");
    stage.driver.clear_calls();
    stage.start().await;
    stage.until_clean().await;
    assert_eq!(stage.calls(), ["NodeUnpublishVolume", "NodeUnstageVolume"]);
}

#[tokio::test(start_paused = true)]
async fn v_33_a_crash_before_any_answer() {
    for (method, undo) in [
        ("NodeStageVolume", vec!["NodeUnstageVolume"]),
        (
            "NodePublishVolume",
            vec!["NodeUnpublishVolume", "NodeUnstageVolume"],
        ),
    ] {
        let mut stage = Stage::started().await;
        stage.claimed("c");
        stage.attach("c");
        let fault = stage.driver.fault(CallFault::on(method).lose_reply());
        stage.pod("p", &["c"]);
        stage.until_called(method, 1).await;
        stage.stop();
        fault.remove();
        stage.api.remove("pods", "default/p");
        // The driver notices that its caller is gone.
        pass(1.0).await;
        stage.driver.clear_calls();
        stage.start().await;
        stage.until_clean().await;
        assert_eq!(stage.calls(), undo, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn v_33_a_crash_between_unpublish_and_unstage() {
    let mut stage = Stage::started().await;
    stage.mounted("p", "c").await;
    let gate = Gate::new();
    let fault = stage
        .driver
        .fault(CallFault::on("NodeUnstageVolume").hold(&gate));
    stage.delete_pod("p");
    stage.until_called("NodeUnstageVolume", 1).await;
    stage.until_gone("p").await;
    stage.stop();
    fault.remove();
    stage.start().await;
    stage.until_clean().await;
    assert_eq!(stage.calls().last(), Some(&"NodeUnstageVolume"));
}

#[tokio::test(start_paused = true)]
async fn a_node_with_a_kubelet_is_left_alone() {
    let mut stage = Stage::set();
    stage.api.edit("nodes", N, |node| {
        node["status"]["nodeInfo"] = json!({ "kubeletVersion": "v1.36.3" });
    });
    stage.begin();
    let error = stage.end().await.to_string();
    assert!(error.contains("run by a kubelet (v1.36.3)"), "{error}");
    assert!(stage.api.writes().is_empty(), "{:?}", stage.api.writes());
}
