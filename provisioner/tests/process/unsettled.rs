//! Row J-4 where the driver made the volume, its answer was lost, and it refuses the repetition: an unsettled request
//! is repeated until a final answer.

use csi_proto::csi::{CreateVolumeRequest, CreateVolumeResponse, Volume};
use serde_json::{Value, json};
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::{CallFault, Fault, Gate};
use tonic::Code;

use super::stage::{
    DRIVER, GI, JOURNAL, PV, Stage, U, claim, class, free_address, get, many, settle, together,
};
use super::topology;

const CREATE: &str = "CreateVolume";
const QUICK: &str = "--retry-interval-start=300ms";
const SELECTED: &str = "volume.kubernetes.io/selected-node";

/// The claim's owner deletes it between the call and its refusal.
#[tokio::test]
async fn j_4_a_refusal_after_a_doubt_settles_nothing() {
    let codes = [
        Code::Unknown,
        Code::Internal,
        Code::NotFound,
        Code::PermissionDenied,
        Code::ResourceExhausted,
        Code::FailedPrecondition,
    ];
    together(codes, refused_by_the_same_process).await;
    let moments = ["refused by the successor", "refused before"];
    together(moments, refused_and_killed).await;
}

/// The driver makes the volume, and its answer is lost.
async fn unknown_outcome() -> Stage {
    let stage = Stage::new().await;
    let dies = CallFault::on(CREATE).fail_after(Code::Unavailable, "died");
    stage.driver.fault(dies.times(1));
    stage
}

fn refuses(stage: &Stage, code: Code) {
    let refuses = CallFault::on(CREATE).fail(code, "not yet");
    stage.driver.fault(refuses.times(2));
}

async fn refused_by_the_same_process(code: Code) {
    let stage = unknown_outcome().await;
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let program = stage.start(&["--retry-interval-start=1s", &endpoint]);
    stage.api.insert(claim());
    stage.until_events("ProvisioningFailed", 1).await;
    refuses(&stage, code);
    stage.api.remove("persistentvolumeclaims", "ns1/c1");
    program
        .logs("outcome of CreateVolume is unknown, and the claim no longer needs")
        .await;
    let log = program.log();
    assert!(
        log.contains(&format!("intent.csi-sidecars.io/{U}")),
        "{log}"
    );
    assert!(log.contains("test-driver-journal-0"), "{log}");
    let text = get(&address, "/metrics").await.1;
    assert!(
        text.contains("csi_sidecar_provisioning_in_doubt 1"),
        "{code:?}: {text}"
    );
    goes_with_its_object(&stage).await;
    let warnings = program
        .log()
        .matches("outcome of CreateVolume is unknown")
        .count();
    assert_eq!(warnings, 1, "{code:?}: said once");
}

/// The way out is logged, whatever keeps the request unsettled; for a deleted Secret see `j_7_…`.
#[tokio::test]
async fn j_4_who_can_help_is_told_of_calls_that_never_have_an_answer() {
    let stage = unknown_outcome().await;
    let late = CallFault::on(CREATE).fail(Code::DeadlineExceeded, "late");
    let late = stage.driver.fault(late);
    let program = stage.start(&["--retry-interval-start=1s"]);
    stage.api.insert(claim());
    stage.until_events("ProvisioningFailed", 1).await;
    stage.api.remove("persistentvolumeclaims", "ns1/c1");
    program
        .logs("outcome of CreateVolume is unknown, and the claim no longer needs")
        .await;
    let log = program.log();
    assert!(
        log.contains(&format!("intent.csi-sidecars.io/{U}")),
        "{log}"
    );
    late.remove();
    goes_with_its_object(&stage).await;
}

