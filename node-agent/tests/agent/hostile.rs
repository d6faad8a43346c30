//! Malicious names, files and answers.

use node_agent::model::volume::{Lifecycle, Volume};
use node_agent::plan::layout::{Layout, VolumeName, driver_name, part};
use node_agent::plan::metadata::Metadata;
use node_agent::plan::script::{Answer, Call};
use serde_json::json;
use sidecar_testkit::CallFault;
use tonic::Code;

use crate::stage::{D, N, Stage, below, pass};

const NAMES: [&str; 8] = ["", ".", "..", "../../x", "a/../b", "a\0b", "/etc", "\n"];

#[test]
fn no_name_leads_out_of_kubelets_directory() {
    let root = std::path::PathBuf::from("/k");
    let layout = Layout {
        root: root.clone(),
        node: N.to_owned(),
    };
    let long = "x".repeat(300);
    for bad in NAMES.into_iter().chain([long.as_str()]) {
        for block in [false, true] {
            let names = [
                VolumeName {
                    driver: bad,
                    handle: "h",
                    spec_name: "v",
                    block,
                },
                VolumeName {
                    driver: D,
                    handle: bad,
                    spec_name: "v",
                    block,
                },
                VolumeName {
                    driver: D,
                    handle: "h",
                    spec_name: bad,
                    block,
                },
            ];
            for name in names {
                for uid in ["u", bad] {
                    let Ok(paths) = layout.paths(&name, uid) else {
                        continue;
                    };
                    for path in [
                        &paths.staging,
                        &paths.stage_metadata,
                        &paths.target,
                        &paths.target_metadata,
                    ] {
                        assert!(path.starts_with(&root), "{path:?}");
                        let parts = path.components();
                        let plain = |it| matches!(it, std::path::Component::Normal(_));
                        assert!(parts.skip(1).all(plain), "{path:?}");
                    }
                }
            }
        }
        assert!(driver_name(bad).is_err());
    }
    assert_eq!(part("volume", "a/b").unwrap(), "a~b");
}

#[test]
fn metadata_that_names_no_volume_is_refused() {
    let rows = [
        "",
        "{}",
        "[]",
        "null",
        r#"{"driverName":"../x","volumeHandle":"h"}"#,
        r#"{"driverName":"d.example.com"}"#,
        r#"{"driverName":"d.example.com","volumeHandle":7}"#,
        r#"{"driverName":"d.example.com","volumeHandle":"h","x":{}}"#,
    ];
    for text in rows {
        assert!(Metadata::read(text).is_err(), "{text}");
    }
    let good = r#"{"driverName":"d.example.com","volumeHandle":"h","new":"x"}"#;
    assert_eq!(Metadata::read(good).unwrap().handle, "h");
}

#[test]
fn secrets_are_not_shown() {
    let planted = [("k".to_owned(), "planted".to_owned())];
    let request = csi_proto::csi::NodeStageVolumeRequest {
        secrets: planted.clone().into(),
        ..Default::default()
    };
    let publish = csi_proto::csi::NodePublishVolumeRequest {
        secrets: planted.clone().into(),
        ..Default::default()
    };
    let tokens = csi_proto::csi::NodePublishVolumeRequest {
        volume_context: [(
            "csi.storage.k8s.io/serviceAccount.tokens".to_owned(),
            "planted".to_owned(),
        )]
        .into(),
        ..Default::default()
    };
    let shown = [
        format!("{:?}", Call::Stage(request)),
        format!("{:?}", Call::Publish(publish)),
        format!("{:?}", Call::Publish(tokens)),
        format!("{:?}", Answer::Secret(planted.into())),
        format!("{:?}", Answer::Token("planted".to_owned(), String::new())),
    ];
    for text in shown {
        assert!(!text.contains("planted"), "{text}");
    }
}

#[test]
fn a_persistent_volume_that_is_none() {
    for json in ["", "null", "[]", "{}", r#"{"metadata":{"name":"other"}}"#] {
        assert!(Volume::persistent("pv", json).is_err(), "{json}");
    }
    let json = json!({ "metadata": { "name": "pv" },
        "spec": { "capacity": { "storage": "lots" }, "csi": {} } });
    let volume = Volume::persistent("pv", &json.to_string()).unwrap();
    assert_eq!(
        (volume.capacity, volume.lifecycle),
        (0, Lifecycle::Persistent)
    );
}

#[tokio::test(start_paused = true)]
async fn pods_with_impossible_names_are_told_and_do_no_harm() {
    let stage = Stage::started().await;
    stage.claimed("c");
    stage.attach("c");
    stage.pod_with("p", &["c"], |pod| {
        pod["metadata"]["uid"] = json!("../../../escaped");
    });
    stage
        .until_event("p", "FailedMount", "cannot be part of a path")
        .await;
    pass(5.0).await;
    assert!(stage.all_calls().is_empty());
    assert!(below(&stage.root().join("pods")).is_empty());
    stage.pod("q", &["c"]);
    stage.until_running("q").await;
}

/// If the agent took the pod for gone, it would unmount the volumes of a running pod.
#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_read_keeps_its_volumes() {
    let stage = Stage::started().await;
    stage.mounted("p", "c").await;
    stage.api.edit("pods", "default/p", |pod| {
        pod["spec"]["volumes"] = json!("none");
    });
    pass(120.0).await;
    // The next list contains it too.
    stage.api.compact();
    stage.api.break_watches();
    pass(120.0).await;
    assert_eq!(stage.calls(), ["NodeStageVolume", "NodePublishVolume"]);
    stage.mounted("q", "d").await;
}

#[tokio::test(start_paused = true)]
async fn what_strangers_left_on_disk_is_passed_over() {
    let mut stage = Stage::set();
    let root = stage.root();
    let pod = root.join("pods/u/volumes/kubernetes.io~csi");
    for (name, text) in [
        ("garbage", "\u{0}not json"),
        ("driver", r#"{"driverName":"../../x","volumeHandle":"h"}"#),
        ("huge", &"x".repeat(3 << 20)),
    ] {
        std::fs::create_dir_all(pod.join(name)).unwrap();
        std::fs::write(pod.join(name).join("vol_data.json"), text).unwrap();
    }
    std::fs::create_dir_all(pod.join("empty/mount")).unwrap();
    // Metadata of a volume whose path is another one.
    let stray = root.join("plugins/kubernetes.io/csi/d.example.com/0000");
    std::fs::create_dir_all(&stray).unwrap();
    let text = r#"{"driverName":"d.example.com","volumeHandle":"h"}"#;
    std::fs::write(stray.join("vol_data.json"), text).unwrap();
    stage.start().await;
    stage.mounted("p", "c").await;
    assert_eq!(stage.calls(), ["NodeStageVolume", "NodePublishVolume"]);
    assert!(!pod.join("empty").exists(), "empty directories are removed");
    assert!(pod.join("garbage").exists(), "files of others are not");
}

#[tokio::test(start_paused = true)]
async fn megabytes_of_a_driver_do_not_come_back() {
    let stage = Stage::started().await;
    stage.claimed("c");
    stage.attach("c");
    let text = "x".repeat(6000);
    stage
        .driver
        .fault(CallFault::on("NodeStageVolume").fail(Code::Internal, &text));
    stage.pod("p", &["c"]);
    stage.until_event("p", "FailedMount", "xxx").await;
    for (_, message) in stage.events("p") {
        assert!(message.len() < 2000, "{} bytes", message.len());
    }
}
