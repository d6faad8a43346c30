//! Rows 238 to 266 as far as they need the whole program: CSIStorageCapacity objects.

use csi_proto::csi::GetCapacityRequest;
use serde_json::{Value, json};
use sidecar_testkit::CallFault;
use sidecar_testkit::api::kind::Kind;
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::driver::{ControllerRpc, PluginService};
use sidecar_testkit::process::within;
use tonic::Code;

use super::stage::{
    DRIVER, PATIENCE, PV, READY, Running, Stage, claim, free_address, get, settle, together,
};

pub(crate) const KIND: &str = "csistoragecapacities";
const ENVIRONMENT: &[(&str, &str)] = &[("NAMESPACE", "ns"), ("POD_NAME", "pod")];

fn pod(owner: Option<&str>) -> Value {
    let owners: Vec<Value> = { owner.iter() }
        .map(|name| json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": "set-uid", "controller": true}))
        .collect();
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "pod", "namespace": "ns", "uid": "pod-uid", "ownerReferences": owners}})
}

/// Two zones, two nodes in the first one, and a class with `WaitForFirstConsumer` beside the fixture's.
pub(crate) async fn stage() -> Stage {
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
    stage
        .api
        .insert(build::class("sc1").of(DRIVER).parameter("of", "sc1"));
    stage.api.insert(pod(Some("set")));
    stage
}

pub(crate) fn start(stage: &Stage, arguments: &[&str]) -> Running {
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
            let (class, capacity) = (&object["storageClassName"], &object["capacity"]);
            format!("{} {} {}", text(class), text(zone), text(capacity))
        })
        .collect();
    all.sort();
    all
}

/// Rows 238 and 261: the labels of an object.
fn is_ours(object: &Value) {
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
}

#[tokio::test]
async fn rows_238_248_258_259_and_266_room_is_told_and_kept_up_to_date() {
    let stage = stage().await;
    // A CSINode without Node has no topology.
    let lonely = build::csinode("n9").driver(DRIVER, "n9");
    stage.api.insert(lonely.topology(&["zone"]));
    let address = free_address();
    let http = format!("--http-endpoint={address}");
    let program = start(
        &stage,
        &[
            &http,
            "--capacity-for-immediate-binding",
            "--kube-api-capacity-qps=50",
            "--kube-api-capacity-burst=50",
            "--capacity-poll-interval=1h",
        ],
    );
    program.logs(READY).await;
    let all = ["late 1 5Gi", "late 2 5Gi", "sc1 1 5Gi", "sc1 2 5Gi"];
    stage.until("objects", |stage| objects(stage) == all).await;
    is_ours(&stage.api.objects(KIND)[0]);
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
    // A success: all items of the volume's segment, in any class.
    let asked = stage.calls("GetCapacity");
    stage.driver.configure(|model| model.capacity = 4 << 30);
    stage.api.insert(claim());
    stage.until_volume(PV).await;
    let affinity = &stage.volume(PV)["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
    let zone = &affinity[0]["matchExpressions"][0]["values"][0];
    let capacity = |of: &str| if *zone == *of { "4Gi" } else { "5Gi" };
    let fewer = ["late 1", "late 2", "sc1 1", "sc1 2"];
    let fewer = fewer.map(|item| format!("{item} {}", capacity(&item[item.len() - 1..])));
    stage
        .until("less room", |stage| objects(stage) == fewer)
        .await;
    assert_eq!(stage.calls("GetCapacity"), asked + 2, "row 258");
    // 259: a failure before the driver was called shows nothing about capacity.
    let elsewhere = claim().uid("u2").with("/metadata/name", "c2");
    let elsewhere = elsewhere.annotation("volume.kubernetes.io/selected-node", "n9");
    stage.api.insert(elsewhere);
    stage.until_events("ProvisioningFailed", 1).await;
    settle().await;
    assert_eq!(stage.calls("GetCapacity"), asked + 2, "row 259");
    labels_change(&stage, capacity("1")).await;
}

/// Row 266; `old` is the capacity in the zone that stays.
async fn labels_change(stage: &Stage, old: &str) {
    stage.api.edit("nodes", "n2", |node| {
        node["metadata"]["labels"]["zone"] = "3".into()
    });
    let moved = [
        format!("late 1 {old}"),
        "late 3 4Gi".to_owned(),
        format!("sc1 1 {old}"),
        "sc1 3 4Gi".to_owned(),
    ];
    stage
        .until("another segment", |stage| objects(stage) == moved)
        .await;
    stage.api.insert(build::csinode("n2"));
    let left = [format!("late 1 {old}"), format!("sc1 1 {old}")];
    stage
        .until("no driver, no segment", |stage| objects(stage) == left)
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
async fn row_261_the_owner_is_so_many_levels_above_the_pod() {
    let rows = [("0", "pod-uid"), ("1", "set-uid"), ("2", "deployment-uid")];
    together(rows, owned).await;
}

/// A pod of a ReplicaSet of a Deployment.
async fn owned((level, uid): (&str, &str)) {
    let stage = stage().await;
    let set = Kind::new("apps", "v1", "replicasets", "ReplicaSet");
    stage.api.serve_kind(set.namespaced());
    let owner = |kind: &str, name: &str| {
        let uid = format!("{name}-uid");
        json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": true}])
    };
    stage.api.edit("pods", "ns/pod", |pod| {
        pod["metadata"]["ownerReferences"] = owner("ReplicaSet", "set");
    });
    stage.api.insert(
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {
            "name": "set", "namespace": "ns", "uid": "set-uid",
            "ownerReferences": owner("Deployment", "deployment"),
        }}),
    );
    let level_flag = format!("--capacity-ownerref-level={level}");
    let _program = start(&stage, &[&level_flag]);
    let made = |stage: &Stage| !stage.api.objects(KIND).is_empty();
    stage.until("objects", made).await;
    let object = &stage.api.objects(KIND)[0];
    let owners = &object["metadata"]["ownerReferences"];
    assert_eq!(owners[0]["uid"], uid, "level {level}");
    let read = stage.api.requests_to("GET", "*/replicasets/set").len();
    assert_eq!(read, usize::from(level == "2"), "level {level}");
}

