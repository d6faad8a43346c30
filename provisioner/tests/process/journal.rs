//! Rows J-1 to J-17 as far as one or two processes can show them: the provisioning journal.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use sidecar_testkit::api::access::Allow;
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::controller::until_metrics;
use sidecar_testkit::driver::ControllerRpc;
use sidecar_testkit::{CallFault, Fault};
use tonic::Code;

use super::stage::{
    ANNOTATION, DRIVER, ELECTION, JOURNAL, PROTECTION, PV, READY, Stage, U, claim, class,
    finalizers, free_address, get, is_journal, many, released, settle, together, until_answer,
};

const CREATE: &str = "CreateVolume";
const QUICK: &str = "--retry-interval-start=300ms";
const WRITE: &str = "*/leases/test-driver-journal-0";

/// Number of the journal's successful writes.
fn commits(stage: &Stage) -> usize {
    let writes = stage.api.writes();
    { writes.iter() }
        .filter(|write| is_journal(write) && write.status.is_some_and(|status| status < 300))
        .count()
}

#[tokio::test]
async fn j_1_the_intent_is_written_before_the_call_and_nothing_on_the_claim() {
    let stage = Stage::new().await;
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let program = stage.start(&[&endpoint]);
    program.logs(READY).await;
    let opening = commits(&stage);
    assert_eq!(opening, 1, "the epoch");
    stage.api.insert(claim());
    stage.until_volume(PV).await;
    let made = stage.api.requests_to("POST", "*/persistentvolumes")[0].number;
    let mut before = stage.api.writes();
    before.retain(|write| is_journal(write) && write.number < made);
    assert_eq!(before.len(), opening + 1, "one write more");
    let trace = stage.history();
    let position = |text: &str| trace.iter().position(|line| line.contains(text));
    let written = position("intent.csi-sidecars.io/").unwrap();
    assert!(Some(written) < position(CREATE), "{trace:#?}");
    stage.until_settled().await;
    assert_eq!(commits(&stage), opening + 2);
    assert!(
        { stage.api.requests_to("*", "*/persistentvolumeclaims/*") }.is_empty(),
        "nothing of ours is on it"
    );
    let written = "csi_sidecar_provisioning_journal_commit_seconds_count 3\n";
    let text = until_metrics(&address, written).await;
    for line in [
        "csi_sidecar_provisioning_journal_commit_seconds_count ",
        "csi_sidecar_provisioning_journal_commit_intents_sum ",
        "csi_sidecar_provisioning_in_doubt ",
    ] {
        let line = text.lines().find(|held| held.starts_with(line));
        let value = line.and_then(|line| line.rsplit(' ').next());
        let expected = match line {
            Some(line) if line.contains("_count") => "3",
            Some(line) if line.contains("_sum") => "1",
            _ => "0",
        };
        assert_eq!(value, Some(expected), "{text}");
    }
}

/// The leak of a chaos run: the claim is deleted while its first call is under way, and the leader is killed.
#[tokio::test]
async fn j_4_and_j_5_killed_in_a_call_whose_claim_is_deleted() {
    together(["under way", "in doubt", "answered"], killed).await;
}

async fn killed(when: &'static str) {
    let stage = Stage::new().await;
    let fault = match when {
        "under way" => CallFault::on(CREATE).lose_reply(),
        "in doubt" => CallFault::on(CREATE).fail_after(Code::DeadlineExceeded, "late"),
        _ => CallFault::on(CREATE).delay(Duration::ZERO),
    };
    stage.driver.fault(fault.times(1));
    let post = stage
        .api
        .fault(Fault::on("POST", "*/persistentvolumes").hang());
    let program = stage.start(&["--retry-interval-start=60s", "--timeout=1m"]);
    stage
        .api
        .insert(claim().finalizer("kubernetes.io/pvc-protection"));
    stage.until_calls(CREATE, 1).await;
    stage.api.delete("persistentvolumeclaims", "ns1/c1");
    if when == "in doubt" {
        stage.until_events("ProvisioningFailed", 1).await;
    }
    settle().await;
    program.kill().await;
    post.remove();
    stage.api.remove("persistentvolumeclaims", "ns1/c1");
    let _successor = stage.start(&[]);
    stage.until_volume(PV).await;
    let requests = stage.creations();
    // A claim with a call of unknown outcome is also requeued when it is being deleted.
    assert!(requests.len() >= 2, "{when}");
    let same = |pair: &[_]| pair[0] == pair[1];
    assert!(requests.windows(2).all(same), "{when}");
    stage.until_settled().await;
    stage.api.edit("persistentvolumes", PV, |object| {
        object["status"]["phase"] = "Released".into();
    });
    stage.until_volume_gone(PV).await;
    stage
        .driver
        .configure(|model| assert!(model.volumes.is_empty(), "{when}: {model:?}"));
}

