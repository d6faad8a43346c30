//! Section 10.2: the driver takes snapshots.

use std::time::Duration;

use csi_proto::csi::CreateSnapshotResponse;
use serde_json::json;
use sidecar_testkit::{CallFault, Fault};

use super::stage::{
    CREATE, DELETED, FINALIZER, MARK, NAME, QUICK, Stage, content, secret, settle, taken,
};

const TAKEN: &str = r#"st {"creationTime":1767323045000000000,"readyToUse":true,"restoreSize":1073741824,"snapshotHandle":"snap-1"}"#;

fn answers(stage: &Stage, ready: bool) {
    let snapshot = Some(taken(ready));
    stage
        .driver
        .fault(CallFault::on(CREATE).answer(CreateSnapshotResponse { snapshot }));
}

#[tokio::test]
async fn s_31_s_113_one_call_and_three_patches() {
    let stage = Stage::new().await;
    answers(&stage, true);
    let _program = stage.started(&[]).await;
    stage.api.insert(content("u1"));
    stage.until_ready(NAME).await;
    settle().await;
    assert_eq!(
        stage.trace(),
        ["bc+", "Create snapshot-u1", TAKEN, "bc-"],
        "no GET, no PUT"
    );
    let asked = &stage.asked()[0];
    assert_eq!(asked.source_volume_id, "vol-1");
    assert_eq!(asked.parameters, [("a".into(), "b".into())].into());
    assert!(asked.secrets.is_empty());
    assert_eq!(asked.accessibility_requirements, None, "S-113");
    let found = stage.content();
    assert_eq!(
        found["status"],
        json!({
            "snapshotHandle": "snap-1", "creationTime": 1_767_323_045_000_000_000_i64,
            "restoreSize": 1_073_741_824, "readyToUse": true,
        })
    );
    assert_eq!(found["metadata"]["finalizers"], json!([FINALIZER]));
}

#[tokio::test]
async fn s_32_protected_before_the_call() {
    let stage = Stage::new().await;
    let mut bare = content("u1");
    bare["metadata"]["finalizers"] = json!(["x/y"]);
    stage.api.insert(bare);
    let _program = stage.started(&[]).await;
    stage.until_ready(NAME).await;
    assert_eq!(stage.trace()[..2], ["bc+ F+", "Create snapshot-u1"]);
    let found = stage.content();
    assert_eq!(found["metadata"]["finalizers"], json!(["x/y", FINALIZER]));
}

#[tokio::test]
async fn s_33_to_35_names_and_metadata() {
    let stage = Stage::new().await;
    stage.api.insert(content("u1"));
    let _program = stage
        .started(&["--snapshot-name-prefix=p", "--extra-create-metadata"])
        .await;
    stage.until_ready(NAME).await;
    let asked = &stage.asked()[0];
    assert_eq!(asked.name, "p-u1", "S-33");
    let expected = [
        ("a", "b"),
        ("csi.storage.k8s.io/volumesnapshot/name", "s1"),
        ("csi.storage.k8s.io/volumesnapshot/namespace", "ns"),
        ("csi.storage.k8s.io/volumesnapshotcontent/name", NAME),
    ];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(asked.parameters, expected.into(), "S-35");
    let stage = Stage::new().await;
    let uid = "0123abcd-4567-89ab-cdef-0123456789ab";
    stage.api.insert(content(uid));
    let _program = stage.started(&["--snapshot-name-uuid-length=8"]).await;
    stage.until_ready(&format!("snapcontent-{uid}")).await;
    assert_eq!(stage.asked()[0].name, "snapshot-0123abcd", "S-34");
}

#[tokio::test]
async fn s_38_s_41_the_secret_of_a_call() {
    let stage = Stage::new().await;
    let mut named = content("u1");
    named["metadata"]["annotations"] = json!({
        "snapshot.storage.kubernetes.io/deletion-secret-name": "sec",
        "snapshot.storage.kubernetes.io/deletion-secret-namespace": "ns2",
    });
    stage.api.insert(named);
    let _program = stage.started(&[QUICK]).await;
    stage.until_events("SnapshotCreationFailed", 1).await;
    assert_eq!(stage.calls(CREATE), 0, "S-41");
    assert!(
        stage.content()["metadata"]["annotations"][MARK].is_null(),
        "S-41"
    );
    let event = &stage.events("SnapshotCreationFailed")[0];
    let message = event["message"].as_str().unwrap();
    assert!(
        message.contains("cannot get credentials for snapshot content"),
        "{message}"
    );
    stage.api.insert(secret("sec"));
    stage.until_ready(NAME).await;
    assert_eq!(
        stage.asked()[0].secrets,
        [("u".into(), "p".into())].into(),
        "S-38"
    );
    assert!(stage.content()["status"]["error"].is_null(), "S-41");
}