#[tokio::test]
async fn rows_241_and_245_fewer_objects_without_owner() {
    let stage = stage().await;
    stage.api.remove("pods", "ns/pod");
    let owned = stage.api.insert(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity", "capacity": "5Gi",
        "metadata": {"namespace": "ns", "name": "owned",
            "labels": {"csi.storage.k8s.io/drivername": DRIVER,
                "csi.storage.k8s.io/managed-by": "external-provisioner"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]},
        "storageClassName": "late", "nodeTopology": {"matchLabels": {"zone": "1"}},
    }));
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
    stage.until_calls("GetCapacity", 2).await;
    settle().await;
    let (kept, made): (Vec<_>, Vec<_>) = { stage.api.objects(KIND).into_iter() }
        .partition(|object| object["metadata"]["name"] == "owned");
    assert_eq!(kept, [owned], "row 245");
    let [made] = &made[..] else {
        panic!("row 241: {made:?}")
    };
    assert!(made["metadata"]["ownerReferences"].is_null());
    let written = |request: &&sidecar_testkit::api::record::Request| request.path.contains(KIND);
    let writes = stage.api.writes();
    assert_eq!(writes.iter().filter(written).count(), 1, "row 245");
}

#[tokio::test]
async fn rows_247_and_259_what_is_not_ours_and_a_call_that_failed() {
    let stage = stage().await;
    let foreign = |name: &str, managed_by: Option<&str>| {
        let mut object = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity", "capacity": "1Gi",
            "metadata": {"namespace": "ns", "name": name,
                "labels": {"csi.storage.k8s.io/drivername": DRIVER}},
            "storageClassName": "late", "nodeTopology": {"matchLabels": {"zone": "1"}},
        });
        if let Some(other) = managed_by {
            object["metadata"]["labels"]["csi.storage.k8s.io/managed-by"] = other.into();
        }
        stage.api.insert(object)
    };
    let foreign = [foreign("other", Some("other")), foreign("none", None)];
    let seldom = "--capacity-poll-interval=1h";
    let program = start(&stage, &["--capacity-for-immediate-binding", seldom]);
    program.logs(READY).await;
    stage
        .until("objects", |stage| objects(stage).len() == 6)
        .await;
    settle().await;
    for before in &foreign {
        let name = before["metadata"]["name"].as_str().unwrap();
        let after = stage.api.object(KIND, &format!("ns/{name}")).unwrap();
        assert_eq!(after, *before, "row 247");
    }
    let asked = stage.calls("GetCapacity");
    let failed = CallFault::on("CreateVolume").fail(Code::Internal, "no");
    stage.driver.fault(failed.times(1));
    stage.api.insert(claim());
    stage.until_events("ProvisioningFailed", 1).await;
    stage.until_calls("GetCapacity", asked + 2).await;
    let calls = stage.driver.calls_to("GetCapacity");
    let classes: Vec<String> = { calls.iter().skip(asked).take(2) }
        .map(|call| {
            let request: &GetCapacityRequest = call.request().unwrap();
            format!("{:?}", request.parameters)
        })
        .collect();
    assert_eq!(classes, [r#"{"of": "sc1"}"#; 2], "row 259");
}
