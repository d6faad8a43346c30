//! The life of a group snapshot; the test plays the sidecar.

use serde_json::{Value, json};
use sidecar::snapshot::{
    GROUP_BEING_DELETED, GROUP_CONTENT_BOUND, GROUP_SNAPSHOT_BOUND, GROUP_SNAPSHOT_GROUP,
};
use sidecar_testkit::Fault;
use sidecar_testkit::api::kind::{Kind, Status};

use super::stage::Stage;

pub(crate) const GROUPS: &str = "volumegroupsnapshots";
pub(crate) const CONTENTS: &str = "volumegroupsnapshotcontents";

/// A cluster with the class `g` and two claims labelled `app=x`.
pub(crate) async fn stage() -> Stage {
    let stage = Stage::with_groups().await;
    class(&stage);
    claims(&stage);
    stage
}

fn class(stage: &Stage) {
    stage.api.insert(json!({
        "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshotClass",
        "metadata": {"name": "g"}, "driver": "test.csi.driver", "deletionPolicy": "Delete",
    }));
}

fn claims(stage: &Stage) {
    super::stage::claim(&stage.api, "p2", "pv2");
    super::stage::claim(&stage.api, "other", "pv3");
    for name in ["p1", "p2"] {
        stage
            .api
            .edit("persistentvolumeclaims", &format!("ns/{name}"), |claim| {
                claim["metadata"]["labels"] = json!({"app": "x"});
            });
    }
}

/// Inserts the VolumeGroupSnapshot `ns/v1`. Returns its UID.
pub(crate) fn group(stage: &Stage, source: &Value) -> String {
    let group = stage.api.insert(json!({
        "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshot",
        "metadata": {"name": "v1", "namespace": "ns"},
        "spec": {"source": source, "volumeGroupSnapshotClassName": "g"},
    }));
    group["metadata"]["uid"].as_str().unwrap().to_owned()
}

pub(crate) fn selected() -> Value {
    json!({"selector": {"matchLabels": {"app": "x"}}})
}

pub(crate) async fn until_group(stage: &Stage, condition: impl Fn(&Value) -> bool) {
    stage
        .until("the group", |api| {
            condition(&api.object(GROUPS, "ns/v1").unwrap_or_default())
        })
        .await;
}

pub(crate) async fn until_content(stage: &Stage, name: &str) {
    stage
        .until("the content", |api| api.object(CONTENTS, name).is_some())
        .await;
}

/// Fills the group's status, as the sidecar does.
pub(crate) fn take(stage: &Stage, content: &str) {
    stage.api.edit(CONTENTS, content, |content| {
        content["status"] = json!({
            "volumeGroupSnapshotHandle": "grp-1", "readyToUse": true,
            "creationTime": "2026-01-02T03:04:05Z",
            "volumeSnapshotInfoList": [
                {
                    "volumeHandle": "h-pv1", "snapshotHandle": "snap-1", "readyToUse": true,
                    "creationTime": 1_767_323_045_000_000_000_i64, "restoreSize": 1_073_741_824,
                },
                {
                    "volumeHandle": "h-pv2", "snapshotHandle": "snap-2", "readyToUse": true,
                    "creationTime": 1_767_323_045_000_000_000_i64,
                },
            ],
        });
    });
}

pub(crate) async fn until_members_are_ready(stage: &Stage) {
    stage
        .until("two members", |api| {
            let all = api.objects("volumesnapshots");
            let ready = |one: &Value| {
                one["status"]["readyToUse"] == true
                    && one["status"]["volumeGroupSnapshotName"] == "v1"
            };
            all.len() == 2 && all.iter().all(ready)
        })
        .await;
}

