//! Objects as backup tools and administrators write them.

use serde_json::{Value, json};
use sidecar::snapshot::{
    CLAIM_AS_SOURCE, CONTENT_BOUND, SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND, SNAPSHOT_IN_GROUP,
};

use super::groups::{
    CONTENTS, GROUPS, group, selected, stage, take, until_content, until_group,
    until_members_are_ready,
};
use super::stage::Stage;

const OFF: &str = "--feature-gates=CSIVolumeGroupSnapshot=false";

#[tokio::test]
async fn g_41_a_member_that_was_cut_loose_survives_its_group() {
    let stage = stage().await;
    let process = stage.working(&["--resync-period=1s"]).await;
    let content = format!("groupsnapcontent-{}", group(&stage, &selected()));
    until_content(&stage, &content).await;
    take(&stage, &content);
    until_members_are_ready(&stage).await;
    until_group(&stage, |group| group["status"]["readyToUse"] == true).await;
    let all = stage.api.objects("volumesnapshots");
    let names = all
        .iter()
        .map(|one| one["metadata"]["name"].as_str().unwrap());
    let [loose, other]: [&str; 2] = names.collect::<Vec<_>>().try_into().unwrap();
    stage
        .api
        .edit("volumesnapshots", &format!("ns/{loose}"), |member| {
            member["metadata"]["ownerReferences"] = Value::Null;
            member["metadata"]["finalizers"] = json!([]);
        });
    stage
        .until_snapshot(loose, |member| {
            member["metadata"]["finalizers"] == json!([SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND])
        })
        .await;
    stage.api.edit(CONTENTS, &content, |content| {
        content["spec"]["deletionPolicy"] = "Retain".into();
    });
    stage.api.delete(GROUPS, "ns/v1");
    until_group(&stage, Value::is_null).await;
    stage
        .until_snapshot(other, |member| {
            member["metadata"].is_null() || !member["metadata"]["deletionTimestamp"].is_null()
        })
        .await;
    let member = stage
        .api
        .object("volumesnapshots", &format!("ns/{loose}"))
        .unwrap();
    assert!(
        member["metadata"]["deletionTimestamp"].is_null(),
        "{member}"
    );
    assert!(member["metadata"]["ownerReferences"].is_null(), "{member}");
    assert_eq!(member["status"]["readyToUse"], true);
    drop(process);
}

/// Inserts the VolumeSnapshot `ns/s1` and its content `c1`, members of a group `v1`. Returns the
/// group's UID.
fn member(stage: &Stage) -> String {
    let uid = "6f1f6a3e-0f5b-4f0e-9f5c-000000000001".to_owned();
    let snapshot = stage.api.insert(json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": {
            "name": "s1", "namespace": "ns",
            "finalizers": [SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND, SNAPSHOT_IN_GROUP],
            "ownerReferences": [{
                "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshot",
                "name": "v1", "uid": uid,
            }],
        },
        "spec": {"source": {"persistentVolumeClaimName": "p1"}},
        "status": {
            "boundVolumeSnapshotContentName": "c1", "readyToUse": true,
            "creationTime": "2026-01-02T03:04:05Z", "volumeGroupSnapshotName": "v1",
        },
    }));
    stage.api.insert(json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
        "metadata": {"name": "c1", "finalizers": [CONTENT_BOUND]},
        "spec": {
            "volumeSnapshotRef": {
                "namespace": "ns", "name": "s1", "uid": snapshot["metadata"]["uid"],
            },
            "source": {"volumeHandle": "h-pv1"},
            "driver": "test.csi.driver", "deletionPolicy": "Delete",
        },
        "status": {
            "snapshotHandle": "snap-1", "readyToUse": true,
            "creationTime": 1_767_323_045_000_000_000_i64, "volumeGroupSnapshotHandle": "grp-1",
        },
    }));
    uid
}

#[tokio::test]
async fn g_42_without_groups_what_was_in_a_group_goes_if_that_is_gone() {
    for (kinds, arguments) in [(true, &[OFF][..]), (false, &[OFF]), (false, &[])] {
        let stage = match kinds {
            true => Stage::with_groups().await,
            false => Stage::new().await,
        };
        member(&stage);
        let process = stage.working(arguments).await;
        stage.api.delete("volumesnapshots", "ns/s1");
        stage.lets_go("c1").await;
        stage.until_snapshot("s1", Value::is_null).await;
        drop(process);
    }
}

