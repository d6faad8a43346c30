//! The effect of failed calls on the volume: V-13 to V-17, V-39.

use std::time::Duration;

use sidecar_testkit::CallFault;
use tonic::Code;

use crate::stage::{Stage, pass};

#[tokio::test(start_paused = true)]
async fn v_13_staging_in_doubt_is_undone() {
    let stage = Stage::started().await;
    stage.claimed("c");
    stage.attach("c");
    let fault = CallFault::on("NodeStageVolume").fail_after(Code::DeadlineExceeded, "too slow");
    stage.driver.fault(fault);
    stage.pod("p", &["c"]);
    stage.until_called("NodeStageVolume", 1).await;
    stage.delete_pod("p");
    stage.until_gone("p").await;
    stage.until_clean().await;
    assert_eq!(stage.calls().last(), Some(&"NodeUnstageVolume"));
    assert!(stage.driver.calls_to("NodePublishVolume").is_empty());
}

#[tokio::test(start_paused = true)]
async fn v_13_staging_without_an_answer_is_given_up_after_two_minutes() {
    let stage = Stage::started().await;
    stage.claimed("c");
    stage.attach("c");
    stage
        .driver
        .fault(CallFault::on("NodeStageVolume").hang().times(1));
    stage.pod("p", &["c"]);
    stage.until_called("NodeStageVolume", 2).await;
    let calls = stage.driver.calls_to("NodeStageVolume");
    let pause = calls[1].started - calls[0].started;
    let expected = Duration::from_millis(120_500);
    assert!(
        pause >= expected && pause < expected + Duration::from_secs(1),
        "{pause:?}"
    );
    stage.until_running("p").await;
}

#[tokio::test(start_paused = true)]
async fn v_14_staging_that_failed_for_certain_leaves_nothing() {
    let stage = Stage::started().await;
    stage.claimed("c");
    stage.attach("c");
    stage
        .driver
        .fault(CallFault::on("NodeStageVolume").fail(Code::Internal, "no"));
    stage.pod("p", &["c"]);
    stage
        .until_event("p", "FailedMount", "MountVolume.MountDevice failed")
        .await;
    assert!(!stage.staging("c").parent().unwrap().exists(), "removed");
    stage.delete_pod("p");
    stage.until_gone("p").await;
    stage.until_clean().await;
    assert!(stage.driver.calls_to("NodeUnstageVolume").is_empty());
}

#[tokio::test(start_paused = true)]
async fn v_15_publishing_in_doubt_is_tried_again_and_undone() {
    for code in [
        Code::Aborted,
        Code::Unavailable,
        Code::Cancelled,
        Code::DeadlineExceeded,
        Code::ResourceExhausted,
    ] {
        let stage = Stage::started().await;
        stage.claimed("c");
        stage.attach("c");
        stage
            .driver
            .fault(CallFault::on("NodePublishVolume").fail_after(code, "perhaps"));
        stage.pod("p", &["c"]);
        stage.until_called("NodePublishVolume", 3).await;
        assert_eq!(
            stage.driver.calls_to("NodeStageVolume").len(),
            1,
            "{code:?}"
        );
        assert!(
            stage
                .target("p", "c")
                .parent()
                .unwrap()
                .join("vol_data.json")
                .exists()
        );
        stage.delete_pod("p");
        stage.until_gone("p").await;
        stage.until_clean().await;
        assert_eq!(
            stage.driver.calls_to("NodeUnpublishVolume").len(),
            1,
            "{code:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn v_16_publishing_that_failed_for_certain_leaves_nothing() {
    let stage = Stage::started().await;
    stage.claimed("c");
    stage.attach("c");
    let fault = CallFault::on("NodePublishVolume").fail(Code::InvalidArgument, "no such flag");
    let fault = stage.driver.fault(fault);
    stage.pod("p", &["c"]);
    stage
        .until_event(
            "p",
            "FailedMount",
            "MountVolume.SetUp failed for volume \"pv-c\"",
        )
        .await;
    assert!(
        !stage.target("p", "c").parent().unwrap().exists(),
        "removed"
    );
    stage.until_called("NodePublishVolume", 4).await;
    let calls = stage.driver.calls_to("NodePublishVolume");
    for (pair, pause) in calls.windows(2).zip([500, 1000, 2000]) {
        let took = pair[1].started - pair[0].started;
        assert!(took >= Duration::from_millis(pause), "{took:?} for {pause}");
    }
    fault.remove();
    stage.until_running("p").await;
    assert_eq!(stage.driver.calls_to("NodeStageVolume").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn v_17_a_driver_that_is_not_registered_yet() {
    let mut stage = Stage::set();
    stage.start_unregistered().await;
    stage.claimed("c");
    stage.attach("c");
    stage.pod("p", &["c"]);
    let text = "driver name d.example.com not found in the list of registered CSI drivers";
    stage.until_event("p", "FailedMount", text).await;
    stage.register().await;
    stage.until_running("p").await;
    stage.deregister().await;
    stage.delete_pod("p");
    pass(5.0).await;
    assert_eq!(
        stage.calls().len(),
        2,
        "no way to unmount: {:?}",
        stage.calls()
    );
    assert!(stage.target("p", "c").parent().unwrap().exists(), "kept");
    assert!(stage.api.object("pods", "default/p").is_some(), "kept");
    stage.register().await;
    stage.until_gone("p").await;
    stage.until_clean().await;
}

#[tokio::test(start_paused = true)]
async fn v_39_a_volume_for_one_pod_is_not_given_to_another() {
    let stage = Stage::started().await;
    stage.claimed_with("c", |volume| volume.mode("RWOP"));
    stage.attach("c");
    stage.pod("p", &["c"]);
    stage.until_running("p").await;
    stage.pod("q", &["c"]);
    stage
        .until_event("q", "FailedMount", "ReadWriteOncePod")
        .await;
    assert_eq!(stage.calls(), ["NodeStageVolume", "NodePublishVolume"]);
    stage.delete_pod("p");
    stage.until_running("q").await;
    assert_eq!(
        stage.calls()[2..],
        ["NodeUnpublishVolume", "NodePublishVolume"]
    );
}
