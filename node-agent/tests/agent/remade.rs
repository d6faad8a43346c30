//! FR-9: a PersistentVolume is deleted and recreated under its name, for other storage.

use node_agent::plan::layout::unique_name;
use serde_json::json;
use sidecar_testkit::build::attachment;

use crate::stage::{D, N, Stage, pass};

const OTHER: &str = "h-other";

/// Recreates the PersistentVolume of the claim `c` for other storage, which is attached.
fn make_again(stage: &Stage) {
    stage.driver.volume(OTHER);
    stage.api.edit("persistentvolumes", "pv-c", |volume| {
        volume["spec"]["csi"]["volumeHandle"] = json!(OTHER);
    });
    let name = stage.layout().attachment(D, OTHER);
    let object = attachment(&name).by(D).on(N).of("pv-c").attached();
    stage.api.insert(object);
    stage.api.edit("nodes", N, |node| {
        let list = node["status"]["volumesAttached"].as_array_mut().unwrap();
        list.push(json!({ "name": unique_name(D, OTHER), "devicePath": "" }));
    });
}

#[tokio::test(start_paused = true)]
async fn fr_9_a_live_pod_keeps_what_it_has() {
    let mut stage = Stage::started().await;
    stage.mounted("p", "c").await;
    make_again(&stage);
    stage.driver.clear_calls();
    stage.until_event("p", "FailedMount", OTHER_TAKEN).await;
    pass(300.0).await;
    assert!(stage.calls().is_empty(), "{:?}", stage.calls());
    // After a restart the agent knows only what is on disk.
    stage.stop();
    stage.start().await;
    pass(300.0).await;
    assert!(stage.calls().is_empty(), "{:?}", stage.calls());
    stage.delete_pod("p");
    stage.until_gone("p").await;
    stage.until_called("NodeUnstageVolume", 1).await;
    stage.pod("q", &["c"]);
    stage.until_running("q").await;
    assert_eq!(stage.publish_request().volume_id, OTHER);
    stage.delete_pod("q");
    stage.until_gone("q").await;
    stage.until_clean().await;
}

const OTHER_TAKEN: &str = "is taken by another of the same name";

/// The paths of a block device are the same for both storages.
#[tokio::test(start_paused = true)]
async fn fr_9_a_block_device_waits_until_the_other_is_gone() {
    let stage = Stage::started().await;
    stage.claimed_with("c", |volume| volume.mode("RWO").block());
    stage.attach("c");
    let with_device = |pod: &mut serde_json::Value| {
        let container = &mut pod["spec"]["containers"][0];
        container["volumeMounts"] = json!([]);
        container["volumeDevices"] = json!([{ "name": "v-c", "devicePath": "/dev/x" }]);
    };
    stage.pod_with("p", &["c"], with_device);
    stage.until_running("p").await;
    make_again(&stage);
    stage.pod_with("q", &["c"], with_device);
    stage.until_event("q", "FailedMount", OTHER_TAKEN).await;
    assert_eq!(stage.calls(), ["NodeStageVolume", "NodePublishVolume"]);
    stage.delete_pod("p");
    stage.until_gone("p").await;
    stage.until_running("q").await;
    assert_eq!(stage.publish_request().volume_id, OTHER);
    stage.delete_pod("q");
    stage.until_gone("q").await;
    stage.until_clean().await;
}
