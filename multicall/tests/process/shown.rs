//! Rows A-21, A-33, A-55 and A-61: logs and metrics by controller.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sidecar_testkit::controller::PATIENCE;
use sidecar_testkit::driver::ControllerRpc;
use sidecar_testkit::{CallFault, Fault};
use tokio::time::sleep;
use tonic::Code;

use super::stage::{
    ALL, DRIVER, Stage, free_address, get, is_together, provision, settle, until_metrics,
};

/// A content that requests a snapshot of the volume of `a3`.
fn content() -> Value {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshotContent",
        "metadata": {"name": "snapcontent-u1"},
        "spec": {
            "deletionPolicy": "Delete",
            "driver": DRIVER,
            "source": {"volumeHandle": "h-a3"},
            "volumeSnapshotClassName": "nightly",
            "volumeSnapshotRef": {"name": "s1", "namespace": "ns", "uid": "u1"},
        },
    })
}

fn class() -> Value {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshotClass",
        "metadata": {"name": "nightly"},
        "driver": DRIVER,
        "deletionPolicy": "Delete",
    })
}

#[tokio::test]
async fn a_21_each_line_of_a_call_says_whose_it_is_and_is_cut_for_that_one_alone() {
    let stage = Stage::new().await;
    stage.can(ControllerRpc::CreateDeleteSnapshot);
    stage.can(ControllerRpc::ListSnapshots);
    let running = stage.start(&[
        "--controllers=provisioner,attacher,resizer,snapshotter,livenessprobe",
        "--attacher-max-grpc-log-length=1",
        "-v=5",
    ]);
    stage.all_work(0).await;
    stage.api.insert(class());
    stage.api.insert(content());
    let is_ready = || {
        let content = stage.api.object("volumesnapshotcontents", "snapcontent-u1");
        content.unwrap_or_default()["status"]["readyToUse"] == true
    };
    stage.until("the snapshot", is_ready).await;
    // The log line follows a moment later.
    let answered = "err=null controller=\"snapshotter\"";
    running.logs(answered).await;
    let log = running.log();
    let lines = |parts: &[&str]| -> Vec<&str> {
        let lines = log.lines();
        lines
            .filter(|line| parts.iter().all(|part| line.contains(part)))
            .collect()
    };
    for (method, controller) in [
        ("/CreateVolume", "provisioner"),
        ("/ControllerPublishVolume", "attacher"),
        ("/ControllerExpandVolume", "resizer"),
        ("/CreateSnapshot", "snapshotter"),
    ] {
        let whose = format!("controller=\"{controller}\"");
        let calls = lines(&["\"GRPC call\"", method]);
        assert!(!calls.is_empty(), "{method}: {log}");
        assert_eq!(lines(&["\"GRPC call\"", method, &whose]), calls);
        assert!(!lines(&["\"GRPC response\"", &whose]).is_empty(), "{log}");
    }
    let cut = lines(&["log capped to 1 chars"]);
    assert!(!cut.is_empty(), "{log}");
    assert_eq!(lines(&["log capped", "controller=\"attacher\""]), cut);
    running.terminated().await.well();
}

