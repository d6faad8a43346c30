//! Unmounting volumes: V-9 to V-12, V-34, and the order of updates in the Node's status.

use std::time::Duration;

use node_agent::plan::layout::{Layout, VolumeName};
use node_agent::plan::metadata::Metadata;
use node_agent::plan::script::{Answer, Mount, Next, Step};
use node_agent::plan::unmount::Unpublish;
use sidecar_testkit::CallFault;
use tonic::Code;

use crate::stage::{D, Stage, handle, pass};

#[tokio::test(start_paused = true)]
async fn v_9_the_last_of_two_pods_takes_the_volume_with_it() {
    let stage = Stage::started().await;
    stage.mounted("p", "c").await;
    stage.pod("q", &["c"]);
    stage.until_running("q").await;
    stage.driver.clear_calls();
    let gate = stage.hold("NodeUnpublishVolume");
    stage.delete_pod("p");
    stage.delete_pod("q");
    stage.until_called("NodeUnpublishVolume", 2).await;
    assert_eq!(
        stage.driver.peak("NodeUnpublishVolume"),
        2,
        "they may overlap"
    );
    gate.open();
    stage.until_gone("p").await;
    stage.until_gone("q").await;
    stage.until_clean().await;
    assert_eq!(
        stage.calls(),
        [
            "NodeUnpublishVolume",
            "NodeUnpublishVolume",
            "NodeUnstageVolume"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn v_10_one_of_two_pods_leaves_the_volume_staged() {
    let stage = Stage::started().await;
    stage.mounted("p", "c").await;
    stage.pod("q", &["c"]);
    stage.until_running("q").await;
    stage.driver.clear_calls();
    stage.delete_pod("p");
    stage.until_gone("p").await;
    pass(10.0).await;
    assert_eq!(stage.calls(), ["NodeUnpublishVolume"]);
    assert_eq!(stage.in_use().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn v_11_a_pod_takes_over_from_another_without_restaging() {
    let stage = Stage::started().await;
    stage.mounted("p", "c").await;
    stage.driver.clear_calls();
    let gate = stage.hold("NodeUnpublishVolume");
    stage.delete_pod("p");
    stage.pod("q", &["c"]);
    stage.until_called("NodeUnpublishVolume", 1).await;
    pass(5.0).await;
    assert_eq!(
        stage.calls(),
        ["NodeUnpublishVolume"],
        "the other one waits"
    );
    gate.open();
    stage.until_running("q").await;
    assert_eq!(stage.calls(), ["NodeUnpublishVolume", "NodePublishVolume"]);
}

#[tokio::test(start_paused = true)]
async fn v_12_unstage_waits_for_the_unpublish_that_failed() {
    let stage = Stage::started().await;
    stage.mounted("p", "c").await;
    stage.driver.clear_calls();
    let fault = CallFault::on("NodeUnpublishVolume").fail(Code::Internal, "busy");
    stage.driver.fault(fault.times(1));
    stage.delete_pod("p");
    stage.until_gone("p").await;
    stage.until_clean().await;
    assert_eq!(
        stage.calls(),
        [
            "NodeUnpublishVolume",
            "NodeUnpublishVolume",
            "NodeUnstageVolume"
        ]
    );
    let calls = stage.driver.calls_to("NodeUnpublishVolume");
    let pause = calls[1].started - calls[0].started;
    assert!(pause >= Duration::from_millis(500), "{pause:?}");
}

#[tokio::test(start_paused = true)]
async fn v_12_a_volume_is_in_use_until_it_is_unstaged() {
    let stage = Stage::started().await;
    stage.mounted("p", "c").await;
    let gate = stage.hold("NodeUnstageVolume");
    stage.delete_pod("p");
    stage.until_gone("p").await;
    stage.until_called("NodeUnstageVolume", 1).await;
    pass(30.0).await;
    assert_eq!(stage.in_use().len(), 1, "it must not be detached yet");
    gate.open();
    pass(1.0).await;
    assert!(stage.in_use().is_empty(), "the detach need not wait");
    stage.until_clean().await;
}

#[tokio::test(start_paused = true)]
async fn v_12_a_pod_that_is_removed_by_force_is_taken_down_as_well() {
    let stage = Stage::started().await;
    stage.mounted("p", "c").await;
    stage.api.remove("pods", "default/p");
    stage.until_clean().await;
    assert_eq!(
        stage.calls()[2..],
        ["NodeUnpublishVolume", "NodeUnstageVolume"]
    );
}

#[tokio::test(start_paused = true)]
async fn v_34_without_metadata_there_is_nothing_to_unstage() {
    let stage = Stage::started().await;
    stage.mounted("p", "c").await;
    let file = stage.staging("c").parent().unwrap().join("vol_data.json");
    std::fs::remove_file(file).unwrap();
    stage.delete_pod("p");
    stage.until_gone("p").await;
    stage
        .until("no volume is in use", |stage| stage.in_use().is_empty())
        .await;
    assert_eq!(stage.calls()[2..], ["NodeUnpublishVolume"]);
}

#[test]
fn a_driver_that_says_it_has_unmounted_is_not_believed() {
    let metadata = Metadata {
        handle: handle("c"),
        driver: D.to_owned(),
        ..Metadata::default()
    };
    let layout = Layout {
        root: "/k".into(),
        node: "n1".to_owned(),
    };
    let name = VolumeName {
        driver: D,
        handle: "h-c",
        spec_name: "pv-c",
        block: false,
    };
    let task = Unpublish {
        paths: layout.paths(&name, "u").unwrap(),
        block: false,
        name: "pv-c".to_owned(),
    };
    // The metadata is read, the driver registered and called, and the path is still mounted.
    let mut replies = vec![
        Ok(Answer::Metadata(Some(metadata))),
        Ok(Answer::Done),
        Ok(Answer::Done),
        Ok(Answer::Is(true)),
    ];
    let Next::End { changes, result } = task.next(&replies) else {
        panic!("nothing may be removed below a mount");
    };
    assert_eq!(changes.pod, Some(Mount::Uncertain));
    assert!(result.unwrap_err().contains("still mounted"));
    replies[3] = Ok(Answer::Is(false));
    assert!(matches!(task.next(&replies), Next::Do(Step::Remove(_))));
}