/// An administrator has looked into the storage system and removes the entry.
#[tokio::test]
async fn p_9_what_is_taken_out_of_the_journal_is_given_up_without_a_restart() {
    let stage = unknown_outcome().await;
    let late = CallFault::on(CREATE).fail(Code::DeadlineExceeded, "late");
    stage.driver.fault(late);
    let mut program = stage.start(&[QUICK, "--retry-interval-max=1s"]);
    stage.api.insert(claim());
    stage.until_events("ProvisioningFailed", 1).await;
    stage.api.remove("persistentvolumeclaims", "ns1/c1");
    program
        .logs("outcome of CreateVolume is unknown, and the claim no longer needs")
        .await;
    stage.api.edit("leases", JOURNAL, |lease| {
        let all = lease["metadata"]["annotations"].as_object_mut().unwrap();
        all.remove(&format!("intent.csi-sidecars.io/{U}"));
    });
    program.logs("call is no longer tracked").await;
    // One call may have been under way.
    settle().await;
    let calls = stage.calls(CREATE);
    // No further call comes within three back-offs.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(stage.calls(CREATE), calls);
    assert_eq!(stage.intents(), [""; 0]);
    assert!(program.is_running(), "{}", program.log());
}

/// Somebody deleted the claim's PersistentVolume by force: a new volume of the name would be bound, and empty.
#[tokio::test]
async fn j_4_a_claim_that_has_lost_its_persistentvolume_gets_no_empty_one() {
    let stage = unknown_outcome().await;
    refuses(&stage, Code::Unknown);
    let program = stage.start(&["--retry-interval-start=1s", "--retry-interval-max=2s"]);
    stage.api.insert(claim());
    stage.until_events("ProvisioningFailed", 2).await;
    stage
        .api
        .edit("persistentvolumeclaims", "ns1/c1", |object| {
            object["spec"]["volumeName"] = PV.into();
            object["status"]["phase"] = "Lost".into();
        });
    program.logs("has lost its PersistentVolume").await;
    settle().await;
    assert!(stage.volume(PV).is_null());
    assert_eq!(stage.intents(), [U], "still unsettled");
    stage.api.remove("persistentvolumeclaims", "ns1/c1");
    goes_with_its_object(&stage).await;
}

async fn refused_and_killed(when: &'static str) {
    let stage = unknown_outcome().await;
    let program = stage.start(&["--retry-interval-start=1s"]);
    stage.api.insert(claim());
    stage.until_events("ProvisioningFailed", 1).await;
    refuses(&stage, Code::Unknown);
    if when == "refused before" {
        stage.until_events("ProvisioningFailed", 2).await;
    }
    program.kill().await;
    stage.api.remove("persistentvolumeclaims", "ns1/c1");
    let _successor = stage.start(&[QUICK]);
    goes_with_its_object(&stage).await;
}

/// The volume gets its PersistentVolume after all, and is deleted with it.
async fn goes_with_its_object(stage: &Stage) {
    stage.until_volume(PV).await;
    stage.until_settled().await;
    stage.api.edit("persistentvolumes", PV, |object| {
        object["status"]["phase"] = "Released".into();
    });
    stage.until_volume_gone(PV).await;
    assert!(stage.handles().is_empty(), "nothing is left over");
}

/// An administrator finds the volume in the storage system and rescues the claim with an object of another name.
#[tokio::test]
async fn j_4_what_is_owed_is_not_deleted_when_another_object_names_its_volume() {
    let stage = unknown_outcome().await;
    refuses(&stage, Code::Unknown);
    let _program = stage.start(&["--retry-interval-start=1s"]);
    stage.api.insert(claim());
    stage.until_events("ProvisioningFailed", 2).await;
    let handle = stage.handles().remove(0);
    stage.api.insert(json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": { "name": "rescue" },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": { "storage": "1Gi" },
            "claimRef": { "namespace": "ns1", "name": "c1", "uid": U },
            "csi": { "driver": DRIVER, "volumeHandle": handle },
            "persistentVolumeReclaimPolicy": "Retain",
        },
        "status": { "phase": "Available" },
    }));
    stage.bind("ns1/c1", "rescue");
    stage.until_settled().await;
    assert_eq!(stage.calls("DeleteVolume"), 0);
    assert_eq!(stage.handles(), [handle]);
    assert!(stage.api.object("persistentvolumes", PV).is_none());
}

