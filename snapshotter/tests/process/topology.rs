//! S-113 to S-118: the gate `VolumeSnapshotTopology`.

use csi_proto::csi::{CreateSnapshotResponse, Topology, TopologyRequirement};
use serde_json::json;
use sidecar::snapshot::{ACCESSIBLE_TOPOLOGY, ALLOWED_TOPOLOGIES};
use sidecar_testkit::CallFault;
use sidecar_testkit::driver::PluginService;
use tonic::Code;

use super::stage::{CREATE, MARK, NAME, QUICK, Stage, content, settle, taken};

const GATE: &str = "--feature-gates=VolumeSnapshotTopology=true";

fn zone(name: &str) -> Topology {
    Topology {
        segments: [("zone".to_owned(), name.to_owned())].into(),
    }
}

/// Inserts a content with this wished topology.
fn wishing(stage: &Stage, wish: &str) {
    let mut content = content("u1");
    content["metadata"]["annotations"] = json!({ ALLOWED_TOPOLOGIES: wish });
    stage.api.insert(content);
}

fn knows(stage: &Stage) {
    stage.driver.configure(|model| {
        let service = PluginService::SnapshotAccessibilityConstraints;
        model.services.push(service);
    });
}

const WISH: &str = r#"[{"matchLabelExpressions":[{"key":"zone","values":["b","a"]}]}]"#;

#[tokio::test]
async fn s_113_s_114_s_116_what_is_asked_and_what_is_written() {
    for gate in [true, false] {
        let stage = Stage::new().await;
        knows(&stage);
        let answer = |ready| {
            let mut snapshot = taken(ready);
            snapshot.accessible_topology = vec![zone("a")];
            let snapshot = Some(snapshot);
            CreateSnapshotResponse { snapshot }
        };
        let answers = CallFault::on(CREATE);
        stage.driver.fault(answers.times(1).answer(answer(false)));
        let answers = CallFault::on(CREATE).skip(1);
        stage.driver.fault(answers.answer(answer(true)));
        wishing(&stage, WISH);
        let arguments: &[&str] = if gate { &[GATE, QUICK] } else { &[QUICK] };
        let _program = stage.started(arguments).await;
        stage.until_ready(NAME).await;
        let asked = stage.asked();
        assert_eq!(asked.len(), 2);
        let wanted = gate.then(|| TopologyRequirement {
            requisite: vec![zone("a"), zone("b")],
            preferred: vec![zone("a"), zone("b")],
        });
        for asked in &asked {
            assert_eq!(asked.accessibility_requirements, wanted, "S-113, S-114");
        }
        assert_eq!(asked[0], asked[1], "S-114");
        let written = &stage.content()["metadata"]["annotations"][ACCESSIBLE_TOPOLOGY];
        let trace = stage.trace();
        if gate {
            assert_eq!(*written, r#"[{"zone":"a"}]"#, "S-116");
            let there = r#"topology [{"zone":"a"}]"#;
            assert_eq!(trace[..3], ["bc+", "Create snapshot-u1", there], "S-116");
            assert!(trace[3].starts_with("st "), "S-116: {trace:?}");
            assert_eq!(trace[4], "bc-", "S-116");
        } else {
            assert!(written.is_null(), "S-113");
        }
    }
}

#[tokio::test]
async fn s_115_a_driver_that_knows_no_topology() {
    let stage = Stage::new().await;
    wishing(&stage, WISH);
    let _program = stage.started(&[GATE]).await;
    stage.until_ready(NAME).await;
    stage.until_events("SnapshotTopologyIgnored", 1).await;
    assert_eq!(stage.asked()[0].accessibility_requirements, None, "S-115");
}

#[tokio::test]
async fn s_117_a_wish_that_nobody_understands() {
    let stage = Stage::new().await;
    knows(&stage);
    wishing(&stage, "zone a");
    let _program = stage.started(&[GATE]).await;
    stage.until_events("SnapshotCreationFailed", 1).await;
    settle().await;
    assert_eq!(stage.calls(CREATE), 0, "S-117");
    let content = stage.content();
    assert!(content["metadata"]["annotations"][MARK].is_null(), "S-117");
    let message = content["status"]["error"]["message"].as_str().unwrap();
    assert!(message.contains(ALLOWED_TOPOLOGIES), "S-117: {message}");
}

/// The first attempt may still be running.
#[tokio::test]
async fn s_118_a_topology_that_is_full_leaves_the_snapshot_in_doubt() {
    let stage = Stage::new().await;
    knows(&stage);
    let full = CallFault::on(CREATE).times(1);
    stage
        .driver
        .fault(full.fail(Code::ResourceExhausted, "zone a is full"));
    wishing(&stage, WISH);
    let _program = stage.started(&[GATE]).await;
    stage.until_events("SnapshotCreationFailed", 1).await;
    let content = stage.content();
    assert!(!content["metadata"]["annotations"][MARK].is_null(), "S-118");
    let text = "zone a is full";
    let message = content["status"]["error"]["message"].as_str().unwrap();
    assert!(message.contains(text), "S-118: {message}");
    let event = &stage.events("SnapshotCreationFailed")[0];
    let message = event["message"].as_str().unwrap();
    assert!(message.contains("ResourceExhausted"), "S-118: {message}");
    stage.until_ready(NAME).await;
    let asked = stage.asked();
    assert_eq!(asked.len(), 2, "S-118");
    assert_eq!(asked[0], asked[1], "S-118");
    assert!(asked[0].accessibility_requirements.is_some(), "S-118");
    let trace = stage.trace();
    assert_eq!(trace[..2], ["bc+", "Create snapshot-u1"], "S-118");
    assert!(trace[2].starts_with("st {\"error\""), "S-118: {trace:?}");
    assert_eq!(trace[3], "Create snapshot-u1", "S-118: {trace:?}");
    assert!(content["status"]["snapshotHandle"].is_null(), "S-118");
    let status = stage.content()["status"].clone();
    assert!(status["error"].is_null(), "S-118: {status}");
}