/// Plays the sidecar's deletion of the group, then of its members' remains.
async fn end(stage: &Stage, content: &str) {
    stage
        .until("the deletion of the group", |api| {
            let content = api.object(CONTENTS, content).unwrap();
            let deleted = !content["metadata"]["deletionTimestamp"].is_null();
            deleted && content["metadata"]["annotations"][GROUP_BEING_DELETED] == "yes"
        })
        .await;
    let object = stage.api.object(CONTENTS, content).unwrap();
    assert_eq!(
        object["metadata"]["finalizers"],
        json!([GROUP_CONTENT_BOUND])
    );
    stage.api.remove(CONTENTS, content);
    until_group(stage, Value::is_null).await;
    let all = stage.api.objects("volumesnapshotcontents");
    for content in all {
        stage
            .lets_go(content["metadata"]["name"].as_str().unwrap())
            .await;
    }
    stage
        .until("the end of the members", |api| {
            api.objects("volumesnapshots").is_empty()
        })
        .await;
}

#[tokio::test]
async fn g_1_g_3_g_4_g_21_a_group_is_taken_and_deleted() {
    let stage = stage().await;
    let process = stage.working(&[]).await;
    for kind in [GROUPS, CONTENTS, "volumegroupsnapshotclasses"] {
        let path = format!("/apis/{GROUP_SNAPSHOT_GROUP}/v1/{kind}");
        stage
            .until("a watch", |api| {
                let requests = api.requests_to("GET", &path);
                requests.iter().any(|request| request.is_watch())
            })
            .await;
    }
    let content = format!("groupsnapcontent-{}", group(&stage, &selected()));
    until_group(&stage, |group| {
        group["metadata"]["finalizers"] == json!([GROUP_SNAPSHOT_BOUND])
            && group["status"]
                == json!({"boundVolumeGroupSnapshotContentName": content, "readyToUse": false})
    })
    .await;
    let object = stage.api.object(CONTENTS, &content).unwrap();
    let handles = &object["spec"]["source"]["volumeHandles"];
    assert_eq!(*handles, json!(["h-pv1", "h-pv2"]));
    take(&stage, &content);
    until_group(&stage, |group| group["status"]["readyToUse"] == true).await;
    until_members_are_ready(&stage).await;
    let of_group = |events: Vec<String>| {
        let mut of_group: Vec<String> = events
            .into_iter()
            .filter(|event| event.contains("VolumeGroupSnapshot v1"))
            .collect();
        of_group.sort();
        of_group
    };
    let expected = [
        "CreatingGroupSnapshot",
        "GroupSnapshotCreated",
        "GroupSnapshotReady",
    ];
    let expected = expected.map(|reason| format!("Normal {reason} VolumeGroupSnapshot v1"));
    stage
        .until("the events", |_| of_group(stage.events()).len() == 3)
        .await;
    assert_eq!(of_group(stage.events()), expected);
    stage.api.delete(GROUPS, "ns/v1");
    end(&stage, &content).await;
    assert!(stage.api.objects("volumesnapshotcontents").is_empty());
    assert!(
        !stage
            .events()
            .iter()
            .any(|event| event.starts_with("Warning"))
    );
    drop(process);
}

#[tokio::test]
async fn g_13_expressions_select_as_well() {
    let stage = stage().await;
    let process = stage.working(&[]).await;
    let exists = json!({"key": "app", "operator": "Exists"});
    let source = json!({"selector": {"matchExpressions": [exists]}});
    let content = format!("groupsnapcontent-{}", group(&stage, &source));
    until_content(&stage, &content).await;
    let object = stage.api.object(CONTENTS, &content).unwrap();
    let handles = &object["spec"]["source"]["volumeHandles"];
    assert_eq!(*handles, json!(["h-pv1", "h-pv2"]));
    drop(process);
}

#[tokio::test]
async fn g_33_a_class_that_cannot_be_changed_is_told() {
    let stage = stage().await;
    stage.api.insert(json!({
        "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshotContent",
        "metadata": {"name": "gp"},
        "spec": {
            "volumeGroupSnapshotRef": {"namespace": "ns", "name": "v1"},
            "source": {"groupSnapshotHandles": {
                "volumeGroupSnapshotHandle": "grp-9", "volumeSnapshotHandles": ["snap-9"],
            }},
            "driver": "test.csi.driver", "deletionPolicy": "Delete",
            "volumeGroupSnapshotClassName": "other",
        },
    }));
    let process = stage.working(&[]).await;
    group(&stage, &json!({"volumeGroupSnapshotContentName": "gp"}));
    stage
        .until("the event", |_| {
            let told = "Warning GroupSnapshotBindFailed VolumeGroupSnapshot v1".to_owned();
            stage.events().contains(&told)
        })
        .await;
    until_group(&stage, |group| {
        let message = group["status"]["error"]["message"].as_str();
        message.is_some_and(|message| message.contains("immutable once set"))
    })
    .await;
    let content = stage.api.object(CONTENTS, "gp").unwrap();
    assert_eq!(
        content["spec"]["volumeGroupSnapshotRef"]["uid"],
        Value::Null
    );
    drop(process);
}

