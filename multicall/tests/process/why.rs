//! Rows of `docs/spec/why.md` about a process of several controllers.

use sidecar_testkit::CallFault;
use sidecar_testkit::controller::ELECTION;
use sidecar_testkit::controller::contract::why::Answering;
use tonic::Code;

use super::stage::{CALM, DRIVER, Stage, THREE, provision};

#[tokio::test]
async fn w_72_each_controller_that_knows_an_object_answers_with_its_own_queue_and_lease() {
    let stage = Stage::new().await;
    let refused = CallFault::on("CreateVolume").fail(Code::Internal, "token=planted");
    stage.driver.fault(refused);
    let arguments = [THREE, "--retry-interval-start=5m"];
    let arguments = [&arguments, &ELECTION[..], &CALM].concat();
    let answering = Answering::start(&stage, &arguments).await;
    answering.running.logs("Starting CSI provisioner").await;
    provision(&stage, 0);
    let of = |answer: &serde_json::Value, program: &str| {
        let all = answer["answers"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|one| one["program"] == program)
    };
    let failed = |answer: &serde_json::Value| {
        let told = of(answer, "csi-provisioner");
        told.is_some_and(|told| told["last"]["code"] == "Internal")
    };
    let answer = answering.until("claims/ns1/new0", failed).await;
    assert_eq!(answer["version"], 2, "{answer:#}");
    let provisioner = of(&answer, "csi-provisioner").unwrap();
    let resizer = of(&answer, "csi-resizer").unwrap();
    assert_eq!(provisioner["lease"], "ns/test-csi-driver", "{answer:#}");
    assert_eq!(
        resizer["lease"], "ns/external-resizer-test-csi-driver",
        "{answer:#}"
    );
    assert_eq!(provisioner["driver"], DRIVER, "{answer:#}");
    assert_eq!(provisioner["queue"]["failures"], 1, "{answer:#}");
    assert!(!answer.to_string().contains("planted"), "{answer:#}");
    let list = answering
        .until("", |list| list["keys"][0]["code"] == "Internal")
        .await;
    let controllers = list["controllers"].as_array().unwrap();
    assert!(controllers.len() >= 3, "{list:#}");
}

/// A single program does not listen before it knows its driver, and exits without one.
#[tokio::test]
async fn w_12_a_process_that_waits_for_its_driver_says_so() {
    let stage = Stage::new().await;
    stage.driver.stop();
    let answering = Answering::start(&stage, &[THREE]).await;
    let (status, answer) = answering.ask("volumes/v0").await;
    assert_eq!(
        (status, &answer["known"]),
        (200, &true.into()),
        "{answer:#}"
    );
    let answers = answer["answers"].as_array().unwrap();
    assert_eq!(answers.len(), 1, "{answer:#}");
    assert_eq!(answers[0]["driverLink"]["state"], "away", "{answer:#}");
    assert_eq!(answers[0]["queue"]["state"], "unsynced", "{answer:#}");
    let (_, list) = answering.ask("").await;
    let controllers = list["controllers"].as_array().unwrap();
    assert_eq!(controllers.len(), 1, "{list:#}");
    assert_eq!(controllers[0]["leads"], false, "{list:#}");
    stage.driver.start();
    let knows = |list: &serde_json::Value| {
        let controllers = list["controllers"].as_array();
        controllers.is_some_and(|controllers| controllers.len() >= 3)
    };
    answering.until("", knows).await;
}
