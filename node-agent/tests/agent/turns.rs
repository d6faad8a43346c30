//! One pod or volume does not block others: FR-3, FR-4, FR-5, FR-8.

use std::time::Duration;

use serde_json::json;
use sidecar_testkit::{CallFault, Fault, Gate};
use tonic::Code;

use crate::stage::{Stage, pass};

#[tokio::test(start_paused = true)]
async fn fr_4_a_pod_that_always_fails_does_not_keep_another_from_its_volume() {
    let stage = Stage::started().await;
    stage.claimed("c");
    stage.attach("c");
    stage.pod_with("a", &["c"], |pod| {
        // It is published, but its files never get that group.
        pod["spec"]["securityContext"] = json!({ "fsGroup": 5_000_000_000_u64 });
    });
    stage
        .until_event("a", "FailedMount", "not the number of a group")
        .await;
    stage.pod("b", &["c"]);
    stage.pod("d", &["c"]);
    stage.until_running("b").await;
    stage.until_running("d").await;
}

#[tokio::test(start_paused = true)]
async fn fr_3_mounting_and_growing_that_both_fail_wait_longer_each_time() {
    let stage = Stage::started().await;
    stage.driver.configure(|model| {
        use sidecar_testkit::driver::NodeRpc;
        model.node = vec![NodeRpc::StageUnstageVolume, NodeRpc::ExpandVolume];
    });
    stage.mounted("a", "c").await;
    for method in ["NodeExpandVolume", "NodePublishVolume"] {
        let fault = CallFault::on(method).fail(Code::Internal, "no");
        stage.driver.fault(fault);
    }
    stage.api.edit("persistentvolumes", "pv-c", |volume| {
        volume["spec"]["capacity"] = json!({ "storage": "2Gi" });
    });
    stage.driver.clear_calls();
    stage.pod("b", &["c"]);
    stage.until_called("NodeExpandVolume", 1).await;
    pass(60.0).await;
    for method in ["NodeExpandVolume", "NodePublishVolume"] {
        let calls = stage.driver.calls_to(method).len();
        // Attempts at 0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5 and 63.5 s.
        assert!((5..=8).contains(&calls), "{calls} of {method}");
    }
}

#[tokio::test(start_paused = true)]
async fn fr_8_a_look_up_that_takes_long_holds_up_no_other_pod() {
    let mut stage = Stage::started().await;
    stage.mounted("a", "c").await;
    stage.claimed("s");
    stage.stop();
    let gate = Gate::new();
    let path = "/api/v1/namespaces/default/persistentvolumeclaims/s";
    stage.api.fault(Fault::on("GET", path).hold(&gate));
    stage.pod("slow", &["s"]);
    stage.delete_pod("a");
    stage.start().await;
    let begin = tokio::time::Instant::now();
    stage.until_gone("a").await;
    let gone = begin.elapsed();
    stage.until_called("NodeUnstageVolume", 1).await;
    stage
        .until("nothing is in use", |stage| stage.in_use().is_empty())
        .await;
    // The claim's response takes 30 s or never comes.
    let took = begin.elapsed();
    assert!(gone < Duration::from_secs(2), "{gone:?}");
    assert!(took < Duration::from_secs(8), "{took:?}");
    stage.mounted("b", "d").await;
    gate.open();
}

#[tokio::test(start_paused = true)]
async fn fr_5_the_successor_of_a_pod_is_not_said_to_run() {
    let stage = Stage::started().await;
    stage.claimed("c");
    stage.attach("c");
    let gate = Gate::new();
    let fault = Fault::on("PATCH", "/api/v1/namespaces/default/pods/p/status");
    let fault = stage.api.fault(fault.hold(&gate));
    stage.pod("p", &["c"]);
    stage
        .until("the agent says that it runs", |_| gate.waiting() == 1)
        .await;
    stage.api.remove("pods", "default/p");
    stage.pod_with("p", &["missing"], |pod| {
        pod["metadata"]["uid"] = json!("uid-of-the-next");
    });
    gate.open();
    fault.remove();
    pass(10.0).await;
    assert_eq!(stage.phase("p"), "Pending");
}
