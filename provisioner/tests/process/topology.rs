//! Rows 151 to 176: the topologies of requests, and the consequences of changed nodes.

use csi_proto::csi::{CreateVolumeRequest, CreateVolumeResponse, Topology, Volume};
use serde_json::{Value, json};
use sidecar_testkit::CallFault;
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::driver::PluginService;
use tonic::Code;

use super::stage::{DRIVER, GI, PV, READY, Stage, claim, class, settle};

const SELECTED: &str = "volume.kubernetes.io/selected-node";

/// The fixture's cluster: n0 to n2 in zones 1 to 3 and racks A to C.
pub(super) async fn stage() -> Stage {
    let stage = Stage::new().await;
    let service = PluginService::VolumeAccessibilityConstraints;
    stage.driver.configure(|model| model.services.push(service));
    for (name, zone, rack) in [("n0", "1", "A"), ("n1", "2", "B"), ("n2", "3", "C")] {
        add_node(&stage, name, zone, rack);
    }
    stage
}

fn add_node(stage: &Stage, name: &str, zone: &str, rack: &str) {
    let node = build::node(name).label("zone", zone).label("rack", rack);
    stage.api.insert(node);
    let csinode = build::csinode(name).driver(DRIVER, name);
    stage.api.insert(csinode.topology(&["zone", "rack"]));
}

fn segments(topology: &Topology) -> String {
    let pairs = topology.segments.iter();
    let pairs: Vec<String> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join(" ")
}

/// Requisite and preferred topologies of a request.
fn topologies(request: &CreateVolumeRequest) -> (Vec<String>, Vec<String>) {
    let requirement = request.accessibility_requirements.as_ref().unwrap();
    let requisite = requirement.requisite.iter().map(segments);
    let preferred = requirement.preferred.iter().map(segments);
    (requisite.collect(), preferred.collect())
}

fn in_zone_3() -> CreateVolumeResponse {
    let topology = Topology {
        segments: [("zone".to_owned(), "3".to_owned())].into(),
    };
    CreateVolumeResponse {
        volume: Some(Volume {
            volume_id: "vol-1".into(),
            capacity_bytes: GI,
            accessible_topology: vec![topology],
            ..Volume::default()
        }),
    }
}

fn affinity_to_zone_3() -> Value {
    json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "zone", "operator": "In", "values": ["3"]}]}]}})
}

#[tokio::test]
async fn rows_151_156_and_177_every_place_the_best_one_first() {
    let stage = stage().await;
    let answer = CallFault::on("CreateVolume").times(1).answer(in_zone_3());
    stage.driver.fault(answer);
    let program = stage.start(&[]);
    program.logs(READY).await;
    stage.api.insert(claim().with("/metadata/name", "testpvc"));
    stage.until_volume(PV).await;
    let all = ["rack=A zone=1", "rack=B zone=2", "rack=C zone=3"];
    let (requisite, preferred) = topologies(&stage.creations()[0]);
    assert_eq!(requisite, all, "row 151");
    assert_eq!(preferred, [all[2], all[0], all[1]], "row 151");
    let volume = stage.volume(PV);
    assert_eq!(
        volume["spec"]["nodeAffinity"],
        affinity_to_zone_3(),
        "row 177"
    );

    let selected = claim().uid("u2").with("/metadata/name", "c2");
    stage.api.insert(selected.annotation(SELECTED, "n1"));
    stage.until_volume("pvc-u2").await;
    let (requisite, preferred) = topologies(&stage.creations()[1]);
    assert_eq!(requisite, all, "row 156");
    assert_eq!(preferred, [all[1], all[2], all[0]], "row 156");
}

#[tokio::test]
async fn row_154_nobody_asks_where() {
    let stage = stage().await;
    stage
        .driver
        .fault(CallFault::on("CreateVolume").answer(in_zone_3()));
    let program = stage.start(&["--immediate-topology=false"]);
    program.logs(READY).await;
    stage.api.insert(claim());
    stage.until_volume(PV).await;
    assert_eq!(stage.creations()[0].accessibility_requirements, None);
    let volume = stage.volume(PV);
    assert_eq!(volume["spec"]["nodeAffinity"], affinity_to_zone_3());
}

#[tokio::test]
async fn row_157_the_selected_node_s_place_alone() {
    let stage = stage().await;
    let program = stage.start(&["--strict-topology"]);
    program.logs(READY).await;
    stage.api.insert(claim().annotation(SELECTED, "n1"));
    stage.until_volume(PV).await;
    let (requisite, preferred) = topologies(&stage.creations()[0]);
    assert_eq!(requisite, ["rack=B zone=2"]);
    assert_eq!(preferred, requisite);
}

