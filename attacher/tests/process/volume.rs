//! Rows 104 to 112: the finalizer on PersistentVolumes.

use std::time::Duration;

use serde_json::{Value, json};
use sidecar_testkit::Fault;
use sidecar_testkit::build::{self, Object};
use tokio::time::timeout;

use super::stage::{DRIVER, F, PATIENCE, Stage, settle};

async fn gone(stage: &Stage, name: &str) {
    let until = stage
        .api
        .until(|api| api.object("persistentvolumes", name).is_none());
    let waited = timeout(PATIENCE, until).await;
    waited.unwrap_or_else(|_| panic!("{name} stays:\n{}", stage.trace().join("\n")));
}

fn remove(index: usize) -> String {
    let path = format!("/metadata/finalizers/{index}");
    let test = json!({"op": "test", "path": path, "value": F});
    format!("pvp {}", json!([test, {"op": "remove", "path": path}]))
}

#[tokio::test]
async fn rows_104_and_106_the_finalizer_goes_with_the_volume() {
    let stage = Stage::new().await;
    stage.volume("pv2", Some(json!(["a/b", F, "c/d"])));
    stage.volume("pv3", Some(json!(["a/b", F, F])));
    let attacher = stage.start(&[]);
    attacher.logs("Starting CSI attacher").await;
    settle().await;
    assert_eq!(stage.trace(), Vec::<String>::new());
    stage.api.delete("persistentvolumes", "pv2");
    stage
        .until_written("PATCH", "*/persistentvolumes/pv2", 1)
        .await;
    settle().await;
    assert_eq!(stage.trace(), [remove(1)], "row 104");
    stage.api.delete("persistentvolumes", "pv3");
    let left = |api: &sidecar_testkit::FakeApi| {
        let volume = api.object("persistentvolumes", "pv3").unwrap_or_default();
        volume["metadata"]["finalizers"] == json!(["a/b"])
    };
    let finalizers = stage.api.object("persistentvolumes", "pv3").unwrap();
    // An API server may store a doubled finalizer once; if it keeps both, the program removes both.
    let doubled = finalizers["metadata"]["finalizers"]
        .as_array()
        .map_or(0, Vec::len)
        == 3;
    timeout(PATIENCE, stage.api.until(left)).await.unwrap();
    settle().await;
    let patches = stage
        .api
        .requests_to("PATCH", "*/persistentvolumes/pv3")
        .len();
    assert_eq!(patches, if doubled { 2 } else { 1 }, "row 106");
}

#[tokio::test]
async fn row_107_a_volume_that_stays_keeps_its_finalizer_after_the_last_attachment() {
    let stage = Stage::new().await;
    stage.volume("pv2", Some(json!([F])));
    stage.attached("va1", "pv1");
    let foreign = build::attachment("foreign").by("other").on("node1");
    stage.api.insert(foreign.of("pv2"));
    let _attacher = stage.start(&[]);
    stage.api.delete("volumeattachments", "va1");
    stage.until_gone("va1").await;
    stage.api.delete("volumeattachments", "foreign");
    settle().await;
    let trace = stage.trace();
    assert!(
        !trace.iter().any(|line| line.starts_with("pvp")),
        "{trace:#?}"
    );
    // The program has seen both attachments go: now the volumes are deleted.
    for name in ["pv1", "pv2"] {
        stage.api.delete("persistentvolumes", name);
        gone(&stage, name).await;
    }
}