#[tokio::test]
async fn a_33_a_missing_permission_is_named_once_with_all_that_miss_it() {
    let stage = Stage::new().await;
    let question = Fault::on("POST", "*/selfsubjectaccessreviews").when(|request| {
        let asked = &request.body["spec"]["resourceAttributes"];
        asked["resource"] == "persistentvolumeclaims"
            && asked["subresource"] == ""
            && asked["verb"] == "watch"
    });
    stage
        .api
        .fault(question.answer_raw(201, r#"{"status":{"allowed":false}}"#));
    let address = free_address();
    let running = stage.three_in_election(&[&format!("--http-endpoint={address}")]);
    stage.until_held(&ALL, is_together).await;
    running.logs("lacks a permission").await;
    stage.all_work(0).await;
    settle().await;
    let log = running.log();
    let lines: Vec<_> = { log.lines() }
        .filter(|line| line.contains("lacks a permission"))
        .collect();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("persistentvolumeclaims"), "{lines:?}");
    assert!(
        lines[0].contains("controllers=\"provisioner, resizer\""),
        "{lines:?}"
    );
    let (status, text) = get(&address, "/readyz").await;
    assert_eq!((status, text.lines().count()), (503, 1), "{text}");
    assert!(
        text.starts_with("provisioner, resizer: not allowed to "),
        "{text}"
    );
    running.terminated().await.well();
}

/// The series in `text`, without labels that differ between single programs and controllers of a process.
fn series(text: &str) -> BTreeSet<String> {
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    let series = lines.map(|line| {
        let series = line.rsplit_once(' ').map_or(line, |(series, _)| series);
        let (family, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels = labels.trim_end_matches('}').split("\",");
        let mut labels: Vec<_> = { labels }
            .map(|label| label.trim_end_matches('"'))
            .filter(|label| !label.is_empty() && !label.starts_with("controller="))
            .filter(|label| !(family.starts_with("leader_election") && label.starts_with("name=")))
            // Each stage has its own API server.
            .filter(|label| !(family.starts_with("rest_client") && label.starts_with("host=")))
            // O-67: one build, which replaces all of them.
            .filter(|label| {
                let names = ["program=", "replaces="].iter();
                !(family == "csi_sidecar_build_info" && { names }.any(|it| label.starts_with(it)))
            })
            .collect();
        labels.sort_unstable();
        format!("{family}{labels:?}")
    });
    series.collect()
}

#[tokio::test]
async fn a_55_every_family_and_label_value_of_the_single_programs() {
    let stage = Stage::new().await;
    let address = free_address();
    let running = stage.three_in_election(&[&format!("--http-endpoint={address}")]);
    stage.all_work(0).await;

    let stage = Stage::new().await;
    let mut singles = Vec::new();
    for name in ["csi-provisioner", "csi-attacher", "csi-resizer"] {
        let address = free_address();
        let endpoint = format!("--http-endpoint={address}");
        singles.push((stage.single(name, &[&endpoint]), address));
    }
    stage.all_work(0).await;
    settle().await;
    // The shared process asks for capabilities once, before any controller runs; single programs have no such series.
    let once =
        |series: &&String| series.contains("unknown-driver") && series.contains("Capabilities");
    let compare = async || {
        let (_, together) = get(&address, "/metrics").await;
        let shown = series(&together);
        let mut separate = BTreeSet::new();
        for (_process, address) in &singles {
            separate.extend(series(&get(address, "/metrics").await.1));
        }
        let lost: Vec<String> = { separate.difference(&shown) }
            .filter(|series| !once(series))
            .cloned()
            .collect();
        let more: Vec<String> = shown.difference(&separate).cloned().collect();
        (together, lost, more)
    };
    let said_of_each = ["csi_sidecar_controller_up[]"];
    let (mut together, mut lost, mut more) = compare().await;
    let begun = Instant::now();
    // A busy machine is late with the last of either.
    while (!lost.is_empty() || more != said_of_each) && begun.elapsed() < PATIENCE {
        sleep(Duration::from_millis(100)).await;
        (together, lost, more) = compare().await;
    }
    assert!(lost.is_empty(), "{lost:#?}");
    assert_eq!(more, said_of_each);
    for controller in ALL {
        for family in ["concurrency_limit{", "refused_total{", "requests_running{"] {
            let series = format!("csi_sidecar_kube_api_{family}controller=\"{controller}\"");
            assert!(together.contains(&series), "{series}: {together}");
        }
    }
    running.terminated().await.well();
}

#[tokio::test]
async fn a_61_a_flood_of_claims_does_not_silence_the_attacher() {
    let stage = Stage::new().await;
    let refusal = CallFault::on("ControllerPublishVolume");
    stage
        .driver
        .fault(refusal.fail(Code::Internal, "no path to the array"));
    let running = stage.three(&["--attacher-retry-interval-start=100ms"]);
    running.logs("Starting CSI attacher").await;
    for number in 0..1000 {
        provision(&stage, 1000 + number);
    }
    stage.attach(0);
    let is_written = || {
        let events = stage.api.objects("events");
        events
            .iter()
            .any(|event| event.to_string().contains("no path to the array"))
    };
    stage.until("the event of the attach", is_written).await;
    // Independent of the machine's speed: the event is written amid the flood, not after it.
    let made = stage.api.objects("persistentvolumes");
    let flood = |volume: &&Value| !volume["spec"]["claimRef"].is_null();
    let made = made.iter().filter(flood).count();
    assert!(made < 500, "{made} of 1000 claims have their volume");
    running.terminated().await.well();
}

#[tokio::test]
async fn o_96_the_figures_for_service_levels_are_shown_once() {
    let stage = Stage::new().await;
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let running = stage.three_in_election(&[&endpoint]);
    // The resizer does not know when an expansion that it found was requested.
    running.logs("Starting external resizer").await;
    stage.all_work(0).await;
    let stages = ["provisioned", "attached", "expanded_storage"];
    let ended = |stage: &str| format!("driver_name=\"{DRIVER}\",stage=\"{stage}\"}} ");
    let mut text = String::new();
    for stage in stages {
        text = until_metrics(&address, &ended(stage)).await;
    }
    running.terminated().await.well();
    for stage in stages {
        let open = format!("csi_sidecar_lifecycle_unfinished{{stage=\"{stage}\"}} ");
        assert_eq!(text.matches(&open).count(), 1, "{stage}: {text}");
        let ended = ended(stage);
        let ended = { text.lines() }.filter(|line| {
            line.starts_with("csi_sidecar_lifecycle_seconds_count{") && line.contains(&ended)
        });
        assert_eq!(ended.count(), 1, "{stage}: {text}");
    }
    let skews = text.matches("\ncsi_sidecar_clock_skew_seconds ").count();
    assert_eq!(skews, 1, "{text}");
}