/// Two requests of a claim that fit into no Lease together: the class was corrected after the first one.
#[tokio::test]
async fn j_13_the_next_request_of_a_claim_has_room_beside_a_large_one_that_is_owed() {
    let stage = Stage::new().await;
    let class_of = |value: &str| class().parameter("template", &value.repeat(130 * 1024));
    stage.api.remove("storageclasses", "sc1");
    stage.api.insert(class_of("a"));
    let fails = CallFault::on(CREATE).fail(Code::Unavailable, "died");
    stage.driver.fault(fails.times(1));
    refuses(&stage, Code::Unknown);
    let program = stage.start(&["--retry-interval-start=1s"]);
    stage.api.insert(claim());
    stage.until_events("ProvisioningFailed", 2).await;
    stage.api.remove("storageclasses", "sc1");
    stage.api.insert(class_of("b"));
    stage.until_volume(PV).await;
    let asked = stage.creations();
    let template = |asked: &CreateVolumeRequest| asked.parameters["template"].clone();
    assert!(template(asked.last().unwrap()).starts_with('b'));
    // The next leader finds both.
    let calls = asked.len();
    program.kill().await;
    let _successor = stage.start(&[QUICK]);
    stage.bind("ns1/c1", PV);
    stage
        .until(
            "the unsettled request is repeated, and both entries go",
            |stage| {
                let since = stage.creations().split_off(calls);
                let again = since.iter().any(|asked| template(asked).starts_with('a'));
                let second = stage.intents_in("csi/test-driver-journal-1");
                again && stage.intents().is_empty() && second.is_empty()
            },
        )
        .await;
    assert_eq!(stage.handles().len(), 1);
}

/// While the claim exists, its provisioning goes on for another node as without the unsettled request.
#[tokio::test]
async fn j_4_what_was_asked_for_another_node_stays_owed() {
    together(["the same volume", "another volume"], moved).await;
}

async fn moved(made: &'static str) {
    let stage = topology::stage().await;
    let dies = CallFault::on(CREATE).fail_after(Code::Unavailable, "died");
    stage.driver.fault(dies.times(1));
    let full = CallFault::on(CREATE).fail(Code::ResourceExhausted, "full");
    stage.driver.fault(full.times(1));
    let another = made == "another volume";
    if another {
        let volume = Volume {
            volume_id: "vol-elsewhere".into(),
            capacity_bytes: GI,
            ..Volume::default()
        };
        let answer = CreateVolumeResponse {
            volume: Some(volume),
        };
        stage
            .driver
            .fault(CallFault::on(CREATE).answer(answer).times(1));
    }
    let program = stage.start(&[QUICK, "--strict-topology"]);
    stage.api.insert(claim().annotation(SELECTED, "n0"));
    stage
        .until("the node is taken off", |stage| {
            stage.claim("ns1/c1")["metadata"]["annotations"][SELECTED] == Value::Null
        })
        .await;
    stage.until_events("ProvisioningFailed", 2).await;
    stage
        .api
        .edit("persistentvolumeclaims", "ns1/c1", |object| {
            object["metadata"]["annotations"][SELECTED] = "n1".into();
        });
    stage.until_volume(PV).await;
    let handle = stage.volume(PV)["spec"]["csi"]["volumeHandle"].clone();
    stage
        .until("the first request alone is unsettled", |stage| {
            let journal = stage.api.object("leases", JOURNAL).unwrap_or_default();
            let held = &journal["metadata"]["annotations"][format!("intent.csi-sidecars.io/{U}")];
            let held = held.as_str().unwrap_or_default();
            held.contains("owed") && !held.contains("prepared")
        })
        .await;
    let calls = stage.calls(CREATE);
    // Any process that leads settles the request when the claim is bound.
    program.kill().await;
    let successor = stage.start(&[QUICK, "--retry-interval-max=1s", "--strict-topology"]);
    stage.bind("ns1/c1", PV);
    if another {
        // The other volume may be the claim's, spelled differently.
        successor.logs("nothing is deleted").await;
        settle().await;
        assert_eq!(stage.intents(), [U], "{made}");
    } else {
        stage.until_settled().await;
    }
    assert!(stage.calls(CREATE) > calls);
    let first = stage.creations().remove(0);
    assert!(stage.creations()[calls..].contains(&first), "word for word");
    assert_eq!(stage.calls("DeleteVolume"), 0, "{made}");
    assert_eq!(stage.volume(PV)["spec"]["csi"]["volumeHandle"], handle);
    assert_eq!(stage.handles().len(), 1, "{made}");
    if another {
        stage.api.remove("persistentvolumeclaims", "ns1/c1");
        stage.api.remove("persistentvolumes", PV);
        goes_with_its_object(&stage).await;
    }
}

