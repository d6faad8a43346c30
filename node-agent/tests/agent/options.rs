//! Options in CSIDriver, PersistentVolume and pod: V-18 to V-25, V-30, V-31.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};

use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_capability::{AccessType, MountVolume};
use csi_proto::csi::{NodeExpandVolumeRequest, VolumeCapability};
use node_agent::model::driver::GroupPolicy;
use node_agent::model::volume::{PodRef, Use, Volume};
use node_agent::plan::ownership::is_owned;
use serde_json::{Value, json};
use sidecar_testkit::build::{Object, csidriver, secret};
use sidecar_testkit::driver::NodeRpc;
use sidecar_testkit::{CallFault, Fault};
use tonic::Code;

use crate::stage::{D, Stage, pass, uid};

fn mount(capability: Option<VolumeCapability>) -> MountVolume {
    match capability.unwrap().access_type.unwrap() {
        AccessType::Mount(mount) => mount,
        AccessType::Block(_) => panic!("not a block device"),
    }
}

fn mode(capability: Option<VolumeCapability>) -> &'static str {
    let mode = capability.unwrap().access_mode.unwrap().mode;
    Mode::try_from(mode).unwrap().as_str_name()
}

#[tokio::test(start_paused = true)]
async fn v_18_the_pod_is_named_when_it_is_published_and_not_before() {
    let stage = Stage::started().await;
    stage
        .api
        .insert(csidriver(D).with("/spec/podInfoOnMount", true));
    stage.claimed_with("c", |volume| {
        let volume = volume
            .mode("RWO")
            .attribute("csi.storage.k8s.io/pod.name", "other");
        volume.attribute("share", "s1")
    });
    stage.attach("c");
    stage.pod("p", &["c"]);
    stage.until_running("p").await;
    let context = stage.publish_request().volume_context;
    let expected = [
        ("share", "s1"),
        ("csi.storage.k8s.io/pod.name", "p"),
        ("csi.storage.k8s.io/pod.namespace", "default"),
        ("csi.storage.k8s.io/pod.uid", "uid-p"),
        ("csi.storage.k8s.io/serviceAccount.name", "builder"),
        ("csi.storage.k8s.io/ephemeral", "false"),
    ];
    let expected: BTreeMap<_, _> = expected
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    assert_eq!(context, expected);
    let staged = stage.stage_request().volume_context;
    assert_eq!(staged.len(), 2, "{staged:?}");
    assert_eq!(staged["csi.storage.k8s.io/pod.name"], "other");
}

const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/builder/token";
const TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";

fn answer_tokens(stage: &Stage) {
    let answer = json!({ "kind": "TokenRequest", "status": {
        "token": "planted-token", "expirationTimestamp": "2030-01-01T00:00:00Z" } });
    let fault = Fault::on("POST", TOKEN).answer_raw(201, &answer.to_string());
    stage.api.fault(fault);
}