#[tokio::test]
async fn j_6_and_j_15_who_was_frozen_waits_without_another_call() {
    let stage = Stage::new().await;
    stage
        .driver
        .fault(CallFault::on(CREATE).fail(Code::Aborted, "busy").times(2));
    let mut frozen = stage.start(&["--retry-interval-start=6s"]);
    stage.api.insert(claim());
    stage.until_events("ProvisioningFailed", 1).await;
    frozen.signal(Signal::STOP);
    let _successor = stage.start(&[QUICK]);
    stage.until_volume(PV).await;
    stage.until_settled().await;
    let calls = stage.calls(CREATE);
    // Longer than the lease of the frozen process.
    tokio::time::sleep(Duration::from_secs(4)).await;
    frozen.signal(Signal::CONT);
    frozen.logs(RIVAL).await;
    settle().await;
    assert!(frozen.is_running(), "{}", frozen.log());
    assert_eq!(stage.calls(CREATE), calls);
    let requests = stage.creations();
    assert!(requests.windows(2).all(|pair| pair[0] == pair[1]));
    frozen.terminated().await.well();
}

const RIVAL: &str = "Another process provisions volumes for this driver";

#[tokio::test]
async fn p_10_and_j_15_two_processes_without_election_do_not_end_each_other() {
    let stage = Stage::new().await;
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let mut first = stage.start(&[&endpoint]);
    first.logs(READY).await;
    let mut second = stage.start(&[]);
    second.logs(READY).await;
    // Both processes see the claims; one makes their volumes.
    let volume = |number: usize| format!("pvc-uid-{number}");
    for number in 0..3 {
        stage.api.insert(many(number));
        stage.until_volume(&volume(number)).await;
    }
    first.logs(RIVAL).await;
    let reason = until_answer(&address, "/readyz", 503, "without --leader-election").await;
    assert!(reason.contains("journal"), "{reason}");
    stage.until_settled().await;
    settle().await;
    assert_eq!(stage.calls(CREATE), 3, "each once");
    assert!(first.is_running(), "{}", first.log());
    assert!(second.is_running(), "{}", second.log());
    // Once the other process is gone it works again, without a restart.
    second.terminate();
    assert_eq!(second.end().await.code, Some(0));
    stage.api.insert(many(3));
    stage.until_volume(&volume(3)).await;
    until_answer(&address, "/readyz", 200, "ok").await;
    assert_eq!(stage.calls(CREATE), 4);
    assert!(first.is_running(), "{}", first.log());
    assert_eq!(first.log().matches(RIVAL).count(), 1);
}

/// A process that is killed after the outcome of its call for the claim has become unknown.
async fn killed_without_answer(stage: &Stage) {
    killed_by(
        stage,
        CallFault::on(CREATE).fail(Code::DeadlineExceeded, "late"),
    )
    .await;
}

async fn killed_by(stage: &Stage, fault: CallFault) {
    stage.driver.fault(fault.times(1));
    let program = stage.start(&["--retry-interval-start=60s"]);
    stage.api.insert(claim());
    stage.until_events("ProvisioningFailed", 1).await;
    program.kill().await;
}