#[tokio::test]
async fn g_36_g_37_it_is_killed_and_goes_on() {
    let stage = stage().await;
    let process = stage.working(&[]).await;
    let content = format!("groupsnapcontent-{}", group(&stage, &selected()));
    until_content(&stage, &content).await;
    drop(process);
    take(&stage, &content);
    let process = stage.working(&[]).await;
    stage
        .until("a member", |api| !api.objects("volumesnapshots").is_empty())
        .await;
    drop(process);
    let process = stage.working(&[]).await;
    until_members_are_ready(&stage).await;
    assert_eq!(stage.api.objects(CONTENTS).len(), 1);
    assert_eq!(stage.api.objects("volumesnapshotcontents").len(), 2);
    until_group(&stage, |group| group["status"]["readyToUse"] == true).await;
    stage.api.delete(GROUPS, "ns/v1");
    stage
        .until("the deletion", |api| {
            let content = api.object(CONTENTS, &content).unwrap();
            !content["metadata"]["deletionTimestamp"].is_null()
        })
        .await;
    drop(process);
    let process = stage.working(&[]).await;
    end(&stage, &content).await;
    drop(process);
}

#[tokio::test]
async fn c_10_groups_begin_when_their_kinds_come() {
    let stage = Stage::new().await;
    let process = stage.working(&["--resync-period=1s"]).await;
    process.says("continuing without group snapshots").await;
    let kind = |resource, kind| Kind::new(GROUP_SNAPSHOT_GROUP, "v1", resource, kind).custom();
    for kind in [
        kind("volumegroupsnapshotclasses", "VolumeGroupSnapshotClass"),
        kind(CONTENTS, "VolumeGroupSnapshotContent").status(Status::WithMetadata),
        kind(GROUPS, "VolumeGroupSnapshot")
            .namespaced()
            .status(Status::WithMetadata),
    ] {
        stage.api.serve_kind(kind);
    }
    class(&stage);
    claims(&stage);
    let content = format!("groupsnapcontent-{}", group(&stage, &selected()));
    process.says("group snapshots are served").await;
    until_content(&stage, &content).await;
    drop(process);
}

/// The group kinds exist when the program looks for them, and their lists fail before it leads.
#[tokio::test]
async fn groups_that_cannot_be_listed_hold_up_no_single_snapshot() {
    let stage = stage().await;
    // The program lists each of the three kinds once before.
    let broken = Fault::on("GET", &format!("/apis/{GROUP_SNAPSHOT_GROUP}/*")).skip(3);
    let broken = stage.api.fault(broken.answer(500));
    let process = stage.working(&[]).await;
    let uid = stage.snapshot("s1");
    stage.take_when_there(&format!("snapcontent-{uid}")).await;
    stage
        .until_snapshot("s1", |snapshot| snapshot["status"]["readyToUse"] == true)
        .await;
    // A pair that would join its group, whose content is not cached yet.
    super::members::static_group(&stage);
    super::members::pair(&stage, "8", "test.csi.driver");
    let uid = group(&stage, &json!({"volumeGroupSnapshotContentName": "gp"}));
    stage
        .until_snapshot("s8", |snapshot| snapshot["status"]["readyToUse"] == true)
        .await;
    let pair = stage.api.object("volumesnapshots", "ns/s8").unwrap();
    assert!(pair["status"]["volumeGroupSnapshotName"].is_null());
    broken.remove();
    stage
        .until_snapshot("s8", |snapshot| {
            snapshot["metadata"]["ownerReferences"][0]["uid"] == uid
        })
        .await;
    drop(process);
}
