//! Rows 238 to 266 as far as they take the whole program: what is told about room.

use serde_json::{Value, json};
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::driver::{ControllerRpc, PluginService};
use sidecar_testkit::process::within;

use super::stage::{DRIVER, PATIENCE, PV, Program, READY, Stage, claim, free_address, get, settle};

const KIND: &str = "csistoragecapacities";
const ENVIRONMENT: &[(&str, &str)] = &[("NAMESPACE", "ns"), ("POD_NAME", "pod")];

fn pod(owner: Option<&str>) -> Value {
    let owners: Vec<Value> = { owner.iter() }
        .map(|name| json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": "set-uid", "controller": true}))
        .collect();
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "pod", "namespace": "ns", "uid": "pod-uid", "ownerReferences": owners}})
}

/// Two zones, two nodes in the first one, and a class that waits for a consumer beside the
/// fixture's.
async fn stage() -> Stage {
    let stage = Stage::new().await;
    let service = PluginService::VolumeAccessibilityConstraints;
    stage.driver.configure(|model| {
        model.services.push(service);
        model.capacity = 5 << 30;
    });
    stage.can(ControllerRpc::GetCapacity);
    for (name, zone) in [("n0", "1"), ("n1", "1"), ("n2", "2")] {
        stage.api.insert(build::node(name).label("zone", zone));
        let csinode = build::csinode(name).driver(DRIVER, name);
        stage.api.insert(csinode.topology(&["zone"]));
    }
    stage
        .api
        .insert(build::class("late").of(DRIVER).waiting_for_consumer());
    stage.api.insert(pod(Some("set")));
    stage
}

fn start(stage: &Stage, arguments: &[&str]) -> Program {
    let mut all = vec!["--enable-capacity"];
    all.extend(arguments);
    stage.start_in(&all, ENVIRONMENT)
}

/// Class, zone and capacity of each object.
fn objects(stage: &Stage) -> Vec<String> {
    let objects = stage.api.objects(KIND);
    let mut all: Vec<String> = { objects.iter() }
        .map(|object| {
            let zone = &object["nodeTopology"]["matchLabels"]["zone"];
            let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
            let (class, room) = (&object["storageClassName"], &object["capacity"]);
            format!("{} {} {}", text(class), text(zone), text(room))
        })
        .collect();
    all.sort();
    all
}

#[tokio::test]
async fn rows_238_248_258_259_and_266_room_is_told_and_kept_up_to_date() {
    let stage = stage().await;
    let address = free_address();
    let http = format!("--http-endpoint={address}");
    let program = start(
        &stage,
        &[
            &http,
            "--capacity-for-immediate-binding",
            "--kube-api-capacity-qps=50",
            "--kube-api-capacity-burst=50",
        ],
    );
    program.logs(READY).await;
    let all = ["late 1 5Gi", "late 2 5Gi", "sc1 1 5Gi", "sc1 2 5Gi"];
    stage.until("objects", |stage| objects(stage) == all).await;
    let object = &stage.api.objects(KIND)[0];
    let labels = &object["metadata"]["labels"];
    assert_eq!(labels["csi.storage.k8s.io/drivername"], DRIVER);
    assert_eq!(
        labels["csi.storage.k8s.io/managed-by"],
        "external-provisioner"
    );
    assert_eq!(object["metadata"]["namespace"], "ns");
    assert_eq!(
        object["metadata"]["ownerReferences"][0]["uid"], "set-uid",
        "row 261"
    );
    within(PATIENCE, "row 248", async || {
        let (_, text) = get(&address, "/metrics").await;
        let lines = [
            "csistoragecapacities_desired_goal 4",
            "csistoragecapacities_desired_current 4",
            "csistoragecapacities_obsolete 0",
        ];
        lines.iter().all(|line| text.contains(line))
    })
    .await;
    // A success: all items of the place where the volume is, whatever their class.
    let asked = stage.calls("GetCapacity");
    stage.driver.configure(|model| model.capacity = 4 << 30);
    stage.api.insert(claim());
    stage.until_volume(PV).await;
    let affinity = &stage.volume(PV)["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
    let zone = &affinity[0]["matchExpressions"][0]["values"][0];
    let room = |of: &str| if *zone == *of { "4Gi" } else { "5Gi" };
    let fewer = ["late 1", "late 2", "sc1 1", "sc1 2"];
    let fewer = fewer.map(|item| format!("{item} {}", room(&item[item.len() - 1..])));
    stage
        .until("less room", |stage| objects(stage) == fewer)
        .await;
    assert_eq!(stage.calls("GetCapacity"), asked + 2, "row 258");
    // 259: a failure before the driver was asked says nothing about room.
    let elsewhere = claim().uid("u2").with("/metadata/name", "c2");
    let elsewhere = elsewhere.annotation("volume.kubernetes.io/selected-node", "n9");
    let lonely = build::csinode("n9").driver(DRIVER, "n9");
    stage.api.insert(lonely.topology(&["zone"]));
    stage.api.insert(elsewhere);
    stage.until_events("ProvisioningFailed", 1).await;
    settle().await;
    assert_eq!(stage.calls("GetCapacity"), asked + 2, "row 259");
    // 266
    stage.api.edit("nodes", "n2", |node| {
        node["metadata"]["labels"]["zone"] = "3".into()
    });
    let (new, old) = ("4Gi", room("1"));
    let moved = [
        format!("late 1 {old}"),
        format!("late 3 {new}"),
        format!("sc1 1 {old}"),
        format!("sc1 3 {new}"),
    ];
    stage
        .until("another segment", |stage| objects(stage) == moved)
        .await;
}

#[tokio::test]
async fn row_262_no_controller_above_the_pod() {
    let stage = stage().await;
    stage.api.insert(pod(None));
    let ended = start(&stage, &[]).end().await;
    assert_eq!(ended.code, Some(255), "{}", ended.log);
    assert!(
        ended.log.contains("--capacity-ownerref-level=1"),
        "{}",
        ended.log
    );
    let stage = self::stage().await;
    let ended = start(&stage, &["--capacity-ownerref-level=2"]).end().await;
    assert_eq!(ended.code, Some(255), "{}", ended.log);
    assert!(ended.log.contains("StatefulSet ns/set"), "{}", ended.log);
}

#[tokio::test]
async fn rows_241_and_245_fewer_objects_without_owner() {
    let stage = stage().await;
    stage.api.remove("pods", "ns/pod");
    let program = stage.start_in(
        &["--enable-capacity", "--capacity-ownerref-level=-1"],
        &[("NAMESPACE", "ns")],
    );
    program.logs(READY).await;
    stage
        .until("objects", |stage| {
            objects(stage) == ["late 1 5Gi", "late 2 5Gi"]
        })
        .await;
    let object = &stage.api.objects(KIND)[0];
    assert!(object["metadata"]["ownerReferences"].is_null());
}
