//! Nothing is mounted before it is attached: V-1 to V-4.

use std::time::Duration;

use node_agent::plan::layout::unique_name;
use serde_json::json;
use sidecar_testkit::build::Object;

use crate::stage::{D, N, Stage, handle, pass};

#[tokio::test(start_paused = true)]
async fn v_1_a_volume_is_mounted_once_the_node_says_that_it_is_attached() {
    let stage = Stage::started().await;
    stage.claimed("c");
    stage.pod("p", &["c"]);
    let name = unique_name(D, &handle("c"));
    stage
        .until("it is reported as in use", |stage| {
            stage.in_use() == [name.clone()]
        })
        .await;
    pass(30.0).await;
    assert!(
        stage.all_calls().is_empty(),
        "not attached: {:?}",
        stage.all_calls()
    );
    assert_eq!(stage.phase("p"), "Pending");
    stage.attach("c");
    stage.until_running("p").await;
    assert_eq!(stage.calls(), ["NodeStageVolume", "NodePublishVolume"]);
    let node = stage.api.object("nodes", N).unwrap();
    let key = "volumes.kubernetes.io/controller-managed-attach-detach";
    assert_eq!(node["metadata"]["annotations"][key], "true");
}

#[tokio::test(start_paused = true)]
async fn v_1_attached_does_not_count_before_it_is_reported_as_in_use() {
    let stage = Stage::started().await;
    stage.claimed("c");
    stage.attach("c");
    let fault = sidecar_testkit::Fault::on("PATCH", "/api/v1/nodes/n1/status").answer(500);
    let fault = stage.api.fault(fault);
    stage.pod("p", &["c"]);
    pass(30.0).await;
    assert!(stage.all_calls().is_empty(), "{:?}", stage.all_calls());
    fault.remove();
    stage.until_running("p").await;
}

#[tokio::test(start_paused = true)]
async fn v_2_without_an_attachment_nothing_is_staged_and_the_pauses_grow() {
    let stage = Stage::started().await;
    stage.claimed("c");
    stage.show_attached("c");
    stage.pod("p", &["c"]);
    let path = "/apis/storage.k8s.io/v1/volumeattachments/*";
    stage
        .until("it is looked for five times", |stage| {
            stage.api.requests_to("GET", path).len() >= 5
        })
        .await;
    let times: Vec<_> = stage
        .api
        .requests_to("GET", path)
        .into_iter()
        .map(|request| request.at)
        .collect();
    for (pair, pause) in times.windows(2).zip([500, 1000, 2000, 4000]) {
        let took = pair[1] - pair[0];
        let expected = Duration::from_millis(pause);
        assert!(
            took >= expected && took < expected + Duration::from_millis(100),
            "{took:?}"
        );
    }
    assert!(stage.all_calls().is_empty(), "{:?}", stage.all_calls());
    stage
        .until_event("p", "FailedMount", "VolumeAttachment")
        .await;
    stage.attach("c");
    stage.until_running("p").await;
}

#[tokio::test(start_paused = true)]
async fn v_2_an_attachment_that_failed_or_is_going_counts_for_nothing() {
    let stage = Stage::started().await;
    stage.claimed("c");
    stage.attach("c");
    let name = stage.attachment("c");
    stage.api.edit("volumeattachments", &name, |it| {
        it["status"] = json!({ "attached": false, "attachError": { "message": "no room" } });
    });
    stage.pod("p", &["c"]);
    stage.until_event("p", "FailedMount", "no room").await;
    stage.api.edit("volumeattachments", &name, |it| {
        it["status"] = json!({ "attached": true });
        it["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z");
    });
    stage
        .until_event("p", "FailedMount", "is being deleted")
        .await;
    assert!(stage.all_calls().is_empty(), "{:?}", stage.all_calls());
}

#[tokio::test(start_paused = true)]
async fn v_3_the_attachments_metadata_reach_the_driver() {
    let stage = Stage::started().await;
    stage.claimed("c");
    stage.attach_with("c", &json!({ "k": "v" }));
    stage.pod("p", &["c"]);
    stage.until_running("p").await;
    let expected = [("k".to_owned(), "v".to_owned())].into();
    assert_eq!(stage.stage_request().publish_context, expected);
    assert_eq!(stage.publish_request().publish_context, expected);
}

#[tokio::test(start_paused = true)]
async fn v_4_a_driver_that_does_not_attach_needs_no_attachment() {
    let stage = Stage::started().await;
    let driver = sidecar_testkit::build::csidriver(D);
    stage.api.insert(driver.with("/spec/attachRequired", false));
    stage.claimed("c");
    stage.pod("p", &["c"]);
    stage.until_running("p").await;
    let path = "/apis/storage.k8s.io/v1/volumeattachments/*";
    assert!(stage.api.requests_to("GET", path).is_empty());
    assert!(stage.stage_request().publish_context.is_empty());
    assert!(
        stage.in_use().is_empty(),
        "it is not the controller's business"
    );
}
