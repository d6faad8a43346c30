//! A driver that disconnects: rows CB-46 to CB-48.

use std::time::Duration;

use sidecar_testkit::driver::{Memory, Part};
use tonic::Code;

use crate::stage::{Stage, begin, get, request, took, until, until_answer};

#[tokio::test]
async fn cb_46_a_driver_that_dies_in_a_stream() {
    let stage = Stage::streaming([Part::Blocks(1), Part::Hang]).await;
    let mut running = stage.started(&[]).await;
    let answer = running
        .client()
        .await
        .get_metadata_allocated(request())
        .await;
    let mut stream = answer.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    let began = begin();
    stage.driver.stop();
    let status = stream.message().await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert!(
        status
            .message()
            .starts_with("error reading from server: EOF"),
        "{status:?}"
    );
    took(began, Duration::ZERO, Duration::from_secs(1));
    running.process.must_run();
}

#[tokio::test]
async fn cb_47_a_driver_that_was_restarted() {
    let stage = Stage::new().await;
    let mut running = stage.started(&[]).await;
    stage.driver.restart(Memory::Kept);
    running.process.says("The CSI driver is back").await;
    assert!(running.allocated(request()).await.1.is_ok());
    running.process.must_run();
}

#[tokio::test]
async fn cb_48_a_driver_that_is_away() {
    let stage = Stage::new().await;
    let running = stage.started(&[]).await;
    let began = begin();
    stage.driver.stop();
    until("health to tell", async || {
        get(&running.http, "/health").await.0 == 503
    })
    .await;
    took(began, Duration::ZERO, Duration::from_secs(1));
    assert_eq!(running.health().await, 2);
    assert_eq!(running.refused(request()).await.0, Code::Unavailable);
    stage.driver.start();
    until_answer(&running.http, "/health", 200, "ok").await;
    assert_eq!(running.health().await, 1);
}

#[tokio::test]
async fn a_driver_that_comes_back_as_another() {
    for is_renamed in [true, false] {
        let stage = Stage::new().await;
        let mut running = stage.started(&[]).await;
        stage.driver.stop();
        stage.driver.configure(|model| {
            if is_renamed {
                model.name = "another.driver".to_owned();
            } else {
                model.services.pop();
            }
        });
        stage.driver.start();
        running.process.ended().await.failed_naming(&["driver"]);
    }
}
