//! Rows 181 to 189 and 199 to 202: claims when the driver, or the API server, fails.

use std::time::Duration;

use serde_json::json;
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::driver::PluginService;
use sidecar_testkit::{CallFault, Fault};
use tonic::Code;

use super::stage::{
    ANNOTATION, DRIVER, PV, READY, Stage, U, claim, class, finalizers, free_address, get, settle,
    together,
};

const CREATE: &str = "CreateVolume";
const QUICK: &str = "--retry-interval-start=300ms";

#[tokio::test]
async fn row_181_a_call_in_doubt_is_repeated_word_for_word() {
    together(
        [
            Code::DeadlineExceeded,
            Code::Cancelled,
            Code::Unavailable,
            Code::Aborted,
        ],
        unknown_outcome,
    )
    .await;
}

async fn unknown_outcome(code: Code) {
    let stage = Stage::new().await;
    stage
        .driver
        .fault(CallFault::on(CREATE).fail(code, "later").times(2));
    let program = stage.start(&["--retry-interval-start=1s"]);
    stage
        .api
        .insert(claim().finalizer("kubernetes.io/pvc-protection"));
    stage.until_calls(CREATE, 1).await;
    assert_eq!(stage.intents(), [U]);
    stage.until_volume(PV).await;
    stage.until_settled().await;
    let claim = stage.claim("ns1/c1");
    assert_eq!(finalizers(&claim), json!(["kubernetes.io/pvc-protection"]));
    let annotations = claim["metadata"]["annotations"].clone();
    assert_eq!(annotations, json!({ ANNOTATION: DRIVER }), "{code:?}");
    let requests = stage.creations();
    assert!(
        requests.windows(2).all(|pair| pair[0] == pair[1]),
        "word for word"
    );
    assert_eq!(requests.len(), 3, "{code:?}: {}", program.log());
    assert_eq!(stage.events("ProvisioningSucceeded").len(), 1, "{code:?}");
}

#[tokio::test]
async fn rows_181_and_187_the_claim_is_deleted_while_a_call_is_in_doubt() {
    let stage = Stage::new().await;
    let fault = stage
        .driver
        .fault(CallFault::on(CREATE).fail(Code::DeadlineExceeded, "later"));
    let _program = stage.start(&[QUICK]);
    stage.api.insert(claim());
    stage.until_calls(CREATE, 1).await;
    stage.until_events("ProvisioningFailed", 1).await;
    stage.api.remove("persistentvolumeclaims", "ns1/c1");
    stage.until_calls(CREATE, 3).await;
    fault.remove();
    stage.until_volume(PV).await;
    assert_eq!(stage.volume(PV)["spec"]["claimRef"]["uid"], U);
    settle().await;
    assert!(stage.events("ProvisioningSucceeded").is_empty(), "row 187");
    stage.api.edit("persistentvolumes", PV, |object| {
        object["status"]["phase"] = "Released".into();
    });
    stage.until_volume_gone(PV).await;
    assert!(stage.driver.calls_to("DeleteVolume").len() == 1, "row 187");
}

pub(crate) async fn rows_182_and_188_a_final_error_is_repeated_as_long_as_there_is_a_claim() {
    let stage = Stage::new().await;
    let refuses = || CallFault::on(CREATE).fail(Code::Internal, "no");
    stage.driver.fault(refuses());
    let _program = stage.start(&[QUICK]);
    stage.api.insert(claim());
    stage.until_calls(CREATE, 3).await;
    stage.until_settled().await;
    stage.api.remove("persistentvolumeclaims", "ns1/c1");
    settle().await;
    let calls = stage.calls(CREATE);
    // No further call may come meanwhile.
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(stage.calls(CREATE), calls, "row 182");
    assert!(stage.volume(PV).is_null(), "row 182");
    // After a call without an answer further calls do come: the refusal proves nothing about that call.
    let unanswered = Stage::new().await;
    let late = CallFault::on(CREATE).fail(Code::DeadlineExceeded, "late");
    unanswered.driver.fault(late.times(1));
    unanswered.driver.fault(refuses());
    let _other = unanswered.start(&[QUICK]);
    unanswered.api.insert(claim());
    unanswered.until_calls(CREATE, 3).await;
    unanswered.api.remove("persistentvolumeclaims", "ns1/c1");
    settle().await;
    let calls = unanswered.calls(CREATE);
    unanswered.until_calls(CREATE, calls + 1).await;
    assert_eq!(unanswered.intents().len(), 1, "row 188, j_4");
    let text = &stage.events("ProvisioningFailed")[0];
    assert!(text.contains("rpc error: code = "), "section 18: {text}");
}