#[tokio::test]
async fn row_169_a_selected_node_without_csinode_is_unselected() {
    let stage = stage().await;
    stage.api.insert(class().waiting_for_consumer());
    stage.api.remove("csinodes", "n1");
    stage.api.remove("nodes", "n1");
    let program = stage.start(&[]);
    program.logs(READY).await;
    stage.api.insert(claim().annotation(SELECTED, "n1"));
    stage.until_events("ProvisioningFailed", 1).await;
    stage
        .until("no node", |stage| {
            stage.claim("ns1/c1")["metadata"]["annotations"][SELECTED].is_null()
        })
        .await;
    let event = &stage.events("ProvisioningFailed")[0];
    assert!(event.contains("CSINode \"n1\""), "{event}");
    assert_eq!(stage.calls("CreateVolume"), 0);
}

#[tokio::test]
async fn rows_170_and_172_what_a_node_lacks_may_come() {
    let stage = stage().await;
    stage.api.remove("nodes", "n1");
    let program = stage.start(&["--retry-interval-start=5m"]);
    program.logs(READY).await;
    stage.api.insert(claim().annotation(SELECTED, "n1"));
    stage.until_events("ProvisioningFailed", 1).await;
    settle().await;
    let claim = stage.claim("ns1/c1");
    assert_eq!(claim["metadata"]["annotations"][SELECTED], "n1", "row 170");
    assert_eq!(stage.calls("CreateVolume"), 0, "row 170");
    stage.api.insert(build::node("n1").label("zone", "2"));
    // At once, since the node has appeared.
    let looked = |stage: &Stage| {
        let events = stage.events("ProvisioningFailed");
        events.iter().any(|event| event.contains("rack"))
    };
    stage.until("row 172: the label is missing", looked).await;
    settle().await;
    assert_eq!(stage.calls("CreateVolume"), 0, "row 172");
    let node = build::node("n1").label("zone", "2").label("rack", "late");
    stage.api.insert(node);
    stage.until_volume(PV).await;
    let (_, preferred) = topologies(&stage.creations()[0]);
    assert_eq!(preferred[0], "rack=late zone=2", "row 172");
}

#[tokio::test]
async fn row_173_the_same_is_asked_again_after_the_node_has_gone() {
    let stage = stage().await;
    let late = CallFault::on("CreateVolume").times(1);
    stage
        .driver
        .fault(late.fail(Code::DeadlineExceeded, "late"));
    let program = stage.start(&["--retry-interval-start=2s"]);
    program.logs(READY).await;
    stage.api.insert(claim().annotation(SELECTED, "n1"));
    stage.until_calls("CreateVolume", 1).await;
    stage.api.remove("csinodes", "n1");
    stage.api.remove("nodes", "n1");
    stage.until_volume(PV).await;
    let requests = stage.creations();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0], requests[1]);
}

#[tokio::test]
async fn row_174_another_node_has_another_place() {
    let stage = stage().await;
    stage.api.insert(class().waiting_for_consumer());
    let full = CallFault::on("CreateVolume").times(1);
    stage
        .driver
        .fault(full.fail(Code::ResourceExhausted, "full"));
    let program = stage.start(&["--strict-topology"]);
    program.logs(READY).await;
    stage.api.insert(claim().annotation(SELECTED, "n1"));
    stage
        .until("no node", |stage| {
            stage.claim("ns1/c1")["metadata"]["annotations"][SELECTED].is_null()
                && stage.calls("CreateVolume") == 1
        })
        .await;
    stage
        .api
        .edit("persistentvolumeclaims", "ns1/c1", |object| {
            object["metadata"]["annotations"][SELECTED] = "n2".into();
        });
    stage.until_volume(PV).await;
    let (requisite, _) = topologies(stage.creations().last().unwrap());
    assert_eq!(requisite, ["rack=C zone=3"]);
}

#[tokio::test]
async fn row_176_without_the_gate_places_do_not_matter() {
    let stage = stage().await;
    stage
        .driver
        .fault(CallFault::on("CreateVolume").answer(in_zone_3()));
    let program = stage.start(&["--feature-gates=Topology=false"]);
    program.logs(READY).await;
    stage.api.insert(claim().annotation(SELECTED, "nowhere"));
    stage.until_volume(PV).await;
    assert_eq!(stage.creations()[0].accessibility_requirements, None);
    assert!(stage.volume(PV)["spec"]["nodeAffinity"].is_null());
    for kind in ["nodes", "csinodes"] {
        let path = format!("*/{kind}*");
        assert!(
            stage.api.requests_to("GET", &path).is_empty(),
            "row 29: {kind}"
        );
    }
}
