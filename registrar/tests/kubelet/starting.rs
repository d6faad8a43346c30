//! The CSINode before any driver: K-67 to K-71.

use std::time::Duration;

use registrar::kubelet::run::RunError;
use serde_json::json;
use sidecar_testkit::build::{Object, csinode};
use sidecar_testkit::{Fault, Gate};
use tokio::time::Instant;

use crate::stage::{CSINODE, CSINODES, N, Stage, about, pass};

const MIGRATED: &str = "storage.alpha.kubernetes.io/migrated-plugins";
const PLUGINS: &str = "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,\
                       kubernetes.io/cinder,kubernetes.io/gce-pd,kubernetes.io/portworx-volume,\
                       kubernetes.io/vsphere-volume";

#[tokio::test(start_paused = true)]
async fn k_67_a_missing_csinode_is_created_before_the_node_is_ready() {
    let mut stage = Stage::set();
    let gate = Gate::new();
    stage.api.fault(Fault::on("POST", CSINODES).hold(&gate));
    stage.start();
    stage
        .until("the CSINode is being created", |_| gate.waiting() > 0)
        .await;
    pass(5.0).await;
    assert!(!stage.is_initialized());
    gate.open();
    stage
        .until("the CSINode is initialized", Stage::is_initialized)
        .await;
    let csinode = stage.api.object("csinodes", N).unwrap();
    assert_eq!(csinode["metadata"]["annotations"][MIGRATED], PLUGINS);
    assert_eq!(
        csinode["metadata"]["ownerReferences"][0]["uid"],
        "uid-of-n1"
    );
}

#[tokio::test(start_paused = true)]
async fn k_68_a_good_csinode_is_not_written() {
    let mut stage = Stage::set();
    stage.api.insert(csinode(N).annotation(MIGRATED, PLUGINS));
    stage.start();
    stage
        .until("the CSINode is initialized", Stage::is_initialized)
        .await;
    assert!(stage.writes().is_empty(), "{:?}", stage.writes());
}

#[tokio::test(start_paused = true)]
async fn k_69_the_annotation_is_corrected_and_others_are_kept() {
    let mut stage = Stage::set();
    let object = csinode(N)
        .annotation(MIGRATED, "kubernetes.io/cinder")
        .annotation("mine", "kept");
    stage.api.insert(object.driver("a.example.com", "1"));
    stage.start();
    stage
        .until("the CSINode is initialized", Stage::is_initialized)
        .await;
    assert_eq!(stage.writes(), [format!("PUT {CSINODE}")]);
    let csinode = stage.api.object("csinodes", N).unwrap();
    assert_eq!(
        csinode["metadata"]["annotations"],
        json!({ MIGRATED: PLUGINS, "mine": "kept" })
    );
    assert_eq!(stage.csinode_drivers().unwrap(), ["a.example.com"]);
}

#[tokio::test(start_paused = true)]
async fn k_70_an_unreachable_api_server_is_waited_for() {
    let mut stage = Stage::set();
    stage.api.set_down(true);
    let begin = Instant::now();
    stage.start();
    pass(4.95).await;
    stage.api.set_down(false);
    assert!(stage.is_running() && !stage.is_initialized());
    stage
        .until("the CSINode is initialized", Stage::is_initialized)
        .await;
    assert!(about(begin.elapsed(), 5.0), "{:?}", begin.elapsed());
    let polls = stage.api.requests_to("GET", CSINODE);
    let polls: Vec<u128> = polls
        .iter()
        .filter(|request| request.query.contains_key("resourceVersion"))
        .map(|request| (request.at - begin).as_millis())
        .collect();
    assert_eq!(polls.len(), 6, "each second: {polls:?}");
    assert!(
        polls
            .windows(2)
            .all(|pair| (1000..1010).contains(&(pair[1] - pair[0]))),
        "{polls:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn k_71_the_program_gives_up_after_six_attempts() {
    let mut stage = Stage::set();
    stage.api.fault(Fault::on("POST", CSINODES).answer(500));
    let begin = Instant::now();
    stage.start();
    let error = stage.end().await;
    assert!(matches!(error, RunError::Initialize(_)), "{error}");
    // Five pauses of 30 ms times eight each, and six times the three pauses within an attempt.
    let pauses = Duration::from_millis(30 + 240 + 1920 + 15_360 + 122_880 + 6 * (10 + 50 + 250));
    assert!(
        about(begin.elapsed(), pauses.as_secs_f64()),
        "{:?}",
        begin.elapsed()
    );
    assert_eq!(stage.api.requests_to("POST", CSINODES).len(), 6 * 4);
    assert!(!stage.is_initialized());
}

#[tokio::test(start_paused = true)]
async fn without_its_node_the_program_ends_and_says_what_to_do() {
    let mut stage = Stage::set();
    stage.api.delete("nodes", N);
    stage.start();
    let error = stage.end().await;
    let expected = "Node n1 does not exist: create it, correct --node-name, or start with \
                    --register-node";
    assert_eq!(error.to_string(), expected);
    assert!(stage.writes().is_empty(), "{:?}", stage.writes());
}

#[tokio::test(start_paused = true)]
async fn a_missing_node_is_created_if_asked_for() {
    let mut stage = Stage::set();
    stage.api.delete("nodes", N);
    stage.register_node = true;
    stage.start();
    stage
        .until("the CSINode is initialized", Stage::is_initialized)
        .await;
    let node = stage.api.object("nodes", N).unwrap();
    assert_eq!(
        node["spec"]["unschedulable"], true,
        "nothing runs pods there"
    );
    let csinode = stage.api.object("csinodes", N).unwrap();
    assert_eq!(
        csinode["metadata"]["ownerReferences"][0]["uid"],
        node["metadata"]["uid"]
    );
    stage.registered().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_may_not_be_created_ends_the_program() {
    let mut stage = Stage::set();
    stage.api.delete("nodes", N);
    stage
        .api
        .fault(Fault::on("POST", "/api/v1/nodes").answer_saying(403, "nodes is forbidden"));
    stage.register_node = true;
    stage.start();
    let error = stage.end().await;
    let text = sidecar::error::Chain(&error).to_string();
    assert!(
        text.contains("--register-node: cannot create Node n1"),
        "{text}"
    );
    assert!(text.contains("nodes is forbidden"), "{text}");
}
