//! SELinux labels as mount options: V-29, N-53.

use std::path::Path;

use csi_proto::csi::VolumeCapability;
use csi_proto::csi::volume_capability::AccessType;
use node_agent::plan::layout::{Layout, VolumeName};
use serde_json::{Value, json};
use sidecar_testkit::build::{Object, csidriver};
use sidecar_testkit::driver::NodeRpc;
use sidecar_testkit::{CallFault, Gate};
use tonic::Code;

use crate::stage::{D, Stage, pass, uid};

const A: &str = "system_u:object_r:container_file_t:s0:c1,c2";
const B: &str = "system_u:object_r:container_file_t:s0:c3,c4";
const LEVEL_A: &str = "s0:c1,c2";
const LEVEL_B: &str = "s0:c3,c4";

fn flags(capability: Option<VolumeCapability>) -> Vec<String> {
    match capability.unwrap().access_type.unwrap() {
        AccessType::Mount(mount) => mount.mount_flags,
        AccessType::Block(_) => Vec::new(),
    }
}

fn context(label: Option<&str>) -> Vec<String> {
    let flag = label.map(|label| format!("context=\"{label}\""));
    flag.into_iter().collect()
}

/// The label in the metadata file beside a path.
fn on_disk(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path.parent().unwrap().join("vol_data.json")).ok()?;
    let data: Value = serde_json::from_str(&text).unwrap();
    data["seLinuxMountContext"].as_str().map(str::to_owned)
}

fn level(level: &str) -> Value {
    json!({ "seLinuxOptions": { "level": level } })
}

fn recursive(level: &str) -> Value {
    json!({ "seLinuxOptions": { "level": level }, "seLinuxChangePolicy": "Recursive" })
}

/// SELinux is enabled, and the driver supports mounts with labels.
async fn labelling() -> Stage {
    let mut stage = Stage::set();
    stage.se_linux = true;
    let driver = csidriver(D).with("/spec/seLinuxMount", true);
    stage.api.insert(driver.with(
        "/spec/volumeLifecycleModes",
        json!(["Persistent", "Ephemeral"]),
    ));
    stage.start().await;
    stage
}

/// A pod with this security context, whose container mounts the claims.
fn pod(stage: &Stage, name: &str, claims: &[&str], context: &Value) {
    stage.pod_with(name, claims, |pod| {
        pod["spec"]["securityContext"] = context.clone();
    });
}

impl Stage {
    fn claim(&self, name: &str, mode: &str) {
        self.claimed_with(name, |volume| volume.mode(mode).fs_type("ext4"));
        self.attach(name);
    }