#[tokio::test]
async fn g_42_without_groups_a_group_that_lives_holds_its_members() {
    let stage = Stage::with_groups().await;
    let uid = member(&stage);
    stage.api.insert(json!({
        "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshot",
        "metadata": {"name": "v1", "namespace": "ns", "uid": uid},
        "spec": {"source": selected()},
    }));
    let process = stage
        .working(&[
            OFF,
            "--retry-interval-start=200ms",
            "--retry-interval-max=200ms",
        ])
        .await;
    stage.api.delete("volumesnapshots", "ns/s1");
    let told = "Warning SnapshotDeletePending VolumeSnapshot s1".to_owned();
    stage
        .until("the event", |_| stage.events().contains(&told))
        .await;
    let content = stage.api.object("volumesnapshotcontents", "c1").unwrap();
    assert!(content["metadata"]["deletionTimestamp"].is_null());
    stage.api.remove(GROUPS, "ns/v1");
    stage.lets_go("c1").await;
    stage.until_snapshot("s1", Value::is_null).await;
    drop(process);
}

#[tokio::test]
async fn c_98_what_has_lost_its_content_does_not_hold_its_claim() {
    let stage = Stage::new().await;
    let process = stage.working(&[]).await;
    let content = format!("snapcontent-{}", stage.snapshot("s1"));
    stage
        .until("the content", |api| {
            api.object("volumesnapshotcontents", &content).is_some()
        })
        .await;
    stage.take(&content, false);
    stage
        .until_snapshot("s1", |snapshot| {
            !snapshot["status"]["creationTime"].is_null()
        })
        .await;
    stage.api.remove("volumesnapshotcontents", &content);
    stage
        .until("the claim to be free", |api| {
            let claim = api.object("persistentvolumeclaims", "ns/p1").unwrap();
            let held = claim["metadata"]["finalizers"].as_array().unwrap().clone();
            !held.contains(&CLAIM_AS_SOURCE.into())
        })
        .await;
    drop(process);
}

/// A back-off longer than the test.
const LATER: [&str; 2] = ["--retry-interval-start=1h", "--retry-interval-max=1h"];

/// One of two default classes is deleted, for single snapshots and for groups.
#[tokio::test]
async fn c_46_g_15_the_deletion_of_a_class_is_heard() {
    let stage = stage().await;
    for name in ["d1", "d2"] {
        stage.api.insert(json!({
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
            "metadata": {"name": name, "annotations": {
                "snapshot.storage.kubernetes.io/is-default-class": "true",
            }},
            "driver": "test.csi.driver", "deletionPolicy": "Delete",
        }));
        stage.api.insert(json!({
            "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshotClass",
            "metadata": {"name": name, "annotations": {
                "groupsnapshot.storage.kubernetes.io/is-default-class": "true",
            }},
            "driver": "test.csi.driver", "deletionPolicy": "Delete",
        }));
    }
    let process = stage.working(&LATER).await;
    stage.api.insert(json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": {"name": "s1", "namespace": "ns"},
        "spec": {"source": {"persistentVolumeClaimName": "p1"}},
    }));
    stage.api.insert(json!({
        "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshot",
        "metadata": {"name": "v1", "namespace": "ns"},
        "spec": {"source": selected()},
    }));
    for reason in [
        "SetDefaultSnapshotClassFailed",
        "SetDefaultGroupSnapshotClassFailed",
    ] {
        stage
            .until(reason, |_| {
                stage.events().iter().any(|event| event.contains(reason))
            })
            .await;
    }
    stage.api.remove("volumesnapshotclasses", "d2");
    stage.api.remove("volumegroupsnapshotclasses", "d2");
    stage
        .until_snapshot("s1", |it| it["spec"]["volumeSnapshotClassName"] == "d1")
        .await;
    until_group(&stage, |it| {
        it["spec"]["volumeGroupSnapshotClassName"] == "d1"
    })
    .await;
    drop(process);
}
