//! Section 10.5: deletion of snapshots.

use serde_json::json;
use sidecar_testkit::{CallFault, Fault};
use tonic::Code;

use super::stage::{DELETE, DELETED, FINALIZER, NAME, QUICK, Stage, content, settle};

const CLEARED: &str =
    r#"st {"creationTime":null,"readyToUse":null,"restoreSize":null,"snapshotHandle":null}"#;

/// A stage with the fixture's content, ready, and the program.
async fn ready(arguments: &[&str]) -> (Stage, super::stage::Running) {
    let stage = Stage::new().await;
    stage.api.insert(content("u1"));
    let program = stage.started(arguments).await;
    stage.until_ready(NAME).await;
    stage.api.clear_requests();
    stage.driver.clear_calls();
    (stage, program)
}

#[tokio::test]
async fn s_87_the_snapshot_goes_before_the_content() {
    let (stage, _program) = ready(&[]).await;
    stage.forsake();
    stage.until_gone().await;
    assert_eq!(stage.trace(), ["Delete snap-1", CLEARED, "F-"]);
    stage
        .driver
        .configure(|model| assert!(model.snapshots.is_empty()));
}

#[tokio::test]
async fn s_88_somebody_else_holds_it() {
    let (stage, _program) = ready(&[]).await;
    stage.edit(|content| content["metadata"]["finalizers"] = json!([FINALIZER, "x/y"]));
    stage.forsake();
    stage
        .until("released", |stage| {
            stage.content()["metadata"]["finalizers"] == json!(["x/y"])
        })
        .await;
    settle().await;
    assert_eq!(stage.trace(), ["Delete snap-1", CLEARED, "F-"]);
}

#[tokio::test]
async fn s_89_s_91_s_92_what_stays() {
    let (stage, _program) = ready(&[]).await;
    stage.edit(|content| content["metadata"]["annotations"][DELETED] = "yes".into());
    settle().await;
    assert_eq!(stage.trace(), [""; 0], "S-92");
    stage.edit(|content| content["spec"]["deletionPolicy"] = "Retain".into());
    stage.api.delete("volumesnapshotcontents", NAME);
    stage.until_gone().await;
    assert_eq!(stage.trace(), ["F-"], "S-89");
    stage
        .driver
        .configure(|model| assert_eq!(model.snapshots.len(), 1, "S-89"));
    let (stage, _program) = ready(&[]).await;
    stage.api.delete("volumesnapshotcontents", NAME);
    settle().await;
    assert_eq!(stage.trace(), [""; 0], "S-91");
}

#[tokio::test]
async fn s_96_what_the_driver_does_not_delete() {
    let (stage, _program) = ready(&[QUICK]).await;
    stage.driver.fault(
        CallFault::on(DELETE)
            .times(2)
            .fail(Code::FailedPrecondition, "in use"),
    );
    stage.forsake();
    stage.until_gone().await;
    assert_eq!(stage.calls(DELETE), 3);
    stage.until_events("SnapshotDeleteError", 1).await;
    let event = &stage.events("SnapshotDeleteError")[0];
    let expected = "Failed to delete snapshot: rpc error: code = FailedPrecondition desc = in use";
    assert_eq!(event["message"], expected);
}

#[tokio::test]
async fn s_99_a_status_that_is_not_cleared() {
    for status in [409, 500] {
        let (stage, _program) = ready(&[QUICK]).await;
        stage.api.fault(
            Fault::on("PATCH", "*/volumesnapshotcontents/*/status")
                .times(1)
                .answer(status),
        );
        stage.forsake();
        stage.until_gone().await;
        assert_eq!(stage.calls(DELETE), 1, "{status}");
    }
}