fn in_zones(stage: &Stage) {
    stage.driver.configure(|model| {
        model
            .services
            .push(PluginService::VolumeAccessibilityConstraints);
    });
    for (node, zone) in [("n1", "z1"), ("n2", "z2")] {
        stage.api.insert(build::node(node).label("zone", zone));
        let csinode = build::csinode(node).driver(DRIVER, node);
        stage.api.insert(csinode.topology(&["zone"]));
    }
    stage.api.remove("storageclasses", "sc1");
    stage.api.insert(class().waiting_for_consumer());
}

#[tokio::test]
async fn rows_174_178_184_and_185_a_node_without_room_is_given_up() {
    let node = "volume.kubernetes.io/selected-node";
    let stage = Stage::new().await;
    in_zones(&stage);
    stage.driver.fault(
        CallFault::on(CREATE)
            .fail(Code::ResourceExhausted, "full")
            .times(2),
    );
    stage.api.fault(
        Fault::on("PUT", "*/persistentvolumeclaims/c1")
            .answer(409)
            .times(ROUNDS),
    );
    stage.api.insert(class().waiting_for_consumer());
    let program = stage.start(&[QUICK]);
    stage.api.insert(claim().annotation(node, "n1"));
    stage
        .until("unselected", |stage| {
            stage.claim("ns1/c1")["metadata"]["annotations"][node].is_null()
        })
        .await;
    assert_eq!(stage.calls(CREATE), 2, "row 185: {}", program.log());
    let puts = stage.api.requests_to("PUT", "*/persistentvolumeclaims/c1");
    assert_eq!(puts.len(), ROUNDS + 1, "row 184");
    settle().await;
    assert_eq!(stage.calls(CREATE), 2, "row 184");
    stage
        .api
        .edit("persistentvolumeclaims", "ns1/c1", |object| {
            object["metadata"]["annotations"][node] = "n2".into();
        });
    stage.until_volume(PV).await;
    let requests = stage.creations();
    let preferred = |index: usize| {
        let requirement = requests[index].accessibility_requirements.as_ref().unwrap();
        requirement.preferred[0].segments["zone"].clone()
    };
    assert_eq!(
        (preferred(0).as_str(), preferred(2).as_str()),
        ("z1", "z2"),
        "row 174"
    );
    let affinity = stage.volume(PV)["spec"]["nodeAffinity"].clone();
    let expected = json!({"required": {"nodeSelectorTerms": [{"matchExpressions":
        [{"key": "zone", "operator": "In", "values": ["z2"]}]}]}});
    assert_eq!(affinity, expected, "row 178");
}

/// Number of tries of the update that removes the selected node.
const ROUNDS: usize = 4;

#[tokio::test]
async fn n_7a_and_7b_updates_in_between() {
    let node = "volume.kubernetes.io/selected-node";
    let stage = Stage::new().await;
    in_zones(&stage);
    let full = CallFault::on(CREATE).fail(Code::ResourceExhausted, "full");
    stage.driver.fault(full);
    for conflicts in 1..=ROUNDS {
        let uid = format!("u{conflicts}");
        let name = format!("c{conflicts}");
        let put = Fault::on("PUT", &format!("*/persistentvolumeclaims/{name}"));
        stage.api.fault(put.answer(409).times(conflicts));
        let claim = claim().uid(&uid).with("/metadata/name", &*name);
        stage.api.insert(claim.annotation(node, "n1"));
    }
    let program = stage.start(&[QUICK]);
    for conflicts in 1..=ROUNDS {
        let name = format!("ns1/c{conflicts}");
        stage
            .until("unselected", |stage| {
                stage.claim(&name)["metadata"]["annotations"][node].is_null()
            })
            .await;
    }
    settle().await;
    let calls = stage.creations();
    for conflicts in 1..=ROUNDS {
        let name = format!("pvc-u{conflicts}");
        let of_claim = calls.iter().filter(|call| call.name == name);
        // Only after the last round the driver gets a call for the same node again.
        let expected = if conflicts < ROUNDS { 1 } else { 2 };
        let log = program.log();
        assert_eq!(of_claim.count(), expected, "{conflicts} conflicts: {log}");
    }
}

