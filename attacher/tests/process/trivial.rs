//! Rows 30 to 35: a driver that cannot publish volumes.

use sidecar_testkit::Fault;
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::driver::{ControllerRpc, PluginService};

use super::stage::{ATTACHED, F, Stage, settle};

async fn trivial() -> Stage {
    let stage = Stage::new().await;
    stage
        .driver
        .configure(|model| model.controller = Vec::new());
    stage
}

#[tokio::test]
async fn rows_30_32_33_34() {
    let stage = trivial().await;
    let deleting = build::attachment("va2")
        .by(super::stage::DRIVER)
        .on("node1")
        .of("pv1");
    stage.api.insert(deleting.finalizer("other/fin"));
    stage.api.delete("volumeattachments", "va2");
    stage.api.insert(
        build::attachment("foreign")
            .by("other")
            .on("node1")
            .of("pv1"),
    );
    stage.volume("pv9", Some(serde_json::json!([F])));
    stage.api.delete("persistentvolumes", "pv9");
    let _attacher = stage.start(&[]);
    stage.attach("va1", "pv1");
    stage.until_attached("va1").await;
    stage.until_attached("va2").await;
    settle().await;
    assert_eq!(stage.trace(), [ATTACHED, ATTACHED]);
    assert!(
        stage.api.object("persistentvolumes", "pv9").is_some(),
        "row 34"
    );
}

#[tokio::test]
async fn row_31_the_status_is_written_until_it_is_taken() {
    let stage = trivial().await;
    stage.api.fault(
        Fault::on("PATCH", "*/volumeattachments/va1/status")
            .answer(403)
            .times(2),
    );
    let _attacher = stage.start(&["--retry-interval-start=200ms"]);
    stage.attach("va1", "pv1");
    stage.until_attached("va1").await;
    assert_eq!(stage.trace(), [ATTACHED; 3]);
}

#[tokio::test]
async fn row_26_without_controller_service() {
    let stage = trivial().await;
    stage
        .driver
        .configure(|model| model.services = vec![PluginService::GroupControllerService]);
    let _attacher = stage.start(&[]);
    stage.attach("va1", "pv1");
    stage.until_attached("va1").await;
    assert!(
        stage
            .driver
            .calls_to("ControllerGetCapabilities")
            .is_empty()
    );
    assert!(stage.api.requests_to("GET", "*/csinodes").is_empty());
}

#[tokio::test]
async fn row_35_nothing_to_compare() {
    let stage = trivial().await;
    stage.driver.configure(|model| {
        let list = [
            ControllerRpc::ListVolumes,
            ControllerRpc::ListVolumesPublishedNodes,
        ];
        model.controller = list.to_vec();
    });
    let attacher = stage.start(&["--reconcile-sync=200ms"]);
    attacher.logs("Starting CSI attacher").await;
    settle().await;
    assert!(stage.driver.calls_to("ListVolumes").is_empty());
}
