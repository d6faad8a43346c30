//! Section 10.3: CreateSnapshot fails.

use std::time::Duration;

use sidecar_testkit::CallFault;
use tokio::time::Instant;
use tonic::Code;

use super::stage::{CREATE, MARK, NAME, QUICK, Stage, content};

const MESSAGE: &str = "Failed to create snapshot: failed to take snapshot of the volume vol-1: \"rpc \
                       error: code = Internal desc = x\"";

#[tokio::test]
async fn s_60_s_61_status_and_events() {
    let stage = Stage::new().await;
    stage
        .driver
        .fault(CallFault::on(CREATE).fail(Code::Internal, "x"));
    stage.api.insert(content("u1"));
    let _program = stage.started(&[QUICK]).await;
    stage.until_calls(CREATE, 4).await;
    stage
        .until_events("SnapshotContentCheckandUpdateFailed", 1)
        .await;
    let trace = stage.trace();
    assert_eq!(trace[..3], ["bc+", "Create snapshot-u1", "bc-"], "S-60");
    let writes = trace.iter().filter(|line| line.starts_with("st ")).count();
    assert_eq!(writes, 2, "S-61: {trace:?}");
    let event = &stage.events("SnapshotCreationFailed")[0];
    assert_eq!(event["message"], MESSAGE);
    assert_eq!(event["type"], "Warning");
    assert_eq!(event["metadata"]["namespace"], "default");
    assert_eq!(
        event["source"]["component"],
        "csi-snapshotter test.csi.driver"
    );
    assert_eq!(event["involvedObject"]["kind"], "VolumeSnapshotContent");
    assert_eq!(event["involvedObject"]["name"], NAME);
    assert_eq!(
        event["involvedObject"]["uid"],
        stage.content()["metadata"]["uid"]
    );
    let later = &stage.events("SnapshotContentCheckandUpdateFailed");
    assert_eq!(later.len(), 1, "S-61");
    let status = &stage.content()["status"];
    assert_eq!(status["readyToUse"], false);
    assert_eq!(status["error"]["message"], later[0]["message"]);
}

#[tokio::test]
async fn s_64_a_call_that_takes_too_long() {
    let stage = Stage::new().await;
    stage.driver.fault(CallFault::on(CREATE).times(1).hang());
    let _program = stage
        .started(&["--timeout=10s", "--retry-interval-start=1s"])
        .await;
    let begun = Instant::now();
    stage.api.insert(content("u1"));
    stage.until_events("SnapshotCreationFailed", 1).await;
    let message = stage.events("SnapshotCreationFailed")[0]["message"].clone();
    assert!(
        message.as_str().unwrap().contains("DeadlineExceeded"),
        "{message}"
    );
    assert_eq!(
        stage.content()["metadata"]["annotations"][MARK],
        "yes",
        "in doubt"
    );
    stage.until_ready(NAME).await;
    let calls = stage.driver.calls_to(CREATE);
    assert!(calls[0].is_cancelled(), "{calls:?}");
    let deadline = calls[0].deadline.unwrap();
    assert!(deadline <= Duration::from_secs(10), "{deadline:?}");
    // The timeout and the pause together: the driver may hear late of the call, and of its end.
    let again = calls[1].started - begun;
    assert!(again >= Duration::from_millis(10_950), "{again:?}");
}

#[tokio::test]
async fn s_70_a_deletion_waits_for_what_is_in_doubt() {
    let stage = Stage::new().await;
    stage.driver.fault(
        CallFault::on(CREATE)
            .times(1)
            .fail_after(Code::DeadlineExceeded, "slow"),
    );
    stage.api.insert(content("u1"));
    let program = stage
        .started(&["--retry-interval-start=5m", "--resync-period=0s"])
        .await;
    stage.until_events("SnapshotCreationFailed", 1).await;
    stage.forsake();
    stage.until_gone().await;
    let trace = stage.trace();
    let calls: Vec<&String> = { trace.iter() }
        .filter(|line| !line.starts_with("st "))
        .collect();
    let expected = [
        "bc+",
        "Create snapshot-u1",
        "Create snapshot-u1",
        "bc-",
        "Delete snap-1",
        "F-",
    ];
    assert_eq!(calls, expected, "{}", program.log());
    stage
        .driver
        .configure(|model| assert!(model.snapshots.is_empty()));
}