#[tokio::test]
async fn s_42_a_class_that_comes_later() {
    let stage = Stage::new().await;
    let class = stage.api.object("volumesnapshotclasses", "c1").unwrap();
    stage.api.remove("volumesnapshotclasses", "c1");
    stage.api.insert(content("u1"));
    let _program = stage.started(&["--retry-interval-start=5m"]).await;
    stage.until_events("SnapshotCreationFailed", 1).await;
    assert_eq!(stage.calls(CREATE), 0);
    stage.api.insert(class);
    stage.until_ready(NAME).await;
}

#[tokio::test]
async fn s_45_s_52_what_is_left_alone() {
    let stage = Stage::new().await;
    let mut other = content("u2");
    other["spec"]["driver"] = "other".into();
    stage.api.insert(other);
    stage.api.insert(content("u1"));
    let _program = stage.started(&["--resync-period=1s"]).await;
    stage.until_ready(NAME).await;
    stage.api.clear_requests();
    stage.driver.clear_calls();
    stage.edit(|content| {
        content["metadata"]["labels"] = json!({"a": "b"});
        content["metadata"]["annotations"]["foreign"] = "x".into();
    });
    // No call may come meanwhile.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(
        stage.trace(),
        [""; 0],
        "neither label, annotation, nor resync"
    );
}

#[tokio::test]
async fn s_49_s_51_polling_costs_one_call() {
    let stage = Stage::new().await;
    answers(&stage, false);
    stage.api.insert(content("u1"));
    let _program = stage.started(&[QUICK]).await;
    stage.until_calls(CREATE, 4).await;
    let trace = stage.trace();
    let head = ["bc+", "Create snapshot-u1"];
    assert_eq!(trace[..2], head);
    assert_eq!(
        trace[3..6],
        ["bc-", "Create snapshot-u1", "Create snapshot-u1"],
        "{trace:?}"
    );
    let calls = stage.driver.calls_to(CREATE);
    let waits: Vec<Duration> = { calls.windows(2) }
        .map(|pair| pair[1].started - pair[0].started)
        .collect();
    assert!(waits[0] >= Duration::from_millis(95), "{waits:?}");
    assert!(waits[1] >= Duration::from_millis(190), "{waits:?}");
    assert!(waits[2] >= Duration::from_millis(380), "{waits:?}");
    let asked = stage.asked();
    assert!(
        asked.windows(2).all(|pair| pair[0] == pair[1]),
        "the same request"
    );
    stage.driver.clear_faults();
    answers(&stage, true);
    stage.until_ready(NAME).await;
}

#[tokio::test]
async fn s_54_ten_at_a_time() {
    let stage = Stage::new().await;
    let second = Duration::from_secs(1);
    stage.driver.fault(CallFault::on(CREATE).delay(second));
    for number in 0..50 {
        stage.api.insert(content(&format!("u{number}")));
    }
    let _program = stage.started(&[]).await;
    let all = |stage: &Stage| (0..50).all(|n| stage.is_ready(&format!("snapcontent-u{n}")));
    stage.until("all ready", all).await;
    assert_eq!(stage.driver.peak(CREATE), 10);
    assert_eq!(stage.calls(CREATE), 50, "never two for one content");
}

#[tokio::test]
async fn s_55_s_56_what_others_write_meanwhile_survives() {
    let stage = Stage::new().await;
    let _program = stage.started(&[]).await;
    stage.api.hold_watches("volumesnapshotcontents");
    stage.api.insert(content("u1"));
    // The watch reports the content, while the next write is still on its way.
    let gate = sidecar_testkit::api::fault::Gate::new();
    stage.api.fault(
        Fault::on("PATCH", "*/volumesnapshotcontents/*")
            .times(1)
            .hold(&gate),
    );
    stage.api.release_watches("volumesnapshotcontents");
    stage
        .until("a patch on its way", |_| gate.waiting() > 0)
        .await;
    stage.edit(|content| {
        content["metadata"]["annotations"] = json!({"foreign": "x", DELETED: "yes"});
        content["metadata"]["finalizers"] = json!([FINALIZER, "x/y"]);
    });
    gate.open();
    stage.until_ready(NAME).await;
    let metadata = &stage.content()["metadata"];
    assert_eq!(metadata["annotations"]["foreign"], "x", "S-55");
    assert_eq!(metadata["annotations"][DELETED], "yes", "S-56");
    assert_eq!(metadata["finalizers"], json!([FINALIZER, "x/y"]), "S-101");
}

#[tokio::test]
async fn s_57_a_status_that_is_not_written() {
    let stage = Stage::new().await;
    stage.api.fault(
        Fault::on("PATCH", "*/volumesnapshotcontents/*/status")
            .times(1)
            .answer(500),
    );
    stage.api.insert(content("u1"));
    let _program = stage.started(&[QUICK]).await;
    stage.until_ready(NAME).await;
    let names: Vec<String> = stage.asked().into_iter().map(|asked| asked.name).collect();
    assert_eq!(names, ["snapshot-u1", "snapshot-u1"]);
    stage
        .driver
        .configure(|model| assert_eq!(model.snapshots.len(), 1));
}
