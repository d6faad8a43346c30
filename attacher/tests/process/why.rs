//! What `--why-endpoint` says about VolumeAttachments: rows of `docs/spec/why.md`.

use std::time::Duration;

use serde_json::{Value, json};
use sidecar_testkit::CallFault;
use sidecar_testkit::api::fault::Gate;
use sidecar_testkit::build::{self, Object as _};
use sidecar_testkit::controller::contract::why::Answering;
use tonic::Code;

use super::stage::{DRIVER, PROGRAM, Stage, settle};

const PUBLISH: &str = "ControllerPublishVolume";

async fn answering(stage: &Stage, more: &[&str]) -> Answering {
    let answering = Answering::start(stage, more).await;
    answering.running.logs(PROGRAM.ready).await;
    answering
}

fn first(answer: &Value) -> &Value {
    &answer["answers"][0]
}

#[tokio::test]
async fn w_4_a_call_under_way_has_its_deadline() {
    let stage = Stage::new().await;
    let gate = Gate::new();
    stage.driver.fault(CallFault::on(PUBLISH).hold(&gate));
    let answering = answering(&stage, &["--timeout=60s"]).await;
    stage.attach("va1", "pv1");
    let calls = |answer: &Value| first(answer)["running"]["step"] == PUBLISH;
    let answer = answering.until("attachments/va1", calls).await;
    let running = &first(&answer)["running"];
    let time =
        |field: &str| -> jiff::Timestamp { running[field].as_str().unwrap().parse().unwrap() };
    let left = time("deadline").duration_since(time("stepSince"));
    let left = Duration::try_from(left).unwrap();
    assert!(
        left > Duration::from_secs(58) && left < Duration::from_secs(61),
        "{answer:#}"
    );
    assert_eq!(running["steps"][0]["code"], "OK", "{answer:#}");
    assert_eq!(first(&answer)["work"], "attach", "{answer:#}");
    assert_eq!(first(&answer)["next"], Value::Null, "{answer:#}");
    gate.open();
    stage.until_attached("va1").await;
}

#[tokio::test]
async fn w_5_w_17_w_18_a_failure_is_shown_without_secrets_and_cut() {
    const PLANTED: [&str; 3] = ["hunter2", "dXNlcjpwYXNzd29yZA", "planted-attribute"];
    let stage = Stage::new().await;
    let blob = "QWxhZGRpbjpvcGVuIHNlc2FtZUFsYWRkaW46b3BlbiBzZXNhbWU4";
    let long = "x".repeat(3_000);
    let text = format!(
        "mount -o password={},vers=3 https://{}@host/share {blob} \u{1b}[2J {long}",
        PLANTED[0], PLANTED[1]
    );
    stage
        .driver
        .fault(CallFault::on(PUBLISH).fail(Code::Internal, &text));
    stage.driver.volume("h-secret");
    let source = json!({
        "driver": DRIVER,
        "volumeHandle": "h-secret",
        "volumeAttributes": {"share": PLANTED[2]},
    });
    let volume = build::volume("secret").mode("RWO");
    stage.api.insert(volume.with("/spec/csi", source));
    let answering = answering(&stage, &["--retry-interval-start=5m"]).await;
    stage.attach("va2", "secret");
    let failed = |answer: &Value| first(answer)["last"]["code"] == "Internal";
    let answer = answering.until("attachments/va2", failed).await;
    let told = first(&answer);
    assert_eq!(told["queue"]["state"], "backoff", "{answer:#}");
    assert_eq!(told["queue"]["failures"], 1, "{answer:#}");
    assert_eq!(told["last"]["step"], PUBLISH, "{answer:#}");
    assert_eq!(told["next"]["step"], PUBLISH, "{answer:#}");
    let said = told["last"]["text"].as_str().unwrap();
    assert!(
        said.contains("password=***") && said.contains("https://***@host"),
        "{said}"
    );
    assert!(said.len() <= 1_100, "{}", said.len());
    for path in ["attachments/va2", "volumes/secret", "", "driver"] {
        let (_, answer) = answering.ask(path).await;
        let answer = answer.to_string();
        for planted in PLANTED.iter().chain([&blob, &"\u{1b}"]) {
            assert!(!answer.contains(planted), "{path}: {planted}: {answer}");
        }
    }
    stage.driver.clear_faults();
}

#[tokio::test]
async fn w_7_what_is_missing_is_named_until_it_appears() {
    let stage = Stage::new().await;
    stage.api.remove("csinodes", "node1");
    let answering = answering(&stage, &["--retry-interval-start=5m"]).await;
    stage.attach("va1", "pv1");
    let parked = |answer: &Value| first(answer)["queue"]["state"] == "parked";
    let answer = answering.until("attachments/va1", parked).await;
    let waits = json!([{"kind": "CSINode", "name": "node1"}]);
    assert_eq!(first(&answer)["waitsFor"], waits, "{answer:#}");
    assert!(first(&answer)["queue"]["until"].is_string(), "{answer:#}");
    stage
        .api
        .insert(build::csinode("node1").driver(DRIVER, "NID1"));
    stage.until_attached("va1").await;
    let idle = |answer: &Value| first(answer)["queue"]["state"] == "idle";
    let answer = answering.until("attachments/va1", idle).await;
    assert_eq!(first(&answer)["last"], Value::Null, "{answer:#}");
}

#[tokio::test]
async fn w_3_w_13_a_lane_counts_its_own_keys() {
    let stage = Stage::new().await;
    let gate = Gate::new();
    stage.driver.fault(CallFault::on(PUBLISH).hold(&gate));
    for number in 0..12 {
        stage.volume(&format!("w{number}"), None);
    }
    let answering = answering(&stage, &["--worker-threads=2", "--timeout=5m"]).await;
    for number in 0..12 {
        stage.attach(&format!("wa{number:02}"), &format!("w{number}"));
        settle().await;
    }
    let waits = |answer: &Value| first(answer)["queue"]["state"] == "waiting";
    let answer = answering.until("attachments/wa11", waits).await;
    let queue = &first(&answer)["queue"];
    assert_eq!(queue["lane"], "attach", "{answer:#}");
    let ahead = queue["laneAhead"].as_u64().unwrap();
    let running = queue["laneRunning"].as_u64().unwrap();
    assert_eq!(ahead + running, 11, "{answer:#}");
    gate.open();
    stage.until_attached("wa11").await;
}
