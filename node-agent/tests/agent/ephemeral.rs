//! Inline volumes: V-26 and V-27.

use csi_proto::csi::volume_capability::access_mode::Mode;
use serde_json::{Value, json};
use sidecar_testkit::build::{Object, csidriver, secret};

use crate::stage::{D, Stage, pass};

const ID: &str = "csi-a46bec53679aafe7e6bc42077f33be9e5c533643ed1224b3bfbf2dd627bbf53c";
const UID: &str = "11111111-2222-3333-4444-555555555555";

fn inline(pod: &mut Value) {
    pod["metadata"]["uid"] = json!(UID);
    let source = json!({ "driver": D, "readOnly": true, "volumeAttributes": { "size": "1" },
        "nodePublishSecretRef": { "name": "key" } });
    pod["spec"]["volumes"] = json!([{ "name": "scratch", "csi": source }]);
    pod["spec"]["containers"][0]["volumeMounts"] =
        json!([{ "name": "scratch", "mountPath": "/s" }]);
}

fn ephemeral() -> sidecar_testkit::build::Driver {
    csidriver(D).with("/spec/volumeLifecycleModes", json!(["Ephemeral"]))
}

#[tokio::test(start_paused = true)]
async fn v_26_an_inline_volume_lives_and_dies_with_its_pod() {
    let stage = Stage::started().await;
    stage
        .api
        .insert(ephemeral().with("/spec/podInfoOnMount", true));
    stage
        .api
        .insert(secret("default/key").entry("is", "cHVibGlzaA=="));
    stage.driver.configure(|model| {
        model.node.clear();
        model.add(ID);
    });
    stage.pod_with("p", &[], inline);
    stage.until_running("p").await;
    assert_eq!(stage.calls(), ["NodePublishVolume"]);
    let request = stage.publish_request();
    assert_eq!(request.volume_id, ID);
    let target = stage.root().join("pods").join(UID);
    let target = target.join("volumes/kubernetes.io~csi/scratch/mount");
    assert_eq!(request.target_path, target.to_str().unwrap());
    assert_eq!(request.staging_target_path, "");
    assert!(request.readonly && request.publish_context.is_empty());
    assert_eq!(request.secrets["is"], "publish");
    assert_eq!(
        request.volume_context["csi.storage.k8s.io/ephemeral"],
        "true"
    );
    assert_eq!(request.volume_context["size"], "1");
    let mode = request.volume_capability.unwrap().access_mode.unwrap().mode;
    assert_eq!(mode, i32::from(Mode::SingleNodeWriter));
    assert!(stage.in_use().is_empty(), "nothing to detach");
    stage.delete_pod("p");
    stage.until_gone("p").await;
    stage.until_clean().await;
    assert_eq!(stage.calls(), ["NodePublishVolume", "NodeUnpublishVolume"]);
}

#[tokio::test(start_paused = true)]
async fn v_27_a_driver_that_does_not_say_that_it_has_inline_volumes() {
    for object in [
        None,
        Some(csidriver(D)),
        Some(csidriver(D).with("/spec/volumeLifecycleModes", json!(["Persistent"]))),
    ] {
        let stage = Stage::started().await;
        stage.api.remove("csidrivers", D);
        if let Some(object) = object {
            stage.api.insert(object);
        }
        stage.driver.configure(|model| {
            model.node.clear();
            model.add(ID);
        });
        stage
            .api
            .insert(secret("default/key").entry("is", "cHVibGlzaA=="));
        stage.pod_with("p", &[], inline);
        stage
            .until_event("p", "FailedMount", "volumeLifecycleModes")
            .await;
        pass(5.0).await;
        assert!(stage.calls().is_empty());
        stage.api.insert(ephemeral());
        stage.until_running("p").await;
    }
}