#[tokio::test]
async fn fp_6_a_node_that_was_taken_off_unnoticed_is_not_asked_for_again_and_again() {
    let node = "volume.kubernetes.io/selected-node";
    let stage = Stage::new().await;
    in_zones(&stage);
    let full = CallFault::on(CREATE).fail(Code::ResourceExhausted, "full");
    stage.driver.fault(full);
    let unselect = Fault::on("PUT", "*/persistentvolumeclaims/c1").times(1);
    stage.api.fault(unselect.lose_reply());
    stage.api.insert(claim().annotation(node, "n1"));
    // The watch is delayed by more than the test takes.
    stage.api.hold_watches("persistentvolumeclaims");
    let program = stage.start(&[QUICK]);
    stage.until_calls(CREATE, 2).await;
    // No further call may come meanwhile.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(stage.calls(CREATE), 2, "{}", program.log());
    stage.api.release_watches("persistentvolumeclaims");
    settle().await;
    assert_eq!(stage.calls(CREATE), 2, "nobody has selected a node");
}

#[tokio::test]
async fn fp_9_an_impossible_request_is_repeated_once_in_its_time() {
    let stage = Stage::new().await;
    let never = CallFault::on(CREATE).fail(Code::InvalidArgument, "never");
    stage.driver.fault(never);
    let _program = stage.start(&[QUICK, "--retry-interval-max=2s"]);
    stage.api.insert(claim());
    stage.until_calls(CREATE, 5).await;
    let calls = stage.driver.calls_to(CREATE);
    for pair in calls.windows(2) {
        let apart = pair[1].started - pair[0].started;
        assert!(apart >= Duration::from_secs(2), "{apart:?}");
    }
}

#[tokio::test]
async fn row_183_no_room_without_a_node_is_final() {
    let stage = Stage::new().await;
    stage.driver.fault(
        CallFault::on(CREATE)
            .fail(Code::ResourceExhausted, "full")
            .times(2),
    );
    let _program = stage.start(&[QUICK]);
    stage.api.insert(claim());
    stage.until_volume(PV).await;
    assert_eq!(stage.calls(CREATE), 3);
    assert!(
        stage
            .api
            .requests_to("PUT", "*/persistentvolumeclaims/c1")
            .is_empty()
    );
}

pub(crate) async fn row_186_an_impossible_request_waits_for_another_class() {
    let stage = Stage::new().await;
    stage.driver.fault(
        CallFault::on(CREATE)
            .fail(Code::InvalidArgument, "never")
            .times(1),
    );
    let _program = stage.start(&[QUICK]);
    stage.api.insert(claim());
    stage.until_events("ProvisioningFailed", 1).await;
    // No further call may come meanwhile.
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(stage.calls(CREATE), 1, "not asked again");
    assert_eq!(
        stage.events("ProvisioningFailed").len(),
        1,
        "and not reported"
    );
    assert!(stage.events("ProvisioningFailed")[0].contains("delayed"));
    stage.api.remove("storageclasses", "sc1");
    stage.api.insert(class().uid("another"));
    stage.until_volume(PV).await;
}

#[tokio::test]
async fn row_189_fp_3_a_secret_that_vanished_does_not_end_a_doubt() {
    let stage = Stage::new().await;
    stage.api.remove("storageclasses", "sc1");
    let secret = class().parameter("csi.storage.k8s.io/provisioner-secret-name", "sec");
    stage
        .api
        .insert(secret.parameter("csi.storage.k8s.io/provisioner-secret-namespace", "ns9"));
    stage
        .api
        .insert(build::secret("ns9/sec").entry("k", "dg=="));
    stage.driver.fault(
        CallFault::on(CREATE)
            .fail(Code::DeadlineExceeded, "late")
            .times(1),
    );
    let _program = stage.start(&[QUICK]);
    stage.api.insert(claim());
    stage.until_calls(CREATE, 1).await;
    stage.api.remove("secrets", "ns9/sec");
    stage.until_events("ProvisioningFailed", 2).await;
    stage.api.remove("persistentvolumeclaims", "ns1/c1");
    settle().await;
    stage
        .api
        .insert(build::secret("ns9/sec").entry("k", "dg=="));
    stage.until_volume(PV).await;
}

#[tokio::test]
async fn rows_199_and_200_the_volume_cannot_be_saved_at_first() {
    let stage = Stage::new().await;
    let post = || Fault::on("POST", "*/persistentvolumes");
    stage.api.fault(post().answer(500).times(2));
    let program = stage.start(&[QUICK]);
    stage.api.insert(claim());
    stage.until_events("ProvisioningSucceeded", 1).await;
    settle().await;
    assert_eq!(stage.calls(CREATE), 1, "row 199: {}", program.log());
    assert_eq!(
        stage.api.requests_to("POST", "*/persistentvolumes").len(),
        3,
        "row 199"
    );
    assert_eq!(stage.events("ProvisioningSucceeded").len(), 1, "row 199");
    let failed = stage.events("ProvisioningFailed").len();
    assert_eq!(failed, 1, "row 199: none of the first refusal");
    assert_eq!(stage.calls("DeleteVolume"), 0, "row 199");
}

