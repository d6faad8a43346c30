//! Requests to the API server, and calls whose requests it refuses: rows CB-20 to CB-30.

use serde_json::{Value, json};
use sidecar_testkit::Fault;
use tonic::Code;

use crate::stage::{
    CLASSES, CONTENTS, DRIVER, SNAPSHOTS, Stage, blocks, class, content, get, request, secret,
    snapshot,
};

const SERVICES: &str = "snapshotmetadataservices";
const NAME: &str = "csi.storage.k8s.io/snapshotter-secret-name";
const NAMESPACE: &str = "csi.storage.k8s.io/snapshotter-secret-namespace";

#[tokio::test]
async fn cb_20_nobody_can_be_authenticated_without_the_service() {
    for is_definition in [false, true] {
        let stage = Stage::new().await;
        if is_definition {
            stage.api.forget_kind(SERVICES);
        } else {
            stage.api.delete(SERVICES, DRIVER);
        }
        let running = stage.started(&[]).await;
        let expected = (Code::Internal, "failed to authenticate user".to_owned());
        assert_eq!(running.refused(request()).await, expected);
        // The log tells the administrator why.
        running
            .process
            .says(&format!("SnapshotMetadataService {DRIVER}: "))
            .await;
    }
}

#[tokio::test]
async fn cb_21_the_api_server_is_away() {
    let stage = Stage::new().await;
    let running = stage.started(&[]).await;
    stage.api.set_down(true);
    let expected = (Code::Unavailable, "failed to authenticate user".to_owned());
    assert_eq!(running.refused(request()).await, expected);
    stage.api.set_down(false);
    crate::stage::until("the API server's return", async || {
        running.allocated(request()).await.1.is_ok()
    })
    .await;
}

#[tokio::test]
async fn a_review_that_is_refused() {
    let stage = Stage::new().await;
    let running = stage.started(&[]).await;
    for (path, text) in [
        ("*/tokenreviews", "failed to authenticate user"),
        ("*/subjectaccessreviews", "failed to authorize the user"),
    ] {
        let message = "not for you: 10.0.0.1";
        let fault = Fault::on("POST", path).answer_saying(403, message).times(1);
        stage.api.fault(fault);
        let expected = (Code::Internal, text.to_owned());
        assert_eq!(running.refused(request()).await, expected);
        running.process.says(message).await;
    }
}

/// The row, the change to the stage, and the call's result: its code, and a part of its text or the Secret's
/// value.
type Row<'a> = (&'a str, fn(&Stage), Code, &'a str);