/// Kills another process in the same state, for another claim, which is then deleted.
async fn killed_without_answer_again(stage: &Stage) {
    let program = stage.start(&["--retry-interval-start=60s"]);
    program.logs(READY).await;
    let late = CallFault::on(CREATE).fail(Code::DeadlineExceeded, "late");
    stage.driver.fault(late.times(1));
    let failed = stage.events("ProvisioningFailed").len();
    stage.api.insert(numbered(4));
    stage.until_events("ProvisioningFailed", failed + 1).await;
    program.kill().await;
    stage.api.remove("persistentvolumeclaims", "ns1/c4");
}

#[tokio::test]
async fn j_8_fp_4_a_successor_with_other_flags_repeats_the_same() {
    let stage = Stage::new().await;
    stage.api.remove("storageclasses", "sc1");
    stage.api.insert(class().parameter("a", "b"));
    killed_without_answer(&stage).await;
    stage.driver.stop();
    stage.can(ControllerRpc::SingleNodeMultiWriter);
    stage.driver.start();
    stage.api.remove("storageclasses", "sc1");
    let flags = ["--extra-create-metadata", "--default-fstype=xfs"];
    let _successor = stage.start(&flags);
    stage.until_volume(PV).await;
    let requests = stage.creations();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0], requests[1]);
}

#[tokio::test]
async fn j_9_an_administrator_s_hand() {
    let stage = Stage::new().await;
    killed_without_answer(&stage).await;
    stage.api.remove("persistentvolumeclaims", "ns1/c1");
    stage.api.edit("leases", JOURNAL, |lease| {
        let all = lease["metadata"]["annotations"].as_object_mut().unwrap();
        all.remove(&format!("intent.csi-sidecars.io/{U}"));
        all.insert("intent.csi-sidecars.io/broken".into(), "{".into());
    });
    let successor = stage.start(&[]);
    successor.logs(READY).await;
    settle().await;
    assert_eq!(stage.calls(CREATE), 1, "forgotten, as asked");
    assert!(
        successor
            .log()
            .contains("intent.csi-sidecars.io/broken: it is damaged")
    );
    stage.api.insert(numbered(2));
    stage.until_volume("pvc-u2").await;
    assert!(stage.intents().contains(&"broken".to_owned()), "kept");
    stage.api.remove("leases", JOURNAL);
    stage.api.insert(numbered(3));
    stage.until_volume("pvc-u3").await;
    assert!(
        !stage
            .api
            .object("leases", JOURNAL)
            .unwrap_or_default()
            .is_null(),
        "made anew"
    );
}

/// Objects of a backup, in a cluster with the same storage: a volume of unknown outcome, for a claim that does not
/// exist there, may be in use in the cluster of the backup.
#[tokio::test]
async fn j_21_a_journal_from_a_backup_deletes_no_volume_of_the_cluster_it_comes_from() {
    let stage = Stage::new().await;
    let made = CallFault::on(CREATE).fail_after(Code::DeadlineExceeded, "late");
    killed_by(&stage, made).await;
    let mut lease = stage.api.object("leases", JOURNAL).unwrap();
    stage.api.remove("leases", JOURNAL);
    stage.api.remove("persistentvolumeclaims", "ns1/c1");
    let metadata = lease["metadata"].as_object_mut().unwrap();
    metadata.retain(|field, _| ["name", "namespace", "annotations"].contains(&field.as_str()));
    stage.api.insert(lease);
    let apart = |stage: &Stage| {
        let lease = stage.api.object("leases", JOURNAL).unwrap_or_default();
        lease["metadata"]["annotations"][&format!("restored.csi-sidecars.io/{U}")].is_string()
    };
    for number in 2..4 {
        let successor = stage.start(&[]);
        successor.logs(READY).await;
        stage.api.insert(numbered(number));
        stage.until_volume(&format!("pvc-u{number}")).await;
        settle().await;
        assert!(stage.api.object("persistentvolumes", PV).is_none());
        assert!(apart(&stage));
        let warning = format!("restored.csi-sidecars.io/{U}: the Lease is from a backup");
        assert_eq!(successor.log().contains(&warning), number == 2, "once");
        successor.terminate();
        successor.end().await;
    }
    stage.driver.configure(|model| {
        let volume = model.volumes.values().find(|volume| volume.name == PV);
        assert!(volume.is_some(), "{model:?}");
    });
    // In the cluster that has it now, the journal works like any other.
    killed_without_answer_again(&stage).await;
    let _successor = stage.start(&[]);
    stage.until_volume("pvc-u4").await;
}