/// The first POST of a PersistentVolume waits for the gate.
fn hold_the_save(stage: &Stage) -> sidecar_testkit::Gate {
    let gate = sidecar_testkit::Gate::new();
    let post = Fault::on("POST", "*/persistentvolumes").hold(&gate);
    stage.api.fault(post.times(1));
    gate
}

async fn until_asked_to_save(stage: &Stage) {
    stage
        .until("POST", |stage| {
            !stage
                .api
                .requests_to("POST", "*/persistentvolumes")
                .is_empty()
        })
        .await;
}

/// A PersistentVolume of the name exists before the save. It matters to which volume it refers.
#[tokio::test]
async fn row_200_j_4_an_existing_persistentvolume_counts_if_it_is_of_the_same_volume() {
    together(["this volume", "another driver's"], exists).await;
}

async fn exists(whose: &'static str) {
    let stage = Stage::new().await;
    let gate = hold_the_save(&stage);
    let _program = stage.start(&[QUICK]);
    stage.api.insert(claim());
    stage.until_calls(CREATE, 1).await;
    until_asked_to_save(&stage).await;
    let made = stage.handles().remove(0);
    let same = whose == "this volume";
    let driver = if same { DRIVER } else { "other-driver" };
    stage
        .api
        .insert(build::volume(PV).csi(driver, &made).class("sc1"));
    gate.open();
    stage.until_settled().await;
    settle().await;
    assert_eq!(stage.calls("DeleteVolume"), usize::from(!same), "{whose}");
    let left = stage.handles().len();
    assert_eq!(left, usize::from(same), "{whose}");
    let succeeded = stage.events("ProvisioningSucceeded").len();
    assert_eq!(succeeded, usize::from(same), "{whose}");
    let posts = stage.api.requests_to("POST", "*/persistentvolumes");
    assert_eq!(posts.len(), 1, "{whose}");
}

/// P-4: it was saved before the process was killed, and now the driver spells its handle differently.
#[tokio::test]
async fn j_4_a_volume_is_not_deleted_beside_a_persistentvolume_of_its_driver() {
    let stage = Stage::new().await;
    let gate = hold_the_save(&stage);
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let program = stage.start(&[QUICK, "--retry-interval-max=1s", &endpoint]);
    stage.api.insert(claim());
    until_asked_to_save(&stage).await;
    let spelled = stage.handles().remove(0).to_uppercase();
    let saved = build::volume(PV).csi(DRIVER, &spelled).class("sc1");
    stage.api.insert(saved.bound_to("ns1/c1").phase("Bound"));
    stage.bind("ns1/c1", PV);
    gate.open();
    program.logs("nothing is deleted").await;
    settle().await;
    assert_eq!(stage.intents(), [U], "the journal keeps it");
    let (_, text) = get(&address, "/metrics").await;
    assert!(
        text.contains("csi_sidecar_provisioning_in_doubt 1"),
        "{text}"
    );
    assert_eq!(
        stage.events("ProvisioningFailed").len(),
        0,
        "there is a volume"
    );
    assert_eq!(stage.calls("DeleteVolume"), 0);
    // The user gives up both.
    stage.api.remove("persistentvolumeclaims", "ns1/c1");
    stage.api.remove("persistentvolumes", PV);
    stage.until_volume(PV).await;
    stage.until_settled().await;
    assert_eq!(stage.handles().len(), 1);
}

/// B-7: a policy rejects the PersistentVolume, and is corrected.
#[tokio::test]
async fn p_5_a_persistentvolume_that_is_refused_is_told_from_the_second_refusal_on() {
    let stage = Stage::new().await;
    let post = Fault::on("POST", "*/persistentvolumes");
    let policy = stage
        .api
        .fault(post.answer_saying(403, "volumes need a team label"));
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let _program = stage.start(&[QUICK, "--retry-interval-max=1s", &endpoint]);
    stage.api.insert(claim());
    stage.until_events("ProvisioningFailed", 1).await;
    assert!(stage.api.requests_to("POST", "*/persistentvolumes").len() > 1);
    let event = stage.events("ProvisioningFailed").remove(0);
    assert!(event.contains("volumes need a team label"), "{event}");
    let (_, text) = get(&address, "/metrics").await;
    let failed = "controller_persistentvolumeclaim_provision_failed_total{class=\"sc1\"";
    assert!(text.contains(failed), "{text}");
    policy.remove();
    stage.until_volume(PV).await;
    assert_eq!((stage.calls(CREATE), stage.calls("DeleteVolume")), (1, 0));
}

