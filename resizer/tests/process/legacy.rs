//! Z-96 to Z-99: `RecoverVolumeExpansionFailure=false`.

use serde_json::json;
use sidecar_testkit::CallFault;
use tonic::Code;

use super::stage::{EXPAND, GI, Running, Stage, condition, settle};

async fn started(stage: &Stage) -> Running {
    let gate = "--feature-gates=RecoverVolumeExpansionFailure=false";
    stage.started(&[gate, "--retry-interval-start=1s"]).await
}

const BEGIN: &str = r#"cs(rv) {"status":{"conditions":[{"status":"True","type":"Resizing"}]}}"#;

#[tokio::test]
async fn z_96_without_node_expansion() {
    let stage = Stage::new().await;
    let program = started(&stage).await;
    assert!(
        program.log().contains("GA feature gate"),
        "{}",
        program.log()
    );
    stage.grow("2Gi");
    stage.until_events("VolumeResizeSuccessful", 1).await;
    let asked = format!("Exp h1 {}", 2 * GI);
    let grow = r#"pp {"spec":{"capacity":{"storage":"2Gi"}}}"#;
    let finish = r#"cs(rv) {"status":{"capacity":{"storage":"2Gi"},"conditions":null}}"#;
    stage.traced("Z-96", &[BEGIN, &asked, grow, finish]);
    assert!(stage.allocated().is_null() && stage.claim()["metadata"]["annotations"].is_null());
}

#[tokio::test]
async fn z_97_with_node_expansion() {
    let stage = Stage::new().await;
    stage.node();
    let _program = started(&stage).await;
    stage.grow("2Gi");
    stage.until_events("FileSystemResizeRequired", 1).await;
    assert_eq!(
        (stage.conditions(), stage.state()),
        (vec!["FileSystemResizePending".to_owned()], "")
    );
    let last = stage.trace().pop().unwrap();
    assert!(
        last.contains(r#"{"$patch":"delete","type":"Resizing"}"#),
        "{last}"
    );
}

#[tokio::test]
async fn z_98_errors_leave_no_condition() {
    let stage = Stage::new().await;
    stage.driver.fault(
        CallFault::on(EXPAND)
            .fail(Code::InvalidArgument, "no")
            .times(1),
    );
    let _program = started(&stage).await;
    stage.grow("2Gi");
    stage.until_events("VolumeResizeFailed", 1).await;
    assert_eq!(stage.conditions(), ["Resizing"]);
    stage.until_capacity("2Gi").await;
    let calls = stage.driver.calls_to(EXPAND);
    let gap = (calls[1].started - calls[0].started).as_secs_f64();
    assert!((0.9..10.0).contains(&gap), "{gap}");
}

#[tokio::test]
async fn z_99_the_node_is_waited_for() {
    let stage = Stage::new().await;
    stage.edit_volume(|volume| volume["spec"]["capacity"]["storage"] = "2Gi".into());
    stage.edit_claim(|claim| {
        claim["status"]["conditions"] = json!([condition("FileSystemResizePending", "")]);
    });
    stage.grow("2Gi");
    let _program = started(&stage).await;
    settle().await;
    stage.traced("Z-99", &[]);
}
