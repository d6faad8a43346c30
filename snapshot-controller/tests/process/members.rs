//! Members of group snapshots; the test plays the sidecar.

use serde_json::{Value, json};
use sidecar::snapshot::{
    DELETION_SECRET_NAME, DELETION_SECRET_NAMESPACE, GROUP_DELETION_SECRET_NAME,
    GROUP_DELETION_SECRET_NAMESPACE, GROUP_HANDLE, SNAPSHOT_IN_GROUP, group as strings,
};

use super::groups::{
    CONTENTS, group, selected, stage, take, until_content, until_group, until_members_are_ready,
};
use super::stage::Stage;

const SINGLE: &str = "volumesnapshotcontents";

/// Names of the member's VolumeSnapshot and content for this volume.
fn names(group: &str, volume: &str) -> (String, String) {
    let names = snapshot_controller::plan::group::members::Names::new(group, volume);
    (names.snapshot.to_string(), names.content.to_string())
}

fn member(stage: &Stage, name: &str) -> Value {
    let member = stage.api.object("volumesnapshots", &format!("ns/{name}"));
    member.unwrap_or_default()
}

#[tokio::test]
async fn g_3_g_7_g_8_members_are_made_bound_and_filled() {
    let stage = stage().await;
    stage.api.edit("volumegroupsnapshotclasses", "g", |class| {
        class["parameters"] = json!({
            strings::SECRET_NAME_PARAMETER: "${volumegroupsnapshot.name}-k",
            strings::SECRET_NAMESPACE_PARAMETER: "${volumegroupsnapshot.namespace}",
        });
    });
    let process = stage.working(&[]).await;
    let uid = group(&stage, &selected());
    let of = format!("groupsnapcontent-{uid}");
    until_content(&stage, &of).await;
    let annotations = stage.api.object(CONTENTS, &of).unwrap()["metadata"]["annotations"].clone();
    let secret = json!({
        GROUP_DELETION_SECRET_NAME: "v1-k", GROUP_DELETION_SECRET_NAMESPACE: "ns",
    });
    assert_eq!(annotations, secret, "G-7, G-8");
    take(&stage, &of);
    until_members_are_ready(&stage).await;
    for (number, size) in [(1, Some(1_073_741_824_i64)), (2, None)] {
        let (claim, volume) = (format!("p{number}"), format!("h-pv{number}"));
        let (snapshot, content) = names(&uid, &volume);
        let member = member(&stage, &snapshot);
        let owner = json!([{
            "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshot",
            "name": "v1", "uid": uid,
        }]);
        assert_eq!(member["metadata"]["ownerReferences"], owner, "G-3");
        let held = member["metadata"]["finalizers"].as_array().unwrap();
        assert!(held.contains(&SNAPSHOT_IN_GROUP.into()), "G-3: {held:?}");
        let source = &member["spec"]["source"];
        assert_eq!(*source, json!({"persistentVolumeClaimName": claim}), "G-3");
        let bound = &member["status"]["boundVolumeSnapshotContentName"];
        assert_eq!(*bound, content, "G-3");
        let object = stage.api.object(SINGLE, &content).unwrap();
        let expected = json!({
            GROUP_HANDLE: "grp-1",
            DELETION_SECRET_NAME: "v1-k", DELETION_SECRET_NAMESPACE: "ns",
        });
        assert_eq!(object["metadata"]["annotations"], expected, "G-3, G-8");
        let expected = json!({
            "volumeSnapshotRef": {
                "kind": "VolumeSnapshot", "apiVersion": "snapshot.storage.k8s.io/v1",
                "namespace": "ns", "name": snapshot, "uid": member["metadata"]["uid"],
            },
            "source": {"volumeHandle": volume}, "driver": "test.csi.driver",
            "deletionPolicy": "Delete", "sourceVolumeMode": "Filesystem",
        });
        assert_eq!(object["spec"], expected, "G-3");
        let mut expected = json!({
            "snapshotHandle": format!("snap-{number}"), "volumeGroupSnapshotHandle": "grp-1",
            "creationTime": 1_767_323_045_000_000_000_i64, "readyToUse": true,
        });
        if let Some(size) = size {
            expected["restoreSize"] = size.into();
        }
        assert_eq!(object["status"], expected, "G-3");
    }
    let secrets = stage.api.requests_to("GET", "*/secrets/*");
    assert!(secrets.is_empty(), "G-8");
    drop(process);
}