#[tokio::test(start_paused = true)]
async fn v_19_tokens_of_the_pod_are_handed_to_drivers_that_ask() {
    for in_secrets in [false, true] {
        let stage = Stage::started().await;
        let requests = json!([{ "audience": "a" }, { "audience": "", "expirationSeconds": 600 }]);
        let driver = csidriver(D).with("/spec/tokenRequests", requests);
        let place = "/spec/serviceAccountTokenInSecrets";
        stage.api.insert(driver.with(place, in_secrets));
        answer_tokens(&stage);
        stage.mounted("p", "c").await;
        let request = stage.publish_request();
        let (with, without) = if in_secrets {
            (&request.secrets, &request.volume_context)
        } else {
            (&request.volume_context, &request.secrets)
        };
        let entry =
            json!({ "token": "planted-token", "expirationTimestamp": "2030-01-01T00:00:00Z" });
        let tokens: Value = serde_json::from_str(&with[TOKENS]).unwrap();
        assert_eq!(tokens, json!({ "a": entry, "": entry }));
        assert!(!without.contains_key(TOKENS));
        assert!(stage.stage_request().secrets.is_empty());
        let asked = stage.api.requests_to("POST", TOKEN);
        assert_eq!(asked[0].body["spec"]["audiences"], json!(["a"]));
        assert_eq!(asked[1].body["spec"]["audiences"], json!([]));
        assert_eq!(asked[1].body["spec"]["expirationSeconds"], 600);
        let bound = &asked[0].body["spec"]["boundObjectRef"];
        assert_eq!(
            (&bound["name"], &bound["uid"]),
            (&json!("p"), &json!("uid-p"))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn v_20_each_call_gets_its_own_secret() {
    let stage = Stage::started().await;
    stage.driver.configure(|model| {
        model.node = vec![NodeRpc::StageUnstageVolume, NodeRpc::ExpandVolume];
    });
    stage.claimed_with("c", |volume| {
        let reference = |name: &str| json!({ "namespace": "vault", "name": name });
        volume
            .mode("RWO")
            .with("/spec/capacity/storage", "2Gi")
            .with("/spec/csi/nodeStageSecretRef", reference("stage"))
            .with("/spec/csi/nodePublishSecretRef", reference("publish"))
            .with("/spec/csi/nodeExpandSecretRef", reference("expand"))
    });
    stage.attach("c");
    stage.pod("p", &["c"]);
    stage
        .until_event("p", "FailedMount", "secret vault/stage")
        .await;
    assert!(stage.calls().is_empty(), "no call without its secret");
    // The names in Base64.
    stage
        .api
        .insert(secret("vault/stage").entry("is", "c3RhZ2U="));
    stage
        .until_event("p", "FailedMount", "secret vault/publish")
        .await;
    assert_eq!(stage.calls(), ["NodeStageVolume"]);
    stage
        .api
        .insert(secret("vault/publish").entry("is", "cHVibGlzaA=="));
    stage
        .api
        .insert(secret("vault/expand").entry("is", "ZXhwYW5k"));
    stage.until_running("p").await;
    let is = |value: &str| BTreeMap::from([("is".to_owned(), value.to_owned())]);
    assert_eq!(stage.stage_request().secrets, is("stage"));
    assert_eq!(stage.publish_request().secrets, is("publish"));
    let calls = stage.driver.calls_to("NodeExpandVolume");
    let request = calls[0].request::<NodeExpandVolumeRequest>().unwrap();
    assert_eq!(request.secrets, is("expand"));
}

#[tokio::test(start_paused = true)]
async fn v_21_access_modes() {
    let rows = [
        ("RWO", Mode::SingleNodeWriter, Mode::SingleNodeMultiWriter),
        ("ROX", Mode::MultiNodeReaderOnly, Mode::MultiNodeReaderOnly),
        (
            "RWX",
            Mode::MultiNodeMultiWriter,
            Mode::MultiNodeMultiWriter,
        ),
        ("RWOP", Mode::SingleNodeWriter, Mode::SingleNodeSingleWriter),
    ];
    for (text, plain, modern) in rows {
        for (capability, expected) in [(None, plain), (Some(()), modern)] {
            let stage = Stage::started().await;
            if capability.is_some() {
                let add = NodeRpc::SingleNodeMultiWriter;
                stage.driver.configure(|model| model.node.push(add));
            }
            stage.claimed_with("c", |volume| volume.mode(text));
            stage.attach("c");
            stage.pod("p", &["c"]);
            stage.until_running("p").await;
            assert_eq!(
                mode(stage.stage_request().volume_capability),
                expected.as_str_name(),
                "{text}"
            );
            assert_eq!(
                mode(stage.publish_request().volume_capability),
                expected.as_str_name(),
                "{text}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn v_22_the_first_access_mode_counts() {
    let stage = Stage::started().await;
    stage.claimed_with("c", |volume| volume.mode("RWX").mode("RWO"));
    stage.attach("c");
    stage.pod("p", &["c"]);
    stage.until_running("p").await;
    assert_eq!(
        mode(stage.publish_request().volume_capability),
        Mode::MultiNodeMultiWriter.as_str_name()
    );
}

#[tokio::test(start_paused = true)]
async fn v_23_the_pod_decides_whether_it_is_read_only() {
    for (by_pod, by_volume) in [(true, false), (false, true)] {
        let stage = Stage::started().await;
        stage.claimed_with("c", |volume| {
            let volume = volume.mode("RWO").mount_option("noatime").fs_type("xfs");
            if by_volume {
                volume.read_only()
            } else {
                volume
            }
        });
        stage.attach("c");
        stage.pod_with("p", &["c"], |pod| {
            pod["spec"]["volumes"][0]["persistentVolumeClaim"]["readOnly"] = json!(by_pod);
        });
        stage.until_running("p").await;
        let request = stage.publish_request();
        assert_eq!(request.readonly, by_pod);
        let mount = mount(request.volume_capability);
        assert_eq!(
            (mount.fs_type.as_str(), mount.mount_flags),
            ("xfs", vec!["noatime".to_owned()])
        );
    }
}

#[tokio::test(start_paused = true)]
async fn v_24_the_driver_gives_the_files_to_the_group() {
    let stage = Stage::started().await;
    let add = NodeRpc::VolumeMountGroup;
    stage.driver.configure(|model| model.node.push(add));
    stage.claimed("c");
    stage.attach("c");
    stage.pod_with("p", &["c"], |pod| {
        pod["spec"]["securityContext"] = json!({ "fsGroup": 3000 });
    });
    stage.until_running("p").await;
    for capability in [
        stage.stage_request().volume_capability,
        stage.publish_request().volume_capability,
    ] {
        assert_eq!(mount(capability).volume_mount_group, "3000");
    }
    assert!(
        !stage.target("p", "c").exists(),
        "nothing was done here, or it would have failed"
    );
}

#[tokio::test(start_paused = true)]
async fn v_24_otherwise_the_files_are_given_to_the_group_here() {
    let stage = Stage::started().await;
    stage.claimed("c");
    stage.attach("c");
    let gate = stage.hold("NodePublishVolume");
    // Without root privileges the test can change to its own group only.
    let own = std::fs::metadata(stage.root().parent().unwrap()).unwrap();
    let group = if own.uid() == 0 { 3000 } else { own.gid() };
    stage.pod_with("p", &["c"], |pod| {
        pod["spec"]["securityContext"] = json!({ "fsGroup": group });
    });
    stage.until_called("NodePublishVolume", 1).await;
    let target = stage.target("p", "c");
    std::fs::create_dir_all(target.join("a")).unwrap();
    let file = target.join("a/f");
    std::fs::write(&file, "").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    gate.open();
    stage.until_running("p").await;
    assert_eq!(
        mount(stage.publish_request().volume_capability).volume_mount_group,
        ""
    );
    let file = std::fs::metadata(file).unwrap();
    assert_eq!((file.gid(), file.mode() & 0o7777), (group, 0o660));
    let folder = std::fs::metadata(target.join("a")).unwrap();
    assert_eq!((folder.gid(), folder.mode() & 0o2770), (group, 0o2770));
}

#[test]
fn v_25_when_files_are_given_to_the_group() {
    let pv = |modes: &[&str], fs_type: &str| {
        let json = json!({ "metadata": { "name": "pv" }, "spec": { "accessModes": modes,
            "csi": { "driver": D, "volumeHandle": "h", "fsType": fs_type } } });
        Volume::persistent("pv", &json.to_string()).unwrap()
    };
    let usage = |read_only| Use {
        pod: PodRef {
            namespace: "default".to_owned(),
            name: "p".to_owned(),
            uid: uid("p"),
            service_account: String::new(),
        },
        fs_group: Some(3000),
        on_root_mismatch: false,
        read_only,
        se_linux: None,
        claim: None,
    };
    let default = GroupPolicy::ByModeAndType;
    let rows = [
        (
            "policy None",
            GroupPolicy::Never,
            "ReadWriteOnce",
            "ext4",
            false,
        ),
        (
            "policy File",
            GroupPolicy::Always,
            "ReadWriteMany",
            "",
            true,
        ),
        ("empty fsType", default, "ReadWriteOnce", "", false),
        ("RWX", default, "ReadWriteMany", "ext4", false),
        ("RWO", default, "ReadWriteOnce", "ext4", true),
        ("RWOP", default, "ReadWriteOncePod", "ext4", true),
    ];
    for (row, policy, mode, fs_type, expected) in rows {
        let volume = pv(&[mode], fs_type);
        assert_eq!(is_owned(policy, &volume, &usage(false)), expected, "{row}");
        assert!(!is_owned(policy, &volume, &usage(true)), "{row}, read-only");
    }
}

#[tokio::test(start_paused = true)]
async fn v_30_a_driver_may_want_to_publish_again_and_again() {
    let stage = Stage::started().await;
    stage
        .api
        .insert(csidriver(D).with("/spec/requiresRepublish", true));
    stage.mounted("p", "c").await;
    stage.until_called("NodePublishVolume", 3).await;
    let calls = stage.driver.calls_to("NodePublishVolume");
    let pause = (calls[2].started - calls[1].started).as_secs_f64();
    assert!((60.0..91.0).contains(&pause), "{pause}");
    assert_eq!(stage.driver.calls_to("NodeStageVolume").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn v_31_what_is_published_stays_although_publishing_again_fails() {
    let stage = Stage::started().await;
    stage
        .api
        .insert(csidriver(D).with("/spec/requiresRepublish", true));
    let fault = CallFault::on("NodePublishVolume").skip(1);
    stage
        .driver
        .fault(fault.fail(Code::Internal, "token expired"));
    stage.mounted("p", "c").await;
    stage.until_called("NodePublishVolume", 3).await;
    pass(1.0).await;
    assert!(
        stage
            .target("p", "c")
            .parent()
            .unwrap()
            .join("vol_data.json")
            .exists()
    );
    assert!(stage.driver.calls_to("NodeUnpublishVolume").is_empty());
    stage.delete_pod("p");
    stage.until_gone("p").await;
    stage.until_clean().await;
}
