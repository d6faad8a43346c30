//! Node and CSINode as an API server sees them: K-45 to K-52 and K-55 to K-66.

use std::collections::BTreeMap;
use std::time::Duration;

use registrar::kubelet::work::plugin::PluginHandler;
use serde_json::{Value, json};
use sidecar_testkit::build::{Object, csinode};
use sidecar_testkit::{CallFault, Fault};

use crate::stage::{CSINODE, CSINODES, D, ID, N, NODE, NODE_STATUS, Stage, pass};

const ANNOTATION: &str = "csi.volume.kubernetes.io/nodeid";
const MIGRATED: &str = "storage.alpha.kubernetes.io/migrated-plugins";

/// A stage whose Node was changed before the start.
async fn started_with(change: impl FnOnce(&mut Value)) -> Stage {
    let mut stage = Stage::set();
    stage.api.edit("nodes", N, change);
    stage.start();
    stage
        .until("the CSINode is initialized", Stage::is_initialized)
        .await;
    stage.api.clear_requests();
    stage
}

fn topology(stage: &Stage, segments: &[(&str, &str)]) {
    let segments: BTreeMap<String, String> = segments
        .iter()
        .map(|&(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    stage
        .driver
        .configure(|model| model.topology = Some(segments));
}

#[tokio::test(start_paused = true)]
async fn k_45_the_first_driver_on_a_node() {
    let stage = Stage::started().await;
    stage
        .driver
        .configure(|model| model.node_id = "n1".to_owned());
    stage.registered().await;
    assert_eq!(stage.annotation().unwrap(), r#"{"d.example.com":"n1"}"#);
}

#[tokio::test(start_paused = true)]
async fn k_46_other_drivers_stay_in_the_annotation() {
    let stage = started_with(|node| {
        node["metadata"]["annotations"][ANNOTATION] =
            json!(r#"{"z.example.com":"2","a.example.com":"1"}"#);
    });
    let stage = stage.await;
    stage.registered().await;
    let expected = r#"{"a.example.com":"1","d.example.com":"id-1","z.example.com":"2"}"#;
    assert_eq!(stage.annotation().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn k_47_nothing_is_written_when_everything_is_there() {
    let mut stage = Stage::started().await;
    stage.registered().await;
    stage.stop();
    std::fs::remove_file(stage.socket("d-reg.sock")).unwrap();
    stage.start();
    pass(1.0).await;
    stage.api.clear_requests();
    stage.registered().await;
    assert!(stage.writes().is_empty(), "{:?}", stage.writes());
    assert_eq!(stage.api.requests_to("GET", NODE).len(), 1);
    assert_eq!(stage.api.requests_to("GET", CSINODE).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn k_48_a_strange_annotation_is_left_alone() {
    let stage = started_with(|node| {
        node["metadata"]["annotations"][ANNOTATION] = json!("not json");
    });
    let stage = stage.await;
    let refusal = stage.registrar().refused().await;
    assert!(
        refusal.contains("failed to parse node annotation"),
        "{refusal}"
    );
    assert_eq!(stage.annotation().unwrap(), "not json");
    assert!(stage.writes().is_empty(), "{:?}", stage.writes());
}

#[tokio::test(start_paused = true)]
async fn k_49_topology_becomes_labels_by_a_patch_of_the_status() {
    let stage = Stage::started().await;
    topology(&stage, &[("zone", "a")]);
    stage.registered().await;
    assert_eq!(stage.label("zone").as_deref(), Some("a"));
    let patches = stage.api.requests_to("PATCH", "*");
    assert_eq!(patches.len(), 1);
    assert_eq!(patches[0].path, "/api/v1/nodes/n1/status");
    assert_eq!(
        patches[0].content_type,
        "application/strategic-merge-patch+json"
    );
    let ids = r#"{"d.example.com":"id-1"}"#;
    let expected = json!({
        "metadata": { "annotations": { ANNOTATION: ids }, "labels": { "zone": "a" } },
    });
    assert_eq!(patches[0].body, expected, "the difference and nothing else");
}

#[tokio::test(start_paused = true)]
async fn k_50_a_label_with_another_value_is_a_collision() {
    let stage = started_with(|node| node["metadata"]["labels"]["zone"] = json!("b"));
    let stage = stage.await;
    topology(&stage, &[("zone", "a")]);
    let registrar = stage.registrar();
    let refusal = registrar.refused().await;
    assert!(refusal.contains("topology value collision"), "{refusal}");
    assert!(stage.writes().is_empty(), "{:?}", stage.writes());
    let notified = registrar.calls()[1].0;
    let reads: Vec<_> = stage
        .api
        .requests_to("GET", NODE)
        .into_iter()
        .map(|request| request.at)
        .collect();
    assert_eq!(reads.len(), 4 + 1, "four attempts and the rollback");
    assert_eq!(reads[3] - reads[0], Duration::from_millis(10 + 50 + 250));
    assert!(notified - reads[0] < Duration::from_millis(400));
    assert_eq!(stage.label("zone").as_deref(), Some("b"));
}

#[tokio::test(start_paused = true)]
async fn k_51_a_patch_is_sent_although_the_labels_are_there() {
    let stage = started_with(|node| {
        node["metadata"]["labels"]["zone"] = json!("a");
        node["metadata"]["annotations"][ANNOTATION] = json!(r#"{"d.example.com":"id-1"}"#);
    });
    let stage = stage.await;
    topology(&stage, &[("zone", "a")]);
    stage.registered().await;
    let patches = stage.api.requests_to("PATCH", NODE_STATUS);
    assert_eq!(patches.len(), 1);
    assert_eq!(patches[0].body, json!({}));
}

#[tokio::test(start_paused = true)]
async fn k_52_a_missing_csinode_is_created_for_the_node() {
    let stage = Stage::started().await;
    stage.api.delete("csinodes", N);
    stage.api.clear_requests();
    stage.registered().await;
    let writes = stage.api.writes();
    let lines: Vec<String> = writes
        .iter()
        .map(|w| format!("{} {}", w.method, w.path))
        .collect();
    let patch = format!("PATCH {NODE_STATUS}");
    assert_eq!(
        lines,
        [patch, format!("POST {CSINODES}"), format!("PUT {CSINODE}")]
    );
    let created = &writes[1].body;
    assert_eq!(
        created["metadata"]["ownerReferences"],
        json!([{ "apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-of-n1" }])
    );
    let migrated = created["metadata"]["annotations"][MIGRATED]
        .as_str()
        .unwrap();
    assert_eq!(migrated.split(',').count(), 7);
    assert_eq!(created["spec"]["drivers"], json!([]));
    let entry = json!({ "name": D, "nodeID": ID, "topologyKeys": null });
    assert_eq!(stage.entry(D), Some(entry));
}

#[tokio::test(start_paused = true)]
async fn k_55_every_limit_can_be_registered() {
    let largest = i64::from(i32::MAX);
    for (reported, written) in [
        (10, json!(10)),
        (0, Value::Null),
        (largest, json!(largest)),
        (largest + 1, json!(largest)),
        (-1, Value::Null),
    ] {
        let stage = Stage::started().await;
        stage.driver.configure(|model| model.max_volumes = reported);
        stage.registered().await;
        assert_eq!(
            stage.entry(D).unwrap()["allocatable"]["count"],
            written,
            "{reported}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn k_59_a_conflict_is_resolved_by_reading_again() {
    let stage = Stage::started().await;
    stage.api.clear_requests();
    stage
        .api
        .fault(Fault::on("PUT", CSINODE).answer(409).times(1));
    stage.registered().await;
    assert_eq!(stage.api.requests_to("PUT", CSINODE).len(), 2);
    assert_eq!(stage.api.requests_to("GET", CSINODE).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn k_60_after_four_conflicts_the_registration_is_rolled_back() {
    let stage = Stage::started().await;
    topology(&stage, &[("zone", "a")]);
    stage
        .api
        .fault(Fault::on("PUT", CSINODE).answer(409).times(4));
    let registrar = stage.registrar();
    let refusal = registrar.refused().await;
    assert!(refusal.contains("error updating CSINode n1"), "{refusal}");
    assert_eq!(stage.annotation(), None, "removed");
    assert_eq!(stage.label("zone").as_deref(), Some("a"), "kept");
    registrar.confirmed().await;
}

#[tokio::test(start_paused = true)]
async fn k_61_a_changed_node_id_needs_two_registrations() {
    let mut stage = Stage::started().await;
    stage.registered().await;
    stage.stop();
    std::fs::remove_file(stage.socket("d-reg.sock")).unwrap();
    stage
        .driver
        .configure(|model| model.node_id = "id-2".to_owned());
    stage.start();
    let registrar = stage.registrar();
    let refusal = registrar.refused().await;
    assert!(refusal.contains("field is immutable"), "{refusal}");
    assert!(stage.entry(D).is_none(), "removed by the rollback");
    registrar.confirmed().await;
    assert_eq!(stage.entry(D).unwrap()["nodeID"], "id-2");
    assert_eq!(stage.annotation().unwrap(), r#"{"d.example.com":"id-2"}"#);
}

#[tokio::test(start_paused = true)]
async fn k_62_a_csinode_of_an_earlier_node_is_replaced() {
    let stage = Stage::started().await;
    let old = csinode(N).driver("old.example.com", "id-0");
    let owner = json!([{ "apiVersion": "v1", "kind": "Node", "name": N, "uid": "uid-0" }]);
    stage
        .api
        .insert(old.with("/metadata/ownerReferences", owner));
    stage.api.clear_requests();
    stage.registered().await;
    let expected = [
        format!("PATCH {NODE_STATUS}"),
        format!("DELETE {CSINODE}"),
        format!("POST {CSINODES}"),
        format!("PUT {CSINODE}"),
    ];
    assert_eq!(stage.writes(), expected);
    assert_eq!(
        stage.csinode_drivers().unwrap(),
        [D],
        "the old one's driver is gone"
    );
}

#[tokio::test(start_paused = true)]
async fn k_63_without_a_csinode_the_annotation_is_removed_all_the_same() {
    let stage = Stage::started().await;
    let registrar = stage.registered().await;
    stage.api.delete("csinodes", N);
    stage.api.clear_requests();
    registrar.remove();
    stage
        .until("the annotation is removed", |stage| {
            stage.annotation().is_none()
        })
        .await;
    assert_eq!(stage.writes(), [format!("PATCH {NODE_STATUS}")]);
    assert_eq!(stage.csinode_drivers(), None);
}

#[tokio::test(start_paused = true)]
async fn k_64_the_last_driver_leaves_an_empty_csinode_and_its_labels() {
    let stage = Stage::started().await;
    topology(&stage, &[("zone", "a")]);
    stage.registered().await.remove();
    stage
        .until("the annotation is removed", |stage| {
            stage.annotation().is_none()
        })
        .await;
    assert_eq!(stage.csinode_drivers().unwrap(), [""; 0]);
    assert_eq!(stage.label("zone").as_deref(), Some("a"));
    let node = stage.api.object("nodes", N).unwrap();
    assert!(node["metadata"]["annotations"].get(ANNOTATION).is_none());
}

#[tokio::test(start_paused = true)]
async fn k_65_removing_an_unknown_driver_writes_nothing() {
    let stage = Stage::started().await;
    stage.registered().await;
    stage.api.clear_requests();
    stage
        .plugin()
        .deregister("unknown.example.com", "/nowhere")
        .await;
    assert!(stage.writes().is_empty(), "{:?}", stage.writes());
    assert!(stage.entry(D).is_some());
}

#[tokio::test(start_paused = true)]
async fn k_66_a_removal_that_fails_is_not_tried_again() {
    let stage = Stage::started().await;
    let registrar = stage.registered().await;
    stage.api.clear_requests();
    let fault = stage.api.fault(Fault::on("PUT", CSINODE).answer(500));
    registrar.remove();
    pass(300.0).await;
    assert_eq!(stage.writes(), [(); 4].map(|()| format!("PUT {CSINODE}")));
    assert!(stage.annotation().is_some(), "untouched");
    fault.remove();
    pass(300.0).await;
    assert_eq!(stage.api.writes().len(), 4, "no later attempt");
    assert!(stage.actual().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_the_object_is_not_written_back() {
    let stage = Stage::started().await;
    stage.api.clear_requests();
    let other = json!({ "kind": "CSINode", "metadata": { "name": "n2" } }).to_string();
    stage
        .api
        .fault(Fault::on("GET", CSINODE).answer_raw(200, &other));
    let refusal = stage.registrar().refused().await;
    assert!(refusal.contains("not the object"), "{refusal}");
    assert!(stage.api.requests_to("PUT", "*").is_empty());
    assert!(stage.api.requests_to("DELETE", "*").is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_hangs_is_given_up_after_a_while() {
    let stage = Stage::started().await;
    stage.api.fault(Fault::on("GET", NODE).hang().times(4));
    let registrar = stage.registrar();
    let refusal = registrar.refused().await;
    assert!(refusal.contains("no answer within 30 s"), "{refusal}");
    registrar.confirmed().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_created_again_is_recognised() {
    let stage = Stage::started().await;
    let registrar = stage.registered().await;
    stage.api.edit("nodes", N, |node| {
        node["metadata"] = json!({ "name": N, "uid": "uid-2" });
    });
    stage.api.delete("csinodes", N);
    registrar.reborn().confirmed().await;
    let csinode = stage.api.object("csinodes", N).unwrap();
    assert_eq!(csinode["metadata"]["ownerReferences"][0]["uid"], "uid-2");
}

#[tokio::test(start_paused = true)]
async fn a_node_id_of_megabytes_does_not_come_back_in_the_refusal() {
    let stage = Stage::started().await;
    let huge = csi_proto::csi::NodeGetInfoResponse {
        node_id: "x".repeat(3 << 20),
        max_volumes_per_node: 0,
        accessible_topology: None,
    };
    stage
        .driver
        .fault(CallFault::on("NodeGetInfo").answer(huge).times(1));
    let registrar = stage.registrar();
    let refusal = registrar.refused().await;
    assert!(refusal.len() < 16 * 1024, "{} bytes", refusal.len());
    registrar.confirmed().await;
}