#[tokio::test]
async fn g_18_g_19_members_are_there_before_the_group_is_ready_and_stay_ready() {
    let stage = stage().await;
    let process = stage.working(&[]).await;
    let uid = group(&stage, &selected());
    let of = format!("groupsnapcontent-{uid}");
    until_content(&stage, &of).await;
    let first = |number: u8, ready: bool| {
        json!({
            "volumeHandle": format!("h-pv{number}"), "snapshotHandle": format!("snap-{number}"),
            "creationTime": 1_767_323_045_000_000_000_i64, "readyToUse": ready,
        })
    };
    stage.api.edit(CONTENTS, &of, |content| {
        content["status"] = json!({
            "volumeGroupSnapshotHandle": "grp-1", "readyToUse": false,
            "creationTime": "2026-01-02T03:04:05Z",
            "volumeSnapshotInfoList": [first(1, true), first(2, false)],
        });
    });
    let (snapshot, content) = names(&uid, "h-pv2");
    stage
        .until("the second member", |_| {
            let member = member(&stage, &snapshot);
            member["status"]["readyToUse"] == false && !member["status"]["creationTime"].is_null()
        })
        .await;
    // The sidecar has found the snapshot.
    stage.api.edit(SINGLE, &content, |content| {
        content["status"]["readyToUse"] = true.into();
    });
    until_members_are_ready(&stage).await;
    // The sidecar checks the group again, which is still not ready.
    for size in [1, 2] {
        stage.api.edit(CONTENTS, &of, |content| {
            content["metadata"]["labels"] = json!({"look": format!("{size}")});
        });
        stage.snapshot(&format!("s{size}"));
        stage
            .until_snapshot(&format!("s{size}"), |snapshot| {
                !snapshot["status"].is_null()
            })
            .await;
        assert_eq!(
            member(&stage, &snapshot)["status"]["readyToUse"],
            true,
            "G-19"
        );
        let group = stage.api.object("volumegroupsnapshots", "ns/v1").unwrap();
        assert_eq!(group["status"]["readyToUse"], false, "G-18");
    }
    stage.api.edit(CONTENTS, &of, |content| {
        content["status"]["readyToUse"] = true.into();
    });
    until_group(&stage, |group| group["status"]["readyToUse"] == true).await;
    assert_eq!(
        member(&stage, &snapshot)["status"]["readyToUse"],
        true,
        "G-19"
    );
    drop(process);
}

#[tokio::test]
async fn g_27_g_28_a_pair_joins_the_group_of_its_handle() {
    let stage = stage().await;
    let process = stage.working(&[]).await;
    static_group(&stage);
    let uid = group(&stage, &json!({"volumeGroupSnapshotContentName": "gp"}));
    until_group(&stage, |group| group["status"]["readyToUse"] == true).await;
    let bound = stage.api.object(CONTENTS, "gp").unwrap();
    let reference = &bound["spec"]["volumeGroupSnapshotRef"]["uid"];
    assert_eq!(*reference, uid, "G-27");
    assert!(stage.api.objects("volumesnapshots").is_empty(), "G-27");
    // The pair, as its administrator makes it and the sidecar fills it; then one of another driver.
    for (name, driver) in [("8", "test.csi.driver"), ("7", "other.csi.driver")] {
        pair(&stage, name, driver);
        stage
            .until_snapshot(&format!("s{name}"), |snapshot| {
                snapshot["status"]["readyToUse"] == true
            })
            .await;
    }
    stage
        .until_snapshot("s8", |snapshot| {
            let owner = json!([{
                "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshot",
                "name": "v1", "uid": uid,
            }]);
            snapshot["status"]["volumeGroupSnapshotName"] == "v1"
                && snapshot["metadata"]["ownerReferences"] == owner
        })
        .await;
    let other = member(&stage, "s7");
    assert!(
        other["status"]["volumeGroupSnapshotName"].is_null(),
        "G-28: {other}"
    );
    assert!(
        other["metadata"]["ownerReferences"].is_null(),
        "G-28: {other}"
    );
    drop(process);
}

/// The content `gp` of the group `grp-9`, whose status the sidecar has filled.
pub(crate) fn static_group(stage: &Stage) {
    stage.api.insert(json!({
        "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshotContent",
        "metadata": {"name": "gp"},
        "spec": {
            "volumeGroupSnapshotRef": {"namespace": "ns", "name": "v1"},
            "source": {"groupSnapshotHandles": {
                "volumeGroupSnapshotHandle": "grp-9", "volumeSnapshotHandles": ["snap-8"],
            }},
            "driver": "test.csi.driver", "deletionPolicy": "Delete",
        },
        "status": {
            "volumeGroupSnapshotHandle": "grp-9", "readyToUse": true,
            "creationTime": "2026-01-02T03:04:05Z",
        },
    }));
}

/// The pre-provisioned VolumeSnapshot `ns/sNAME` and its content `ppNAME`, which the sidecar has found in
/// the group `grp-9`.
pub(crate) fn pair(stage: &Stage, name: &str, driver: &str) {
    stage.api.insert(json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
        "metadata": {"name": format!("pp{name}")},
        "spec": {
            "volumeSnapshotRef": {"namespace": "ns", "name": format!("s{name}")},
            "source": {"snapshotHandle": format!("snap-{name}")},
            "driver": driver, "deletionPolicy": "Delete",
        },
        "status": {
            "snapshotHandle": format!("snap-{name}"), "readyToUse": true, "restoreSize": 5,
            "creationTime": 1_767_323_045_000_000_000_i64,
            "volumeGroupSnapshotHandle": "grp-9",
        },
    }));
    stage.api.insert(json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": {"name": format!("s{name}"), "namespace": "ns"},
        "spec": {"source": {"volumeSnapshotContentName": format!("pp{name}")}},
    }));
}
