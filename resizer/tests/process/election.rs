//! Consecutive leaders.

use serde_json::{Value, json};
use sidecar_testkit::CallFault;
use sidecar_testkit::api::fault::Gate;

use super::stage::{EXPAND, MODIFY, Stage, condition};

#[tokio::test]
async fn fs_9_a_volume_that_another_made_larger_meanwhile_stays_so() {
    let stage = Stage::new().await;
    let gate = Gate::new();
    stage.driver.fault(CallFault::on(EXPAND).hold(&gate));
    let _program = stage.started(&[]).await;
    stage.grow("2Gi");
    stage.until_calls(EXPAND, 1).await;
    stage.api.hold_watches("persistentvolumes");
    stage.edit_volume(|volume| volume["spec"]["capacity"]["storage"] = "4Gi".into());
    gate.open();
    stage.until_capacity("2Gi").await;
    assert_eq!(stage.size(), "4Gi");
    assert_eq!(stage.events_of("VolumeResizeFailed"), 0);
}

/// The first call is preceded by a write of the claim, so that the API server rejects late writes
/// of a predecessor.
#[tokio::test]
async fn fs_9_a_claim_is_written_before_a_call_of_a_predecessor_is_repeated() {
    for method in [EXPAND, MODIFY] {
        let stage = Stage::modifying().await;
        let gate = Gate::new();
        stage.driver.fault(CallFault::on(method).hold(&gate));
        match method {
            EXPAND => {
                stage.grow("2Gi");
                stage.expanding("ControllerResizeInProgress", "2Gi");
                stage.edit_claim(|claim| {
                    claim["status"]["conditions"] = json!([condition("Resizing", "")]);
                });
            }
            _ => {
                stage.reclass(Some("b"));
                stage.edit_claim(|claim| {
                    claim["status"]["modifyVolumeStatus"] =
                        json!({"status": "InProgress", "targetVolumeAttributesClassName": "b"});
                    claim["status"]["conditions"] = json!([condition("ModifyingVolume", "")]);
                });
            }
        }
        let found = stage.claim();
        let _program = stage.started(&[]).await;
        stage.until_calls(method, 1).await;
        let version = |claim: &Value| claim["metadata"]["resourceVersion"].clone();
        assert_ne!(version(&stage.claim()), version(&found), "{method}");
        gate.open();
        match method {
            EXPAND => stage.until_capacity("2Gi").await,
            _ => stage.until_class("b").await,
        }
        assert_eq!(stage.calls(method), 1, "{method}");
    }
}