/// The entry may come from a newer program, which can read it.
#[tokio::test]
async fn j_9_an_entry_that_cannot_be_read_outlives_the_next_call_for_its_claim() {
    let stage = Stage::new().await;
    killed_without_answer(&stage).await;
    let entry = format!("intent.csi-sidecars.io/{U}");
    let newer = r#"{"prepared":{"name":{"later":true}}}"#;
    stage.api.edit("leases", JOURNAL, |lease| {
        lease["metadata"]["annotations"][&entry] = newer.into();
    });
    let second = "csi/test-driver-journal-1";
    let successor = stage.start(&[]);
    stage.until_volume(PV).await;
    stage
        .until("its own entry goes", |stage| {
            let lease = stage.api.object("leases", second);
            lease.is_some() && stage.intents_in(second).is_empty()
        })
        .await;
    let stays = |stage: &Stage| {
        let lease = stage.api.object("leases", JOURNAL).unwrap();
        lease["metadata"]["annotations"][&entry] == newer
    };
    assert!(stays(&stage));
    successor.terminate();
    successor.end().await;
    assert!(stays(&stage));
}

#[tokio::test]
async fn j_10_no_call_before_it_is_known_that_the_intent_is_durable() {
    let write = || Fault::on("PUT", WRITE);
    together(
        [
            ("500", write().answer(500).times(2)),
            ("429", write().too_many(0).times(2)),
            ("lost answer", write().lose_reply().times(1)),
            ("409", write().answer(409).times(1)),
        ],
        refused_at_first,
    )
    .await;
}