/// P-3: the node and its topology are gone before the driver has answered for it.
#[tokio::test]
async fn j_8_a_node_that_is_gone_is_left_for_the_one_that_is_selected_now() {
    together(["the same process", "its successor"], left).await;
}

async fn left(who: &'static str) {
    let stage = topology::stage().await;
    let away = CallFault::on(CREATE).fail(Code::Unavailable, "nobody there");
    let away = stage.driver.fault(away);
    let flags = [QUICK, "--retry-interval-max=1s", "--strict-topology"];
    let mut program = Some(stage.start(&flags));
    stage.api.insert(claim().annotation(SELECTED, "n0"));
    stage.until_events("ProvisioningFailed", 1).await;
    if let Some(program) = program.take_if(|_| who == "its successor") {
        program.kill().await;
    }
    for kind in ["nodes", "csinodes"] {
        stage.api.remove(kind, "n0");
    }
    stage
        .api
        .edit("persistentvolumeclaims", "ns1/c1", |object| {
            object["metadata"]["annotations"][SELECTED] = "n1".into();
        });
    let _program = program.unwrap_or_else(|| stage.start(&flags));
    stage
        .until("the new node is asked", |stage| {
            let asked = stage.creations();
            asked.first() != asked.last()
        })
        .await;
    away.remove();
    stage.until_volume(PV).await;
    let left = |event: &String| event.contains("Node n0 is gone");
    assert!(stage.events("Provisioning").iter().any(left), "{who}");
    assert_eq!(
        stage.intents(),
        [U],
        "{who}: what may have been made there is unsettled"
    );
    stage.bind("ns1/c1", PV);
    stage.until_settled().await;
    assert_eq!(stage.handles().len(), 1, "{who}");
}

/// P-6: a namespace with calls of unknown outcome is deleted in a cluster with more PersistentVolumes than one page
/// has.
#[tokio::test]
async fn p_6_one_list_answers_all_who_look_for_their_volumes() {
    const CLAIMS: usize = 40;
    const VOLUMES: usize = 1_200;
    const PAGES: usize = VOLUMES.div_ceil(500);
    let stage = Stage::new().await;
    for number in 0..VOLUMES {
        let volume = build::volume(&format!("other-{number}"));
        stage
            .api
            .insert(volume.csi("other-driver", "vol").phase("Available"));
    }
    let late = CallFault::on(CREATE).fail(Code::DeadlineExceeded, "late");
    let late = stage.driver.fault(late);
    let program = stage.start(&["--retry-interval-start=1s", "--retry-interval-max=2s"]);
    for number in 0..CLAIMS {
        stage.api.insert(many(number));
    }
    stage.until_events("ProvisioningFailed", CLAIMS).await;
    for number in 0..CLAIMS {
        stage
            .api
            .remove("persistentvolumeclaims", &format!("ns1/many-{number}"));
    }
    program
        .logs_times("outcome of CreateVolume is unknown", CLAIMS)
        .await;
    // The first list is under way while the others come.
    let gate = Gate::new();
    let list =
        Fault::on("GET", "*/persistentvolumes").when(|request| request.query.contains_key("limit"));
    stage.api.fault(list.hold(&gate).times(1));
    stage.api.clear_requests();
    late.remove();
    stage
        .until("all volumes are made", |stage| {
            stage.handles().len() == CLAIMS
        })
        .await;
    gate.open();
    stage
        .until("all volumes have their objects", |stage| {
            stage.api.objects("persistentvolumes").len() == VOLUMES + CLAIMS
        })
        .await;
    let mut pages = stage.api.requests_to("GET", "*/persistentvolumes");
    pages.retain(|request| request.query.contains_key("limit"));
    assert!(pages.len() >= 2 * PAGES, "{}", pages.len());
    assert!(
        pages.len() <= 5 * PAGES,
        "{} pages for {CLAIMS} claims",
        pages.len()
    );
}
