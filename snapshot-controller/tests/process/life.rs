//! The life of a snapshot; the test plays the sidecar.

use serde_json::json;
use sidecar::snapshot::{CLAIM_AS_SOURCE, SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND};
use sidecar_testkit::Fault;

use super::stage::Stage;

fn held(stage: &Stage) -> bool {
    let claim = stage.api.object("persistentvolumeclaims", "ns/p1").unwrap();
    let list = claim["metadata"]["finalizers"].as_array().unwrap().clone();
    list.contains(&CLAIM_AS_SOURCE.into())
}

#[tokio::test]
async fn c_15_c_21_c_22_c_67_a_snapshot_is_taken_and_deleted() {
    let stage = Stage::new().await;
    let process = stage.working(&[]).await;
    let uid = stage.snapshot("s1");
    let content = format!("snapcontent-{uid}");
    stage
        .until_snapshot("s1", |snapshot| {
            snapshot["metadata"]["finalizers"] == json!([SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND])
                && snapshot["status"]
                    == json!({"boundVolumeSnapshotContentName": content, "readyToUse": false})
        })
        .await;
    assert!(held(&stage));
    stage.take(&content, false);
    stage
        .until_snapshot("s1", |snapshot| {
            snapshot["status"]["creationTime"] == "2026-01-02T03:04:05Z"
                && snapshot["status"]["restoreSize"] == "1Gi"
                && snapshot["status"]["readyToUse"] == false
        })
        .await;
    stage.take(&content, true);
    stage
        .until_snapshot("s1", |snapshot| snapshot["status"]["readyToUse"] == true)
        .await;
    stage.until("the claim to be free", |_| !held(&stage)).await;
    stage.api.delete("volumesnapshots", "ns/s1");
    stage.lets_go(&content).await;
    stage.until_snapshot("s1", serde_json::Value::is_null).await;
    stage
        .until("the events", |_| stage.events().len() == 3)
        .await;
    let mut events = stage.events();
    events.sort();
    let expected = ["CreatingSnapshot", "SnapshotCreated", "SnapshotReady"];
    assert_eq!(
        events,
        expected.map(|reason| format!("Normal {reason} VolumeSnapshot s1"))
    );
    let source = &stage.api.objects("events")[0]["source"]["component"];
    assert_eq!(*source, "snapshot-controller");
    drop(process);
}

#[tokio::test]
async fn c_43_requests_are_few() {
    let stage = Stage::new().await;
    let process = stage.working(&[]).await;
    stage.api.clear_requests();
    let uid = stage.snapshot("s1");
    let content = format!("snapcontent-{uid}");
    let bound = [SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND];
    stage
        .until_snapshot("s1", |snapshot| {
            snapshot["metadata"]["finalizers"] == json!(bound)
        })
        .await;
    stage.take(&content, true);
    stage.until("the claim to be free", |_| !held(&stage)).await;
    stage
        .until("the events", |_| stage.events().len() == 3)
        .await;
    let ours: Vec<String> = { stage.api.requests().into_iter() }
        // Leaves out the reviews of the program's permissions, which it sends at any time.
        .filter(|request| !request.is_watch() && !request.path.contains("/authorization.k8s.io/"))
        .map(|request| format!("{} {}", request.method, request.path))
        .collect();
    assert_eq!(ours.len(), 11, "{ours:#?}");
    stage.api.clear_requests();
    stage.api.delete("volumesnapshots", "ns/s1");
    stage.lets_go(&content).await;
    stage.until_snapshot("s1", serde_json::Value::is_null).await;
    let ours = stage.api.writes();
    assert_eq!(ours.len(), 4, "{ours:#?}");
    drop(process);
}

#[tokio::test]
async fn c_38_a_conflict_is_no_failure() {
    let stage = Stage::new().await;
    let put = "/api/v1/namespaces/ns/persistentvolumeclaims/p1";
    stage.api.fault(Fault::on("PUT", put).times(1).answer_raw(
        409,
        r#"{"kind":"Status","status":"Failure","reason":"Conflict","message":"modified","code":409}"#,
    ));
    let process = stage.working(&[]).await;
    let uid = stage.snapshot("s1");
    stage.take_when_there(&format!("snapcontent-{uid}")).await;
    stage
        .until_snapshot("s1", |snapshot| snapshot["status"]["readyToUse"] == true)
        .await;
    stage
        .until("the events", |_| stage.events().len() == 3)
        .await;
    assert!(
        stage
            .events()
            .iter()
            .all(|event| event.starts_with("Normal"))
    );
    assert!(
        !process.log().contains("Error processing"),
        "{}",
        process.log()
    );
}