/// Applies each row's change to new objects and compares the call's result.
async fn compare(rows: &[Row<'_>]) {
    let stage = Stage::new().await;
    let running = stage.started(&[]).await;
    for (row, change, code, text) in rows {
        for kind in [SNAPSHOTS, CONTENTS, CLASSES] {
            for object in stage.api.objects(kind) {
                let metadata = &object["metadata"];
                let name = metadata["name"].as_str().unwrap();
                let namespace = metadata["namespace"].as_str().map(|it| format!("{it}/"));
                stage
                    .api
                    .remove(kind, &format!("{}{name}", namespace.unwrap_or_default()));
            }
        }
        stage.api.insert(class("c1", DRIVER, false, &json!({})));
        stage.api.insert(content("vc1", "snap-1"));
        stage.api.insert(snapshot("s1", "vc1"));
        stage.driver.clear_calls();
        change(&stage);
        let (messages, end) = running.allocated(request()).await;
        match end {
            Ok(()) => {
                assert_eq!((*code, messages[0].len()), (Code::Ok, 256), "{row}");
                let secrets = stage.asked().secrets;
                let password = secrets.get("password").map(String::as_str);
                assert_eq!(password.unwrap_or_default(), *text, "{row}");
            }
            Err(status) => {
                assert_eq!(status.code(), *code, "{row}: {status:?}");
                assert!(status.message().contains(text), "{row}: {status:?}");
                assert_eq!(
                    stage.driver.calls_to("GetMetadataAllocated").len(),
                    0,
                    "{row}"
                );
            }
        }
    }
}

fn without_status(stage: &Stage, kind: &str, name: &str) {
    stage.api.edit(kind, name, |object| {
        object.as_object_mut().unwrap().remove("status");
    });
}

fn status(stage: &Stage, kind: &str, name: &str, status: Value) {
    stage
        .api
        .edit(kind, name, |object| object["status"] = status);
}

fn unclassed(stage: &Stage) {
    stage.api.edit(SNAPSHOTS, "default/s1", |object| {
        object["spec"]
            .as_object_mut()
            .unwrap()
            .remove("volumeSnapshotClassName");
    });
}

fn noted(stage: &Stage) {
    stage.api.insert(secret("sec-s1"));
    stage.api.edit(CONTENTS, "vc1", |object| {
        object["metadata"]["annotations"] = json!({
            "snapshot.storage.kubernetes.io/deletion-secret-name": "sec-s1",
            "snapshot.storage.kubernetes.io/deletion-secret-namespace": "default",
        });
    });
}

fn default_class(stage: &Stage, name: &str, driver: &str, parameters: &Value) {
    stage.api.insert(class(name, driver, true, parameters));
}

fn parameters(stage: &Stage, parameters: &Value) {
    stage.api.insert(class("c1", DRIVER, false, parameters));
}

#[tokio::test]
async fn cb_22_cb_24_cb_25_snapshots_that_cannot_be_served() {
    let unavailable = Code::Unavailable;
    compare(&[
        (
            "CB-22",
            |stage| stage.api.delete(SNAPSHOTS, "default/s1"),
            Code::NotFound,
            "failed to get VolumeSnapshot 'default/s1': ",
        ),
        (
            "§3.6",
            |stage| stage.api.delete(CONTENTS, "vc1"),
            unavailable,
            "failed to get VolumeSnapshotContent 'vc1': ",
        ),
        (
            "CB-24",
            |stage| status(stage, SNAPSHOTS, "default/s1", json!({"readyToUse": false})),
            unavailable,
            "the VolumeSnapshot is not yet ready, name: s1",
        ),
        (
            "CB-24",
            |stage| status(stage, SNAPSHOTS, "default/s1", json!({"readyToUse": true})),
            unavailable,
            "boundVolumeSnapshotContentName is not set in VolumeSnapshot status, name: s1",
        ),
        (
            "CB-24",
            |stage| status(stage, CONTENTS, "vc1", json!({"readyToUse": false})),
            unavailable,
            "the VolumeSnapshotContent is not yet ready, name: vc1",
        ),
        (
            "CB-24",
            |stage| status(stage, CONTENTS, "vc1", json!({"readyToUse": true})),
            unavailable,
            "snapshotHandle is not set in VolumeSnapshotContent status, name: vc1",
        ),
        (
            "CB-25",
            |stage| {
                stage.api.edit(CONTENTS, "vc1", |object| {
                    object["spec"]["driver"] = "x".into()
                });
                stage.api.clear_requests();
            },
            Code::InvalidArgument,
            "VolumeSnapshot 's1' does not belong to the CSI driver 'test.csi.driver'",
        ),
    ])
    .await;
}

#[tokio::test]
async fn cb_25_no_class_is_read_for_another_driver_s_snapshot() {
    let stage = Stage::new().await;
    stage.api.edit(CONTENTS, "vc1", |object| {
        object["spec"]["driver"] = "x".into()
    });
    let running = stage.started(&[]).await;
    assert_eq!(running.refused(request()).await.0, Code::InvalidArgument);
    assert_eq!(
        stage
            .api
            .requests_to("GET", "*/volumesnapshotclasses*")
            .len(),
        0
    );
}

#[tokio::test]
async fn cb_23_objects_without_status_end_nothing_else() {
    use sidecar_testkit::driver::Part;
    let stage = Stage::streaming([Part::Blocks(1), Part::Hang]).await;
    let mut running = stage.started(&[]).await;
    let answer = running
        .client()
        .await
        .get_metadata_allocated(request())
        .await;
    let mut other = answer.unwrap().into_inner();
    assert_eq!(
        other.message().await.unwrap().unwrap().block_metadata.len(),
        1
    );
    for (kind, name, text) in [
        (
            CONTENTS,
            "vc1",
            "the VolumeSnapshotContent is not yet ready, name: vc1",
        ),
        (
            SNAPSHOTS,
            "default/s1",
            "the VolumeSnapshot is not yet ready, name: s1",
        ),
    ] {
        without_status(&stage, kind, name);
        let expected = (Code::Unavailable, text.to_owned());
        assert_eq!(running.refused(request()).await, expected);
    }
    running.process.must_run();
    let calls = stage.driver.calls_to("GetMetadataAllocated");
    assert!(calls.len() == 1 && calls[0].is_running());
    assert_eq!(get(&running.http, "/health").await.0, 200);
}

#[tokio::test]
async fn cb_26_to_30_classes_and_their_secrets() {
    let unavailable = Code::Unavailable;
    compare(&[
        (
            "CB-26",
            |stage| {
                unclassed(stage);
                stage.api.insert(secret("sec-s1"));
                let named = json!({NAME: "sec-${volumesnapshot.name}", NAMESPACE: "default"});
                default_class(stage, "c2", DRIVER, &named);
            },
            Code::Ok,
            "hunter2",
        ),
        (
            "CB-27",
            |stage| {
                stage.api.delete("secrets", "default/sec-s1");
                parameters(
                    stage,
                    &json!({NAME: "sec-${volumesnapshot.name}", NAMESPACE: "default"}),
                );
            },
            unavailable,
            "failed to get credentials: error getting secret sec-s1 in namespace default: ",
        ),
        (
            "CB-28",
            |stage| {
                unclassed(stage);
                default_class(stage, "c2", DRIVER, &json!({}));
                default_class(stage, "c3", DRIVER, &json!({}));
            },
            unavailable,
            "multiple default VolumeSnapshotClasses are set for the CSI driver 'test.csi.driver'",
        ),
        (
            "CB-28, of another driver",
            |stage| {
                unclassed(stage);
                default_class(
                    stage,
                    "c2",
                    "another.driver",
                    &json!({NAME: "x", NAMESPACE: "y"}),
                );
            },
            Code::Ok,
            "",
        ),
        (
            "CB-29",
            |stage| stage.api.delete(CLASSES, "c1"),
            Code::Ok,
            "",
        ),
        (
            "CB-29, noted",
            |stage| {
                noted(stage);
                stage.api.delete(CLASSES, "c1");
            },
            Code::Ok,
            "hunter2",
        ),
        ("a class that is there counts", noted, Code::Ok, ""),
        (
            "CB-30",
            |stage| parameters(stage, &json!({NAME: "a"})),
            unavailable,
            "invalid snapshotter secret parameters in VolumeSnapshotClass: failed to get name and \
             namespace template from params: either name and namespace for Snapshotter secrets \
             specified, Both must be specified",
        ),
        (
            "CB-30",
            |stage| parameters(stage, &json!({NAME: "${pvc.name}", NAMESPACE: "default"})),
            unavailable,
            "invalid snapshotter secret parameters in VolumeSnapshotClass: error resolving value \
             \"${pvc.name}\": invalid tokens: [\"pvc.name\"]",
        ),
    ])
    .await;
}

#[tokio::test]
async fn what_comes_to_the_client_is_the_whole_list() {
    let stage = Stage::new().await;
    let running = stage.started(&[]).await;
    let (messages, _) = running.allocated(request()).await;
    assert_eq!(messages.concat(), blocks(0, 768));
}