    /// Checks the label in the last calls and in the metadata files, which all have to be equal.
    fn must_have(&self, pod: &str, claim: &str, label: Option<&str>, row: &str) {
        let flags_of = context(label);
        let staged = flags(self.stage_request().volume_capability);
        assert_eq!(staged, flags_of, "{row}: staged");
        let published = flags(self.publish_request().volume_capability);
        assert_eq!(published, flags_of, "{row}: published");
        for path in [self.staging(claim), self.target(pod, claim)] {
            assert_eq!(on_disk(&path).as_deref(), label, "{row}: {path:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn v_29_the_pods_label_becomes_a_mount_option() {
    let stage = labelling().await;
    stage.claim("c", "RWOP");
    pod(&stage, "p", &["c"], &level(LEVEL_A));
    stage.until_running("p").await;
    stage.must_have("p", "c", Some(A), "RWOP");
}

#[tokio::test(start_paused = true)]
async fn v_29_without_selinux_there_is_no_label() {
    let stage = Stage::started().await;
    let driver = csidriver(D).with("/spec/seLinuxMount", true);
    stage.api.insert(driver);
    stage.claim("c", "RWOP");
    pod(&stage, "p", &["c"], &level(LEVEL_A));
    stage.until_running("p").await;
    stage.must_have("p", "c", None, "without --selinux");
}

#[tokio::test(start_paused = true)]
async fn n_53a_volumes_of_every_access_mode_are_mounted_with_the_label() {
    for mode in ["RWO", "ROX", "RWX", "RWOP"] {
        for read_only in [false, true] {
            let stage = labelling().await;
            stage.claim("c", mode);
            stage.pod_with("p", &["c"], |pod| {
                pod["spec"]["securityContext"] = level(LEVEL_A);
                pod["spec"]["volumes"][0]["persistentVolumeClaim"]["readOnly"] = json!(read_only);
            });
            stage.until_running("p").await;
            let row = format!("{mode}, read-only: {read_only}");
            stage.must_have("p", "c", Some(A), &row);
            assert_eq!(stage.publish_request().readonly, read_only, "{row}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn n_53a_several_access_modes() {
    let stage = labelling().await;
    stage.claimed_with("c", |volume| volume.mode("RWO").mode("RWX").fs_type("ext4"));
    stage.attach("c");
    pod(&stage, "p", &["c"], &level(LEVEL_A));
    stage.until_running("p").await;
    stage.must_have("p", "c", Some(A), "RWO and RWX");
}

#[tokio::test(start_paused = true)]
async fn n_53b_without_the_label() {
    let rows = [
        ("Recursive", true, recursive(LEVEL_A)),
        ("the driver has no seLinuxMount", false, level(LEVEL_A)),
        ("the pod has no label", true, json!({})),
        (
            "the container runtime draws the level",
            true,
            json!({ "seLinuxOptions": { "type": "spc_t" } }),
        ),
    ];
    for (row, supported, context) in rows {
        for mode in ["RWO", "ROX", "RWX", "RWOP"] {
            let stage = labelling().await;
            let driver = csidriver(D).with("/spec/seLinuxMount", supported);
            stage.api.insert(driver);
            stage.claim("c", mode);
            pod(&stage, "p", &["c"], &context);
            stage.until_running("p").await;
            stage.must_have("p", "c", None, &format!("{row}, {mode}"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn n_53b_inline_volumes_and_block_devices_have_none() {
    let stage = labelling().await;
    stage.driver.configure(|model| {
        let handle = node_agent::plan::layout::ephemeral_handle(&uid("p"), "scratch");
        model.add(&handle);
        model.node.clear();
    });
    stage.pod_with("p", &[], |pod| {
        pod["spec"]["securityContext"] = level(LEVEL_A);
        pod["spec"]["volumes"] = json!([{ "name": "scratch", "csi": { "driver": D } }]);
        pod["spec"]["containers"][0]["volumeMounts"] =
            json!([{ "name": "scratch", "mountPath": "/s" }]);
    });
    stage.until_running("p").await;
    assert!(flags(stage.publish_request().volume_capability).is_empty());
    let volume = VolumeName {
        driver: D,
        handle: "",
        spec_name: "scratch",
        block: false,
    };
    no_label_on_disk(&stage.layout(), &volume, "p");
    stage
        .driver
        .configure(|model| model.node = vec![NodeRpc::StageUnstageVolume]);
    stage.claimed_with("c", |volume| volume.mode("RWO").block());
    stage.attach("c");
    stage.pod_with("q", &["c"], |pod| {
        pod["spec"]["securityContext"] = level(LEVEL_A);
        let container = &mut pod["spec"]["containers"][0];
        container["volumeMounts"] = json!([]);
        container["volumeDevices"] = json!([{ "name": "v-c", "devicePath": "/dev/x" }]);
    });
    stage.until_running("q").await;
    assert_eq!(stage.publish_request().volume_id, "h-c");
    let volume = VolumeName {
        spec_name: "pv-c",
        block: true,
        ..volume
    };
    no_label_on_disk(&stage.layout(), &volume, "q");
}

/// Checks that the metadata file of the volume has no label.
fn no_label_on_disk(layout: &Layout, volume: &VolumeName<'_>, pod: &str) {
    let file = layout.paths(volume, &uid(pod)).unwrap().target_metadata;
    let text = std::fs::read_to_string(&file).unwrap();
    let data: Value = serde_json::from_str(&text).unwrap();
    assert!(data["driverName"].is_string(), "{file:?}: {data}");
    assert_eq!(data.get("seLinuxMountContext"), None, "{file:?}: {data}");
}

/// The expected label of the mount, or the expected event text.
type Expected = Result<Option<&'static str>, &'static str>;

/// Security contexts of the pod and its containers, with the expected result.
fn contexts() -> Vec<(&'static str, Value, Vec<Value>, Expected)> {
    let user = json!({ "seLinuxOptions": {
        "user": "staff_u", "role": "sysadm_r", "type": "container_t", "level": "s0" } });
    let conflict = Err("with different SELinux labels");
    vec![
        ("of the pod", level(LEVEL_A), vec![json!({})], Ok(Some(A))),
        (
            "of a container",
            json!({}),
            vec![level(LEVEL_A)],
            Ok(Some(A)),
        ),
        (
            "a container over its pod",
            level(LEVEL_B),
            vec![level(LEVEL_A)],
            Ok(Some(A)),
        ),
        (
            "equal ones",
            json!({}),
            vec![level(LEVEL_A), level(LEVEL_A)],
            Ok(Some(A)),
        ),
        (
            "one has none",
            json!({}),
            vec![level(LEVEL_A), json!({})],
            Ok(Some(A)),
        ),
        (
            "role and type are of processes",
            user,
            vec![],
            Ok(Some("staff_u:object_r:container_file_t:s0")),
        ),
        ("no label", level("s0\",ro,\""), vec![], Ok(None)),
        (
            "different ones",
            json!({}),
            vec![level(LEVEL_A), level(LEVEL_B)],
            conflict,
        ),
        (
            "a container unlike its pod",
            level(LEVEL_B),
            vec![level(LEVEL_A), json!({})],
            conflict,
        ),
        (
            "different ones, Recursive",
            recursive(LEVEL_B),
            vec![level(LEVEL_A), json!({})],
            Ok(None),
        ),
    ]
}

/// The same, with options whose level the container runtime selects.
fn contexts_without_level() -> Vec<(&'static str, Value, Vec<Value>, Expected)> {
    let without_level = json!({ "seLinuxOptions": { "type": "container_init_t" } });
    let no_level = Err("one whose level the container runtime selects");
    vec![
        (
            "one has options without a level",
            json!({}),
            vec![level(LEVEL_A), without_level.clone()],
            no_level,
        ),
        (
            "one has options without a level, beside the pod's",
            level(LEVEL_A),
            vec![without_level.clone(), json!({})],
            no_level,
        ),
        (
            "one has the pod's options without a level",
            without_level.clone(),
            vec![level(LEVEL_A), json!({})],
            no_level,
        ),
        (
            "one has empty options",
            level(LEVEL_A),
            vec![json!({ "seLinuxOptions": {} }), json!({})],
            no_level,
        ),
        (
            "all have options without a level",
            without_level,
            vec![json!({}), json!({})],
            Ok(None),
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn n_53c_the_label_is_that_of_the_containers_that_mount_the_volume() {
    let rows = contexts().into_iter().chain(contexts_without_level());
    for (row, of_pod, of_containers, expected) in rows {
        let stage = labelling().await;
        stage.claim("c", "RWO");
        stage.pod_with("p", &["c"], |pod| {
            pod["spec"]["securityContext"] = of_pod;
            let container = pod["spec"]["containers"][0].clone();
            let containers = of_containers.iter().map(|context| {
                let mut container = container.clone();
                container["securityContext"] = context.clone();
                container
            });
            let mut containers: Vec<_> = containers.collect();
            if containers.is_empty() {
                containers.push(container);
            }
            // A container without the mount.
            containers.push(json!({ "name": "other", "securityContext": level("s0:c9") }));
            pod["spec"]["containers"] = json!(containers);
        });
        match expected {
            Ok(label) => {
                stage.until_running("p").await;
                stage.must_have("p", "c", label, row);
            }
            Err(text) => {
                stage.until_event("p", "FailedMount", text).await;
                pass(100.0).await;
                assert!(stage.calls().is_empty(), "{row}: {:?}", stage.calls());
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn n_53c_different_labels_where_none_is_mounted_with() {
    let stage = labelling().await;
    stage.api.insert(csidriver(D));
    stage.claim("c", "RWO");
    stage.pod_with("p", &["c"], |pod| {
        let mut container = pod["spec"]["containers"][0].clone();
        container["securityContext"] = level(LEVEL_A);
        let mut other = container.clone();
        other["securityContext"] = level(LEVEL_B);
        pod["spec"]["containers"] = json!([container, other]);
    });
    stage.until_running("p").await;
    stage.must_have("p", "c", None, "without seLinuxMount");
}

#[tokio::test(start_paused = true)]
async fn n_53d_pods_with_one_label_share_the_volume() {
    for context in [level(LEVEL_A), recursive(LEVEL_A)] {
        let stage = labelling().await;
        stage.claim("c", "RWX");
        pod(&stage, "p", &["c"], &context);
        stage.until_running("p").await;
        pod(&stage, "q", &["c"], &context);
        stage.until_running("q").await;
        assert_eq!(
            stage.calls(),
            ["NodeStageVolume", "NodePublishVolume", "NodePublishVolume"]
        );
    }
}

const CONFLICT: &str = "conflicting SELinux labels of volume \"pv-c\"";

/// The second pod waits until the volume has left the node, and then gets its own label.
#[tokio::test(start_paused = true)]
async fn n_53e_a_pod_with_another_label_waits_for_the_volume() {
    let rows = [
        ("RWO", level(LEVEL_A), level(LEVEL_B), Some(B)),
        ("RWX", level(LEVEL_A), level(LEVEL_B), Some(B)),
        ("ROX", level(LEVEL_A), recursive(LEVEL_A), None),
        ("RWO", recursive(LEVEL_B), level(LEVEL_B), Some(B)),
        ("RWO", json!({}), level(LEVEL_B), Some(B)),
        ("RWOP", level(LEVEL_A), level(LEVEL_B), Some(B)),
    ];
    for (mode, first, second, label) in rows {
        let row = format!("{mode}: {first}, {second}");
        let stage = labelling().await;
        stage.claim("c", mode);
        pod(&stage, "p", &["c"], &first);
        stage.until_running("p").await;
        pod(&stage, "q", &["c"], &second);
        stage.until_event("q", "FailedMount", CONFLICT).await;
        // The first pod keeps the volume meanwhile.
        pass(100.0).await;
        assert_eq!(stage.calls().len(), 2, "{row}: {:?}", stage.calls());
        assert_eq!(stage.phase("q"), "Pending", "{row}");
        stage.driver.clear_calls();
        stage.delete_pod("p");
        stage.until_running("q").await;
        let expected = [
            "NodeUnpublishVolume",
            "NodeUnstageVolume",
            "NodeStageVolume",
            "NodePublishVolume",
        ];
        assert_eq!(stage.calls(), expected, "{row}");
        stage.must_have("q", "c", label, &row);
        stage.delete_pod("q");
        stage.until_gone("q").await;
        stage.until_clean().await;
    }
}

/// The first pod decides, even if it does not have the volume yet.
#[tokio::test(start_paused = true)]
async fn n_53e_the_first_pod_that_wants_it_sets_the_label() {
    let stage = labelling().await;
    stage.claimed("c");
    pod(&stage, "p", &["c"], &level(LEVEL_A));
    stage
        .until("the volume is in use", |stage| stage.in_use().len() == 1)
        .await;
    pod(&stage, "q", &["c"], &level(LEVEL_B));
    stage.until_event("q", "FailedMount", CONFLICT).await;
    stage.attach("c");
    stage.until_running("p").await;
    stage.must_have("p", "c", Some(A), "the first");
    assert_eq!(stage.phase("q"), "Pending");
}

#[tokio::test(start_paused = true)]
async fn n_53e_labels_of_different_volumes_do_not_meet() {
    let stage = labelling().await;
    for (name, claim, level_of, label) in [("p", "c", LEVEL_A, A), ("q", "d", LEVEL_B, B)] {
        stage.claim(claim, "RWO");
        pod(&stage, name, &[claim], &level(level_of));
        stage.until_running(name).await;
        stage.must_have(name, claim, Some(label), name);
    }
}

/// A staged volume without pods is unstaged before it is mounted with another label; the driver
/// refuses at first.
#[tokio::test(start_paused = true)]
async fn n_53f_a_staged_volume_is_unstaged_before_it_gets_another_label() {
    for restarts in [false, true] {
        let mut stage = labelling().await;
        stage.claim("c", "RWO");
        pod(&stage, "p", &["c"], &level(LEVEL_A));
        stage.until_running("p").await;
        let gate = Gate::new();
        let held = CallFault::on("NodeUnstageVolume").hold(&gate);
        let held = stage.driver.fault(held);
        stage.delete_pod("p");
        stage.until_called("NodeUnstageVolume", 1).await;
        stage.until_gone("p").await;
        if restarts {
            stage.stop();
        }
        held.remove();
        let fault = CallFault::on("NodeUnstageVolume").times(1);
        stage.driver.fault(fault.fail(Code::Internal, "busy"));
        stage.driver.clear_calls();
        pod(&stage, "q", &["c"], &level(LEVEL_B));
        if restarts {
            assert_eq!(on_disk(&stage.staging("c")).as_deref(), Some(A));
            stage.start().await;
        }
        gate.open();
        stage.until_event("q", "FailedMount", CONFLICT).await;
        stage.until_running("q").await;
        let mut calls = stage.calls();
        // The driver refuses at first.
        calls.dedup();
        let expected = ["NodeUnstageVolume", "NodeStageVolume", "NodePublishVolume"];
        assert_eq!(calls, expected, "restarts: {restarts}");
        stage.must_have("q", "c", Some(B), "the successor");
        stage.delete_pod("q");
        stage.until_gone("q").await;
        stage.until_clean().await;
    }
}

/// A kubelet, or an agent without `--selinux`, mounted the volume without a label.
#[tokio::test(start_paused = true)]
async fn n_53g_a_pod_keeps_what_it_has_when_the_agent_starts_again() {
    let unlabelled = "mounted without a label by an earlier process, \"system_u";
    let labelled = format!("{A:?} of pods that came before, none of this one");
    for (before, after, label, event) in [
        (false, true, None, Some(unlabelled)),
        (true, false, Some(A), Some(&*labelled)),
        (true, true, Some(A), None),
    ] {
        let mut stage = labelling().await;
        stage.stop();
        stage.se_linux = before;
        stage.start().await;
        stage.claim("c", "RWO");
        pod(&stage, "p", &["c"], &level(LEVEL_A));
        stage.until_running("p").await;
        stage.stop();
        stage.se_linux = after;
        stage.driver.clear_calls();
        stage.start().await;
        stage.until_called("NodePublishVolume", 1).await;
        pass(200.0).await;
        let row = format!("--selinux={before}, then {after}");
        assert_eq!(
            stage.calls(),
            ["NodeStageVolume", "NodePublishVolume"],
            "{row}"
        );
        stage.must_have("p", "c", label, &row);
        stage.driver.clear_calls();
        pod(&stage, "q", &["c"], &level(LEVEL_A));
        if let Some(event) = event {
            stage.until_event("q", "FailedMount", event).await;
            pass(100.0).await;
            assert_eq!(stage.phase("q"), "Pending", "{row}");
            assert!(stage.calls().is_empty(), "{row}: {:?}", stage.calls());
            stage.delete_pod("p");
        }
        stage.until_running("q").await;
        let expected = [
            "NodeUnpublishVolume",
            "NodeUnstageVolume",
            "NodeStageVolume",
        ];
        let expected =
            { expected.iter().filter(|_| event.is_some()) }.chain(&["NodePublishVolume"]);
        assert!(
            stage.calls().iter().eq(expected),
            "{row}: {:?}",
            stage.calls()
        );
        let published = flags(stage.publish_request().volume_capability);
        assert_eq!(published, context(after.then_some(A)), "{row}");
    }
}

/// If the pods themselves want no label, the event does not blame an earlier process.
#[tokio::test(start_paused = true)]
async fn n_53g_pods_that_want_no_label_are_the_reason() {
    let mut stage = labelling().await;
    stage.claim("c", "RWO");
    pod(&stage, "p", &["c"], &recursive(LEVEL_A));
    stage.until_running("p").await;
    stage.stop();
    stage.driver.clear_calls();
    stage.start().await;
    stage.until_called("NodePublishVolume", 1).await;
    pod(&stage, "q", &["c"], &level(LEVEL_A));
    let event = "none of pods that came before, \"system_u";
    stage.until_event("q", "FailedMount", event).await;
}

#[tokio::test(start_paused = true)]
async fn n_53h_drivers_that_do_not_stage() {
    let stage = labelling().await;
    stage
        .driver
        .configure(|model| model.node = Vec::<NodeRpc>::new());
    stage.claim("c", "RWX");
    pod(&stage, "p", &["c"], &level(LEVEL_A));
    stage.until_running("p").await;
    assert_eq!(
        flags(stage.publish_request().volume_capability),
        context(Some(A))
    );
    pod(&stage, "q", &["c"], &level(LEVEL_B));
    stage.until_event("q", "FailedMount", CONFLICT).await;
    stage.delete_pod("p");
    stage.until_running("q").await;
    assert_eq!(
        flags(stage.publish_request().volume_capability),
        context(Some(B))
    );
    assert_eq!(
        stage.calls(),
        [
            "NodePublishVolume",
            "NodeUnpublishVolume",
            "NodePublishVolume"
        ]
    );
}