#[tokio::test]
async fn c_34_a_content_that_is_refused_is_made_later() {
    let stage = Stage::new().await;
    let post = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents";
    stage
        .api
        .fault(Fault::on("POST", post).times(1).answer_saying(403, "no"));
    let process = stage.working(&["--retry-interval-start=200ms"]).await;
    let uid = stage.snapshot("s1");
    stage
        .until("both warnings", |_| {
            let events = stage.events();
            [
                "CreateSnapshotContentFailed",
                "SnapshotContentCreationFailed",
            ]
            .iter()
            .all(|reason| events.contains(&format!("Warning {reason} VolumeSnapshot s1")))
        })
        .await;
    stage.take_when_there(&format!("snapcontent-{uid}")).await;
    stage
        .until_snapshot("s1", |snapshot| snapshot["status"]["readyToUse"] == true)
        .await;
    stage
        .until_snapshot("s1", |snapshot| snapshot["status"]["error"].is_null())
        .await;
    drop(process);
}

#[tokio::test]
async fn c_68_a_content_that_is_kept_stays() {
    let stage = Stage::new().await;
    let process = stage.working(&[]).await;
    let uid = stage.snapshot("s1");
    let content = format!("snapcontent-{uid}");
    stage.take_when_there(&content).await;
    stage
        .until_snapshot("s1", |snapshot| snapshot["status"]["readyToUse"] == true)
        .await;
    stage
        .api
        .edit("volumesnapshotcontents", &content, |content| {
            content["spec"]["deletionPolicy"] = "Retain".into();
        });
    stage.api.delete("volumesnapshots", "ns/s1");
    stage.until_snapshot("s1", serde_json::Value::is_null).await;
    let content = stage
        .api
        .object("volumesnapshotcontents", &content)
        .unwrap();
    assert!(content["metadata"]["deletionTimestamp"].is_null());
    drop(process);
}

#[tokio::test]
async fn c_83_a_claim_of_nobody_is_let_go_at_the_start() {
    let stage = Stage::new().await;
    stage.api.edit("persistentvolumeclaims", "ns/p1", |claim| {
        claim["metadata"]["finalizers"] = json!(["kubernetes.io/pvc-protection", CLAIM_AS_SOURCE]);
        claim["spec"]["unknown"] = json!({"kept": [1]});
    });
    let process = stage.working(&[]).await;
    stage.until("the claim to be free", |_| !held(&stage)).await;
    let claim = stage.api.object("persistentvolumeclaims", "ns/p1").unwrap();
    assert_eq!(claim["spec"]["unknown"], json!({"kept": [1]}));
    drop(process);
}

/// Kills the process after this many of its writes, and starts it again.
async fn killed_after(writes: usize) {
    let stage = Stage::new().await;
    let process = stage.working(&[]).await;
    stage.api.clear_requests();
    let uid = stage.snapshot("s1");
    let content = format!("snapcontent-{uid}");
    stage
        .until("writes", |api| api.writes().len() >= writes)
        .await;
    drop(process);
    let process = stage.working(&[]).await;
    stage.take_when_there(&content).await;
    stage
        .until_snapshot("s1", |snapshot| snapshot["status"]["readyToUse"] == true)
        .await;
    stage.until("the claim to be free", |_| !held(&stage)).await;
    drop(process);
    stage.api.clear_requests();
    let process = stage.working(&[]).await;
    stage.api.delete("volumesnapshots", "ns/s1");
    stage.until("writes", |api| !api.writes().is_empty()).await;
    drop(process);
    let process = stage.working(&[]).await;
    stage.lets_go(&content).await;
    stage.until_snapshot("s1", serde_json::Value::is_null).await;
    assert!(stage.api.objects("volumesnapshotcontents").is_empty());
    drop(process);
}

#[tokio::test]
async fn c_93_it_is_killed_and_goes_on() {
    for writes in [1, 2, 3, 4] {
        killed_after(writes).await;
    }
}