/// A volume without a record is unsettled until it is deleted: while the driver does not delete it, it stays in the
/// journal, and the claim may go.
#[tokio::test]
async fn j_4_a_volume_beside_another_driver_s_persistentvolume_is_owed_for_deletion() {
    let stage = Stage::new().await;
    let gate = hold_the_save(&stage);
    let busy = CallFault::on("DeleteVolume").fail(Code::Internal, "busy");
    // The fault covers all tries of one attempt and of the next one.
    stage.driver.fault(busy.times(8));
    let _program = stage.start(&[QUICK]);
    stage.api.insert(claim());
    until_asked_to_save(&stage).await;
    let other = build::volume(PV).csi("other-driver", "vol-of-another-node");
    stage.api.insert(other.class("sc1"));
    gate.open();
    stage.until_calls("DeleteVolume", 5).await;
    assert_eq!(stage.intents(), [U]);
    stage.api.delete("persistentvolumeclaims", "ns1/c1");
    stage.until_calls("DeleteVolume", 9).await;
    stage.until_settled().await;
    let left = stage.handles().len();
    assert_eq!((left, stage.calls(CREATE)), (0, 1));
}

#[tokio::test]
async fn row_199_the_volume_is_saved_and_the_answer_is_lost() {
    let stage = Stage::new().await;
    let lost = Fault::on("POST", "*/persistentvolumes").times(1);
    stage.api.fault(lost.lose_reply());
    let address = free_address();
    let _program = stage.start(&[&format!("--http-endpoint={address}")]);
    stage.api.insert(claim());
    stage.until_events("ProvisioningSucceeded", 1).await;
    settle().await;
    assert_eq!(stage.events("ProvisioningSucceeded").len(), 1);
    assert_eq!(stage.calls(CREATE), 1);
    let (_, text) = get(&address, "/metrics").await;
    let line = r#"controller_persistentvolumeclaim_provision_total{class="sc1",source=""} 1"#;
    assert!(text.contains(line), "{text}");
    assert!(!text.contains("provision_failed_total{"), "{text}");
}

/// Until the watch reports the object that was found instead, the claim needs no other volume.
#[tokio::test]
async fn what_is_found_in_place_of_a_lost_answer_is_known_before_the_watch_tells_it() {
    let stage = Stage::new().await;
    let lost = Fault::on("POST", "*/persistentvolumes").times(1);
    stage.api.fault(lost.lose_reply());
    stage.api.hold_watches("persistentvolumes");
    let _program = stage.start(&[QUICK]);
    stage.api.insert(claim());
    stage.until_events("ProvisioningSucceeded", 1).await;
    for look in ["again", "once more"] {
        stage
            .api
            .edit("persistentvolumeclaims", "ns1/c1", |object| {
                object["metadata"]["annotations"]["look"] = look.into();
            });
        settle().await;
    }
    assert_eq!(stage.calls(CREATE), 1);
    stage.api.release_watches("persistentvolumes");
    settle().await;
    assert_eq!((stage.calls(CREATE), stage.handles().len()), (1, 1));
}

#[tokio::test]
async fn row_201_a_change_of_the_claim_ends_its_back_off() {
    let stage = Stage::new().await;
    stage
        .driver
        .fault(CallFault::on(CREATE).fail(Code::Internal, "no").times(1));
    let _program = stage.start(&["--retry-interval-start=5m"]);
    stage.api.insert(claim());
    stage.until_events("ProvisioningFailed", 1).await;
    settle().await;
    assert_eq!(stage.calls(CREATE), 1);
    stage
        .api
        .edit("persistentvolumeclaims", "ns1/c1", |object| {
            object["metadata"]["annotations"]["look"] = "again".into();
        });
    stage.until_volume(PV).await;
}

#[tokio::test]
async fn namespaces_take_turns_when_workers_are_scarce() {
    let stage = Stage::new().await;
    stage
        .driver
        .fault(CallFault::on(CREATE).delay(Duration::from_millis(300)));
    let program = stage.start(&["--worker-threads=1"]);
    program.logs(READY).await;
    let of = |namespace: &str, number: usize| {
        let claim = build::claim(&format!("{namespace}/c{number}"))
            .class("sc1")
            .mode("RWO");
        let claim = claim.uid(&format!("{namespace}-{number}"));
        claim.annotation(ANNOTATION, DRIVER)
    };
    for number in 0..12 {
        stage.api.insert(of("busy", number));
    }
    stage.until_calls(CREATE, 1).await;
    stage.api.insert(of("small", 0));
    stage.until_volume("pvc-small-0").await;
    assert!(stage.calls(CREATE) < 8, "{}", stage.calls(CREATE));
}