async fn refused_at_first((row, fault): (&'static str, Fault)) {
    let stage = Stage::new().await;
    let program = stage.start(&["--kube-api-qps=50"]);
    program.logs(READY).await;
    stage.api.fault(fault);
    stage.api.insert(claim());
    stage.until_volume(PV).await;
    let trace = stage.history();
    let calls = trace
        .iter()
        .position(|line| line.starts_with(CREATE))
        .unwrap();
    let known = trace[..calls].iter().any(|line| {
        line.contains("-journal-0") && line.contains("Some(200)") && line.contains(U)
            || row == "lost answer" && line.starts_with("GET") && line.contains("-journal-0")
    });
    assert!(known, "{row}: {trace:#?}");
    assert_eq!(stage.calls(CREATE), 1, "{row}");
    assert!(stage.events("ProvisioningFailed").is_empty(), "{row}");
}

#[tokio::test]
async fn j_11_refused_for_good() {
    let stage = Stage::new().await;
    let program = stage.start(&[QUICK]);
    program.logs(READY).await;
    let full = Fault::on("PUT", WRITE).answer_saying(403, "exceeded quota");
    let full = stage.api.fault(full);
    stage.api.insert(claim());
    stage.until_events("ProvisioningFailed", 1).await;
    let text = &stage.events("ProvisioningFailed")[0];
    assert!(
        text.contains("provisioning journal: exceeded quota"),
        "{text}"
    );
    settle().await;
    assert_eq!(stage.calls(CREATE), 0);
    let log = program.log();
    assert_eq!(
        log.matches("no volume is created until that works").count(),
        1,
        "said once: {log}"
    );
    full.remove();
    stage.until_volume(PV).await;
}

/// The same before the process has started, and for longer than a row lasts: work without calls for a claim goes on,
/// and so do claims once the Lease can be written.
#[tokio::test]
async fn p_1_j_4_j_10_and_j_11_refused_from_before_the_start() {
    let post = || Fault::on("POST", "*/leases").when(is_journal);
    together(
        [
            ("quota", post().answer_saying(403, "exceeded quota")),
            ("no namespace", post().answer_saying(404, "not found")),
            ("webhook", post().answer_saying(422, "labels are missing")),
            ("500", post().answer_saying(500, "etcd")),
            ("429", post().too_many(0)),
            ("no answer", post().hang()),
        ],
        refused_from_the_start,
    )
    .await;
}

async fn refused_from_the_start((row, fault): (&'static str, Fault)) {
    let stage = Stage::new().await;
    let refused = stage.api.fault(fault);
    stage.driver.volume("vol-pv1");
    stage.api.insert(released("pv1"));
    stage.api.insert(claim());
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let program = stage.start(&[QUICK, &endpoint]);
    program.logs(READY).await;
    stage
        .until("the volume is deleted", |stage| {
            finalizers(&stage.volume("pv1")) == json!([PROTECTION])
        })
        .await;
    stage.until_events("ProvisioningFailed", 1).await;
    let text = &stage.events("ProvisioningFailed")[0];
    assert!(
        text.contains("cannot write the provisioning journal: "),
        "{row}: {text}"
    );
    // The process reports the same as a process whose journal is open.
    stage.api.insert(numbered(2));
    stage.api.delete("persistentvolumeclaims", "ns1/c2");
    assert_eq!(stage.calls(CREATE), 0, "{row}");
    let hindered = "csi-provisioner: no volume is created until the provisioning journal";
    until_answer(&address, "/readyz", 503, hindered).await;
    if row == "quota" {
        // Killed, and restarted, before the journal could be written at all.
        program.kill().await;
        let again = stage.start(&[QUICK]);
        again.logs(READY).await;
        refused.remove();
        stage.until_volume(PV).await;
        return;
    }
    refused.remove();
    stage.until_volume(PV).await;
    assert_eq!(stage.calls(CREATE), 1, "{row}");
    until_answer(&address, "/readyz", 200, "ok").await;
    program.terminate();
    assert_eq!(program.end().await.code, Some(0), "{row}");
}

#[tokio::test]
async fn p_1_a_process_whose_journal_is_closed_ends_in_good_order() {
    let stage = Stage::new().await;
    let post = Fault::on("POST", "*/leases").when(is_journal);
    stage.api.fault(post.answer_saying(403, "exceeded quota"));
    let program = stage.start(&[QUICK]);
    program.logs(READY).await;
    program.terminate();
    assert_eq!(program.end().await.code, Some(0));
}

/// A policy that requires labels on Leases requires them on all of them.
#[tokio::test]
async fn p_1_the_labels_of_the_election_are_on_the_journal() {
    let stage = Stage::new().await;
    let labels = ["--leader-election-labels=team:storage"];
    let program = stage.start(&[&ELECTION[..], &labels].concat());
    program.logs(READY).await;
    for name in ["csi/test-driver", JOURNAL] {
        let lease = stage.api.object("leases", name).unwrap();
        assert_eq!(lease["metadata"]["labels"]["team"], "storage", "{name}");
    }
}

/// administrators.md only names `-0`.
#[tokio::test]
async fn j_22_a_call_in_the_second_lease_survives_that_the_first_one_is_deleted() {
    let stage = Stage::new().await;
    killed_by(
        &stage,
        CallFault::on(CREATE).fail_after(Code::DeadlineExceeded, "late"),
    )
    .await;
    let first = stage.api.object("leases", JOURNAL).unwrap();
    stage.api.remove("leases", JOURNAL);
    stage.api.remove("persistentvolumeclaims", "ns1/c1");
    let mut second = first;
    second["metadata"]["name"] = "test-driver-journal-1".into();
    let metadata = second["metadata"].as_object_mut().unwrap();
    metadata.retain(|field, _| ["name", "namespace", "annotations"].contains(&field.as_str()));
    // The header that the process would have written into the second Lease.
    let header = &mut second["metadata"]["annotations"]["csi-sidecars.io/journal"];
    let mut header_json: serde_json::Value =
        serde_json::from_str(header.as_str().unwrap()).unwrap();
    header_json["objects"] = 2.into();
    header_json.as_object_mut().unwrap().remove("uid");
    *header = header_json.to_string().into();
    stage.api.insert(second);
    let successor = stage.start(&[QUICK]);
    stage.until_volume(PV).await;
    successor.logs("Resuming calls of an earlier process").await;
    assert_eq!(stage.calls(CREATE), 2);
    let requests = stage.creations();
    assert_eq!(requests[0], requests[1]);
}

/// Slower than the confirmation that no other process leads, which the election gives here.
#[tokio::test]
async fn p_7_j_23_slow_leases_hold_up_no_call_under_an_election() {
    let stage = Stage::new().await;
    let program = stage.start(&ELECTION);
    program.logs(READY).await;
    let slow = Fault::on("PUT", WRITE).late_reply(Duration::from_millis(4_500));
    stage.api.fault(slow);
    let slow = Fault::on("GET", WRITE).late_reply(Duration::from_millis(4_500));
    stage.api.fault(slow);
    stage.api.insert(claim());
    stage.until_volume(PV).await;
    assert!(stage.events("ProvisioningFailed").is_empty());
}

#[tokio::test]
async fn j_11_without_permission_or_namespace_or_wish_it_works_from_memory() {
    const NONE: &[&str] = &[];
    const OFF: &[&str] = &["--provisioning-protection=off"];
    together(
        [
            ("permission", NONE, "csi"),
            ("namespace", NONE, ""),
            ("wish", OFF, "csi"),
        ],
        from_memory,
    )
    .await;
}

async fn from_memory(
    (lacks, flags, namespace): (&'static str, &'static [&'static str], &'static str),
) {
    let stage = Stage::new().await;
    if lacks == "permission" {
        let all = [
            "persistentvolumes",
            "persistentvolumeclaims",
            "events",
            "storageclasses",
        ];
        let rules = all.map(|kind| {
            let group = if kind == "storageclasses" {
                "storage.k8s.io"
            } else {
                ""
            };
            Allow::new(group, kind, "get,list,watch,create,update,patch,delete")
        });
        stage.api.allow_only(rules);
    }
    stage.driver.fault(
        CallFault::on(CREATE)
            .fail(Code::DeadlineExceeded, "late")
            .times(1),
    );
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let arguments: Vec<&str> = { flags.iter().copied() }
        .chain([QUICK, &endpoint])
        .collect();
    let program = stage.start_in(&arguments, &[("POD_NAMESPACE", namespace)]);
    stage.api.insert(claim());
    stage.until_volume(PV).await;
    let metrics = get(&address, "/metrics").await.1;
    let without = u8::from(lacks != "wish");
    let line = format!("\ncsi_sidecar_provisioning_without_journal {without}\n");
    assert!(metrics.contains(&line), "{lacks}: {metrics}");
    assert!({ stage.api.objects("leases") }.is_empty(), "{lacks}");
    let log = program.log();
    let warnings = log.matches("No provisioning journal").count();
    assert_eq!(warnings, usize::from(lacks != "wish"), "{lacks}: {log}");
    if lacks == "permission" {
        let rule = r#"resources: [\"leases\"], verbs: [\"get\", \"create\", \"update\"]"#;
        let plain = rule.replace('\\', "");
        assert!(log.contains(rule) || log.contains(&plain), "{log}");
    }
    let requests = stage.creations();
    assert_eq!(requests[0], requests[1], "{lacks}");
}

/// A namespace with 50 claims whose calls have unknown outcomes is deleted, and their Secret with it: none of the
/// user's objects waits for the provisioner.
#[tokio::test]
async fn j_7_fp_3_a_namespace_goes_although_its_secret_is_gone() {
    const CLAIMS: usize = 50;
    let stage = Stage::new().await;
    stage.api.remove("storageclasses", "sc1");
    let secret = class().parameter("csi.storage.k8s.io/provisioner-secret-name", "sec");
    stage
        .api
        .insert(secret.parameter("csi.storage.k8s.io/provisioner-secret-namespace", "ns1"));
    let values = || build::secret("ns1/sec").entry("k", "dg==");
    stage.api.insert(values());
    stage.driver.fault(
        CallFault::on(CREATE)
            .fail_after(Code::DeadlineExceeded, "late")
            .times(CLAIMS),
    );
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    // Nothing is repeated until the Secret is gone.
    let slow = "--retry-interval-start=2m";
    let program = stage.start(&[slow, "--kube-api-qps=1000", &endpoint]);
    for number in 0..CLAIMS {
        stage.api.insert(numbered(number));
    }
    stage.until_events("ProvisioningFailed", CLAIMS).await;
    stage.api.remove("secrets", "ns1/sec");
    for number in 0..CLAIMS {
        let name = format!("ns1/c{number}");
        stage.api.delete("persistentvolumeclaims", &name);
        assert!(stage.claim(&name).is_null(), "it is gone at once");
    }
    program.logs_times("error getting secret sec", CLAIMS).await;
    settle().await;
    assert_eq!(stage.intents().len(), CLAIMS, "the journal keeps them");
    let warnings = program.log().matches("remove the annotation from").count();
    assert_eq!(warnings, CLAIMS, "the way out, once for each");
    assert_eq!(
        stage.calls(CREATE),
        CLAIMS,
        "not without what it insists on"
    );
    let text = get(&address, "/metrics").await.1;
    let pending_creates =
        { text.lines() }.find(|line| line.starts_with("csi_sidecar_provisioning_in_doubt "));
    assert_eq!(
        pending_creates,
        Some("csi_sidecar_provisioning_in_doubt 50"),
        "{text}"
    );
    let written = format!("{:?}", stage.api.object("leases", JOURNAL));
    assert!(
        !written.contains("dg==") && written.contains("sec"),
        "{written}"
    );
    program.kill().await;
    stage.api.insert(values());
    let _successor = stage.start(&[QUICK, "--kube-api-qps=1000"]);
    stage.until_settled().await;
    let volumes = || stage.api.objects("persistentvolumes");
    assert_eq!(volumes().len(), CLAIMS);
    for volume in volumes() {
        let name = volume["metadata"]["name"].as_str().unwrap_or_default();
        stage.api.edit("persistentvolumes", name, |object| {
            object["status"]["phase"] = "Released".into();
        });
    }
    stage
        .until("they go", |stage| {
            stage.api.objects("persistentvolumes").is_empty()
        })
        .await;
    let left = stage.handles().len();
    assert_eq!(left, 0);
}

fn numbered(number: usize) -> build::Claim {
    build::claim(&format!("ns1/c{number}"))
        .class("sc1")
        .mode("RWO")
        .uid(&format!("u{number}"))
        .annotation(ANNOTATION, DRIVER)
}

/// Runs with the default number of workers.
#[tokio::test]
async fn j_2_p_12_a_thousand_claims_at_once_cost_few_writes() {
    const CLAIMS: usize = 1000;
    let stage = Stage::new().await;
    let program = stage.start(&["--worker-threads=100", "--timeout=5m"]);
    program.logs(READY).await;
    let opening = commits(&stage);
    for number in 0..CLAIMS {
        stage.api.insert(numbered(number));
    }
    let began = std::time::Instant::now();
    stage
        .until("all volumes", |stage| {
            stage.api.objects("persistentvolumes").len() == CLAIMS
        })
        .await;
    let (took, writes) = (began.elapsed(), commits(&stage) - opening);
    println!("{writes} writes of the journal for {CLAIMS} claims in {took:?}");
    assert_eq!(stage.calls(CREATE), CLAIMS);
    // An overloaded machine takes longer, and writes more often.
    let most = (20 + took.as_millis() / 250).max(60);
    assert!(
        u128::try_from(writes).unwrap() <= most,
        "{writes} in {took:?}"
    );
    stage.until_settled().await;
    // P-12: a write has the open calls only, not the earlier ones.
    let mut writes = stage.api.writes();
    writes.retain(is_journal);
    let bytes = writes.iter().map(|write| write.body.to_string().len());
    let (largest, all) = (
        bytes.clone().max().unwrap_or_default(),
        bytes.sum::<usize>(),
    );
    println!("{all} bytes, {largest} at most");
    assert!(largest <= 256 << 10, "{largest} bytes");
}

/// Back to a program without a journal, which `off` stands for, and forth again.
#[tokio::test]
async fn j_16_a_swap_to_upstream_and_back() {
    let stage = Stage::new().await;
    stage.driver.fault(
        CallFault::on(CREATE)
            .fail_after(Code::DeadlineExceeded, "late")
            .times(2),
    );
    let program = stage.start(&["--retry-interval-start=60s"]);
    stage.api.insert(numbered(1));
    stage.api.insert(numbered(2));
    stage.until_events("ProvisioningFailed", 2).await;
    program.terminate();
    assert_eq!(program.end().await.code, Some(0));
    stage.api.remove("persistentvolumeclaims", "ns1/c2");
    let journal = |stage: &Stage| stage.api.object("leases", JOURNAL).unwrap_or_default();
    let before = journal(&stage);
    let other = stage.start(&["--provisioning-protection=off"]);
    stage.until_volume("pvc-u1").await;
    settle().await;
    assert_eq!(journal(&stage), before, "nobody reads or writes it");
    assert_eq!(finalizers(&stage.claim("ns1/c1")), json!([]));
    assert!(stage.volume("pvc-u2").is_null(), "forgotten, as ever");
    other.terminate();
    assert_eq!(other.end().await.code, Some(0));
    // Back: open entries are taken up, finished ones are settled.
    let back = stage.start(&[QUICK]);
    stage.until_volume("pvc-u2").await;
    stage.until_settled().await;
    assert_eq!(stage.calls(CREATE), 4);
    // The feature is turned off for good: the documented command deletes the rest, the Lease.
    back.terminate();
    assert_eq!(back.end().await.code, Some(0));
    stage.api.remove("leases", JOURNAL);
    let again = stage.start(&[]);
    again.logs(READY).await;
    stage.api.insert(numbered(3));
    stage.until_volume("pvc-u3").await;
}

#[tokio::test]
async fn j_14_fp_1_only_the_node_that_made_the_call_goes_on() {
    const SELECTED: &str = "volume.kubernetes.io/selected-node";
    let one = Stage::new().await;
    let two = sidecar_testkit::FakeDriver::new(DRIVER);
    two.configure(|model| model.controller = vec![ControllerRpc::CreateDeleteVolume]);
    two.start();
    one.driver.fault(
        CallFault::on(CREATE)
            .fail_after(Code::DeadlineExceeded, "late")
            .times(1),
    );
    let at = |node: &'static str, socket: String| {
        let flags = ["--node-deployment", "--retry-interval-start=1s", &socket];
        one.start_in(&flags, &[("NODE_NAME", node)])
    };
    let address = |driver: &sidecar_testkit::FakeDriver| {
        format!("--csi-address={}", driver.socket().display())
    };
    let first = at("n1", address(&one.driver));
    let other = at("n2", address(&two));
    first.logs(READY).await;
    other.logs(READY).await;
    one.api.insert(claim().annotation(SELECTED, "n1"));
    one.until_calls(CREATE, 1).await;
    assert_eq!(one.intents_in("csi/test-driver-journal-n1-0"), [U]);
    assert!({ one.intents_in("csi/test-driver-journal-n2-0") }.is_empty());
    // The successors know their own calls as well.
    first.kill().await;
    other.kill().await;
    let other = at("n2", address(&two));
    other.logs(READY).await;
    settle().await;
    let _first = at("n1", address(&one.driver));
    one.until_volume(PV).await;
    settle().await;
    assert!(two.calls_to(CREATE).is_empty(), "its driver was not asked");
    assert_eq!(one.calls(CREATE), 2);
}