#[tokio::test]
async fn row_112_an_attachments_end_asks_nothing_about_a_volume_without_our_finalizer() {
    let stage = Stage::new().await;
    stage.volume("pv2", Some(json!(["a/b"])));
    stage.volume("pv3", None);
    for (name, volume) in [("on-pv1", "pv1"), ("on-pv2", "pv2")] {
        let foreign = build::attachment(name).by("other").on("node1");
        stage.api.insert(foreign.of(volume));
    }
    stage.attached("ours", "pv3");
    let attacher = stage.start(&[]);
    attacher.logs("Starting CSI attacher").await;
    // The program removes the finalizer only from a volume that is being deleted.
    stage.api.delete("persistentvolumes", "pv1");
    stage.api.delete("persistentvolumes", "pv2");
    settle().await;
    stage.api.delete("volumeattachments", "ours");
    stage.until_gone("ours").await;
    stage.api.delete("volumeattachments", "on-pv2");
    stage.api.delete("volumeattachments", "on-pv1");
    // One watch reports both deletions, in order.
    gone(&stage, "pv1").await;
    settle().await;
    let mut requests = stage.api.requests();
    requests.retain(|request| request.path.contains("/persistentvolumes/"));
    let paths: Vec<&str> = requests.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(paths, ["/api/v1/persistentvolumes/pv1"]);
}

#[tokio::test]
async fn row_105_a_volume_stays_while_any_attachment_names_it() {
    let stage = Stage::new().await;
    stage.api.insert(
        build::attachment("foreign")
            .by("other")
            .on("node1")
            .of("pv1"),
    );
    let attacher = stage.start(&[]);
    attacher.logs("Starting CSI attacher").await;
    stage.api.delete("persistentvolumes", "pv1");
    settle().await;
    assert_eq!(stage.trace(), Vec::<String>::new());
    stage.api.delete("volumeattachments", "foreign");
    gone(&stage, "pv1").await;
    assert_eq!(stage.trace(), [remove(0)]);
}

#[tokio::test]
async fn row_108_a_refused_patch_is_retried_with_back_off() {
    let stage = Stage::new().await;
    stage.api.fault(
        Fault::on("PATCH", "*/persistentvolumes/pv1")
            .answer(422)
            .times(2),
    );
    let _attacher = stage.start(&[]);
    stage.api.delete("persistentvolumes", "pv1");
    gone(&stage, "pv1").await;
    let requests = stage.api.requests_to("PATCH", "*/persistentvolumes/pv1");
    let gaps: Vec<f64> = { requests.windows(2) }
        .map(|pair| (pair[1].at - pair[0].at).as_secs_f64())
        .collect();
    // A busy machine makes pauses longer, nothing makes them shorter.
    assert!(gaps[0] >= 1.0 && gaps[1] >= 2.0, "{gaps:?}");
    assert!(gaps[0] + gaps[1] < 60.0, "{gaps:?}");
}

#[tokio::test]
async fn rows_109_to_111_migration_that_was_turned_back() {
    let stage = Stage::new().await;
    let volume = |name: &str, migrated_to: Option<&str>| {
        let volume = build::volume(name)
            .with("/spec/awsElasticBlockStore", json!({"volumeID": "v"}))
            .finalizer(F);
        stage.api.insert(match migrated_to {
            Some(driver) => volume.annotation("pv.kubernetes.io/migrated-to", driver),
            None => volume,
        });
    };
    volume("none", None);
    volume("ours", Some(DRIVER));
    volume("other", Some("other.driver"));
    let _attacher = stage.start(&[]);
    stage
        .until_written("PATCH", "*/persistentvolumes/*", 2)
        .await;
    settle().await;
    let finalizers = |name: &str| -> Value {
        stage.api.object("persistentvolumes", name).unwrap()["metadata"]["finalizers"].clone()
    };
    assert!(finalizers("none").is_null(), "row 109");
    assert_eq!(finalizers("ours"), json!([F]), "row 110");
    assert!(finalizers("other").is_null(), "row 111");
}

#[tokio::test]
async fn a_volume_goes_after_its_last_detach() {
    let stage = Stage::new().await;
    stage.attached("va1", "pv1");
    let _attacher = stage.start(&[]);
    stage.api.delete("persistentvolumes", "pv1");
    // Whether the watch reports it or not, the outcome is the same.
    tokio::time::sleep(Duration::from_millis(300)).await;
    stage.api.delete("volumeattachments", "va1");
    stage.until_gone("va1").await;
    gone(&stage, "pv1").await;
    assert_eq!(stage.trace()[0], "unpub h-pv1 NID1", "row 98");
}
