//! Z-59 to Z-67: the ControllerExpandVolume request.

use csi_proto::csi::volume_capability::{AccessType, MountVolume};
use serde_json::json;
use sidecar_testkit::build;
use sidecar_testkit::driver::ControllerRpc;

use super::stage::{EXPAND, GI, NEVER_AGAIN, Stage, settle};

async fn expanded(stage: &Stage) -> (AccessType, &'static str) {
    let _program = stage.started(&[]).await;
    stage.grow("2Gi");
    stage.until_capacity("2Gi").await;
    let request = stage.request();
    assert_eq!(request.volume_id, "h1");
    let range = request.capacity_range.unwrap();
    assert_eq!((range.required_bytes, range.limit_bytes), (2 * GI, 0));
    let capability = request.volume_capability.unwrap();
    (
        capability.access_type.unwrap(),
        capability.access_mode.unwrap().mode().as_str_name(),
    )
}

#[tokio::test]
async fn z_59_to_61_and_67_how_the_volume_is_used() {
    let mount = |fs_type: &str, flags: &[&str]| {
        AccessType::Mount(MountVolume {
            fs_type: fs_type.into(),
            mount_flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            volume_mount_group: String::new(),
        })
    };
    let stage = Stage::new().await;
    stage.edit_volume(|volume| {
        volume["spec"]["csi"]["fsType"] = "xfs".into();
        volume["spec"]["csi"]["volumeAttributes"] = json!({"a": "b"});
        volume["spec"]["mountOptions"] = json!(["noatime"]);
    });
    assert_eq!(
        expanded(&stage).await,
        (mount("xfs", &["noatime"]), "SINGLE_NODE_WRITER"),
        "Z-59"
    );
    assert!(
        !format!("{:?}", stage.request()).contains("volume_context"),
        "Z-67"
    );

    let stage = Stage::new().await;
    assert_eq!(expanded(&stage).await.0, mount("", &[]), "Z-60");

    let stage = Stage::new().await;
    stage.edit_volume(|volume| {
        volume["spec"]["csi"]["fsType"] = "xfs".into();
        volume["spec"]["volumeMode"] = "Block".into();
        volume["spec"]["mountOptions"] = json!(["noatime"]);
        volume["spec"]["accessModes"] = json!(["ReadWriteMany"]);
    });
    let (access, mode) = expanded(&stage).await;
    assert!(matches!(access, AccessType::Block(_)), "Z-61");
    assert_eq!(mode, "MULTI_NODE_MULTI_WRITER", "Z-61");
}

#[tokio::test]
async fn z_62_and_66_capabilities_are_asked_for_once() {
    let stage = Stage::new().await;
    stage.can(ControllerRpc::SingleNodeMultiWriter);
    assert_eq!(expanded(&stage).await.1, "SINGLE_NODE_MULTI_WRITER", "Z-62");
    assert_eq!(stage.calls("ControllerGetCapabilities"), 1, "Q9, Z-66");
}

#[tokio::test]
async fn z_63_access_modes_without_counterpart() {
    let stage = Stage::new().await;
    stage.edit_volume(|volume| {
        volume["spec"]["accessModes"] = json!(["ReadOnlyMany", "ReadWriteOnce"]);
    });
    let _program = stage.started(&[NEVER_AGAIN]).await;
    stage.grow("2Gi");
    stage.until_events("VolumeResizeFailed", 1).await;
    settle().await;
    let text = r#"resize volume "pv1" by resizer "test.csi.driver" failed: failed to get capabilities of volume pv1 with CSI does not support ReadOnlyMany and ReadWriteOnce on the same PersistentVolume"#;
    assert_eq!(stage.events("VolumeResizeFailed"), [text]);
    assert_eq!((stage.calls(EXPAND), stage.state()), (0, "CRIP"));
    assert_eq!(stage.conditions(), ["Resizing"]);
}

fn secret(stage: &Stage) {
    stage.edit_volume(|volume| {
        volume["spec"]["csi"]["controllerExpandSecretRef"] =
            json!({"name": "es", "namespace": "ns"});
    });
}

#[tokio::test]
async fn z_64_the_secret_of_the_volume() {
    let stage = Stage::new().await;
    secret(&stage);
    stage
        .api
        .insert(build::secret("ns/es").entry("user", "ZQ=="));
    let program = stage.start(&["-v=10"]);
    stage.grow("2Gi");
    stage.until_capacity("2Gi").await;
    let secrets = stage.request().secrets;
    assert_eq!(secrets.get("user").map(String::as_str), Some("e"));
    let trace = stage.trace();
    assert_eq!(trace[1], "secret es", "{trace:?}");
    let log = program.log();
    for line in [
        "***stripped***",
        "Claim(MarkResizing) of Claim(",
        "GET Secret ns/es: done",
        "Expand, after ",
    ] {
        assert!(log.contains(line), "{line}: {log}");
    }
}

#[tokio::test]
async fn z_65_without_its_secret() {
    let stage = Stage::new().await;
    secret(&stage);
    let _program = stage.started(&["--retry-interval-start=1s"]).await;
    stage.grow("2Gi");
    stage.until_events("VolumeResizeFailed", 1).await;
    let text = r#"resize volume "pv1" by resizer "test.csi.driver" failed: error getting secret es in namespace ns: secrets "es" not found"#;
    assert_eq!(stage.events("VolumeResizeFailed"), [text]);
    assert_eq!((stage.calls(EXPAND), stage.state()), (0, "CRIP"));
    stage
        .api
        .insert(build::secret("ns/es").entry("user", "ZQ=="));
    stage.until_capacity("2Gi").await;
}
