//! Section 10.13, the sidecar's part: members of groups, and groups that are slow to become ready.

use std::time::Duration;

use csi_proto::csi::list_snapshots_response::Entry;
use csi_proto::csi::{
    CreateVolumeGroupSnapshotRequest, CreateVolumeGroupSnapshotResponse,
    GetVolumeGroupSnapshotRequest, GetVolumeGroupSnapshotResponse, ListSnapshotsRequest,
    ListSnapshotsResponse, Snapshot, VolumeGroupSnapshot,
};
use serde_json::{Value, json};
use sidecar::snapshot::{GROUP_HANDLE, group as strings};
use sidecar_testkit::driver::ControllerRpc;
use sidecar_testkit::{CallFault, Fault, Gate};

use super::stage::{
    CONTENTS, CREATE, DELETE, GROUP, LIST, NAME, QUICK, Stage, content, group_content,
    pre_provisioned, pre_provisioned_group, secret, settle, taken,
};

const CREATE_GROUP: &str = "CreateVolumeGroupSnapshot";

/// A snapshot of the group `grp-1`.
fn member(id: &str, volume: &str, ready: bool) -> Snapshot {
    Snapshot {
        snapshot_id: id.into(),
        source_volume_id: volume.into(),
        group_snapshot_id: "grp-1".into(),
        ..taken(ready)
    }
}

/// The group `grp-1` of both volumes.
fn group(ready: bool) -> VolumeGroupSnapshot {
    VolumeGroupSnapshot {
        group_snapshot_id: "grp-1".into(),
        snapshots: vec![
            member("snap-1", "vol-1", true),
            member("snap-2", "vol-2", ready),
        ],
        creation_time: taken(true).creation_time,
        ready_to_use: ready,
    }
}

/// A member's content as the controller creates it, without status: with a Secret from the templates of
/// the group's class.
fn member_content() -> Value {
    let mut content = content("h2");
    content["metadata"]["annotations"] = json!({
        GROUP_HANDLE: "grp-1",
        "snapshot.storage.kubernetes.io/deletion-secret-name": "v1-k",
        "snapshot.storage.kubernetes.io/deletion-secret-namespace": "ns2",
    });
    let spec = content["spec"].as_object_mut().unwrap();
    spec.remove("volumeSnapshotClassName");
    content
}

#[tokio::test]
async fn g_3_g_8_g_19_a_member_is_looked_up_until_it_is_ready_and_never_made() {
    let name = "snapcontent-h2";
    let stage = Stage::new().await;
    stage.api.insert(secret("v1-k"));
    stage.api.insert(member_content());
    let _program = stage.started(&[QUICK, "--resync-period=300ms"]).await;
    settle().await;
    assert_eq!((stage.calls(CREATE), stage.calls(LIST)), (0, 0), "G-3");
    let entry = Entry {
        snapshot: Some(member("snap-2", "vol-1", false)),
    };
    let unready = ListSnapshotsResponse {
        entries: vec![entry],
        ..ListSnapshotsResponse::default()
    };
    stage
        .driver
        .fault(CallFault::on(LIST).times(2).answer(unready));
    stage.driver.configure(|model| {
        let ready = member("snap-2", "vol-1", true);
        model.snapshots.insert("snap-2".into(), ready);
    });
    stage.api.edit(CONTENTS, name, |content| {
        content["status"] = json!({
            "snapshotHandle": "snap-2", "volumeGroupSnapshotHandle": "grp-1",
            "creationTime": 1_767_323_045_000_000_000_i64, "readyToUse": false,
        });
    });
    stage.until_ready(name).await;
    let asked = stage.driver.calls_to(LIST);
    assert_eq!(asked.len(), 3, "G-19");
    for call in &asked {
        let request = call.request::<ListSnapshotsRequest>().unwrap();
        assert_eq!(request.snapshot_id, "snap-2", "G-19");
        assert_eq!(request.secrets, [("u".into(), "p".into())].into(), "G-8");
    }
    // Two resyncs pass.
    settle().await;
    settle().await;
    assert!(stage.is_ready(name), "G-19: it stays ready");
    assert_eq!(stage.calls(LIST), 3, "G-19: and is let be");
    let status = stage.content_named(name)["status"].clone();
    assert_eq!(status["volumeGroupSnapshotHandle"], "grp-1", "G-3");
    assert_eq!((stage.calls(CREATE), stage.calls(DELETE)), (0, 0), "G-3");
}

#[tokio::test]
async fn g_18_g_19_a_group_that_is_not_ready_is_asked_for_again() {
    let stage = Stage::with_groups().await;
    let answer = |ready| CreateVolumeGroupSnapshotResponse {
        group_snapshot: Some(group(ready)),
    };
    let answers = CallFault::on(CREATE_GROUP);
    stage.driver.fault(answers.times(2).answer(answer(false)));
    let answers = CallFault::on(CREATE_GROUP);
    stage.driver.fault(answers.answer(answer(true)));
    stage.api.insert(group_content());
    let _program = stage.started(&[]).await;
    stage
        .until("members from the first answer on", |stage| {
            let members = stage.group()["status"]["volumeSnapshotInfoList"].clone();
            members.as_array().is_some_and(|all| all.len() == 2)
        })
        .await;
    let status = stage.group()["status"].clone();
    assert_eq!(status["readyToUse"], false, "G-18");
    let ready = |status: &Value| -> Vec<bool> {
        let all = status["volumeSnapshotInfoList"].as_array().unwrap();
        all.iter().map(|one| one["readyToUse"] == true).collect()
    };
    assert_eq!(ready(&status), [true, false], "G-19");
    stage.until_group_ready().await;
    assert_eq!(ready(&stage.group()["status"]), [true, true], "G-19");
    let calls = stage.driver.calls_to(CREATE_GROUP);
    assert_eq!(calls.len(), 3, "G-18");
    let requests = calls.iter().map(|call| {
        call.request::<CreateVolumeGroupSnapshotRequest>()
            .unwrap()
            .clone()
    });
    let requests: Vec<_> = requests.collect();
    assert!(requests.iter().all(|one| *one == requests[0]), "G-18");
    let pauses: Vec<Duration> = calls
        .windows(2)
        .map(|two| two[1].started - two[0].started)
        .collect();
    assert!(pauses[0] >= Duration::from_millis(900), "G-18: {pauses:?}");
    assert!(pauses[1] >= Duration::from_millis(1900), "G-18: {pauses:?}");
    assert_eq!(stage.calls(CREATE), 0, "G-18");
}

#[tokio::test]
async fn g_28_a_content_of_a_pair_says_which_group_its_snapshot_is_part_of() {
    let stage = Stage::with_groups().await;
    stage.driver.configure(|model| {
        let snapshot = Snapshot {
            group_snapshot_id: "grp-9".into(),
            ..member("snap-9", "vol-1", true)
        };
        model.snapshots.insert("snap-9".into(), snapshot);
    });
    stage.api.insert(pre_provisioned());
    let _program = stage.started(&[]).await;
    stage.until_ready("pp").await;
    let status = stage.content_named("pp")["status"].clone();
    assert_eq!(status["volumeGroupSnapshotHandle"], "grp-9", "G-28");
    assert_eq!(status["snapshotHandle"], "snap-9", "G-28");
    assert_eq!((stage.calls(LIST), stage.calls(CREATE)), (1, 0), "G-28");
}

#[tokio::test]
async fn g_31_the_secret_of_a_lookup() {
    let stage = Stage::with_groups().await;
    stage.api.edit("volumegroupsnapshotclasses", "g", |class| {
        class["parameters"] = json!({
            strings::GET_SECRET_NAME_PARAMETER: "l-${volumegroupsnapshotcontent.name}",
            strings::GET_SECRET_NAMESPACE_PARAMETER: "ns2",
        });
    });
    stage.api.insert(secret(&format!("l-{GROUP}")));
    let answer = GetVolumeGroupSnapshotResponse {
        group_snapshot: Some(group(true)),
    };
    let method = "GetVolumeGroupSnapshot";
    stage.driver.fault(CallFault::on(method).answer(answer));
    let snapshots = ["snap-1", "snap-2"];
    stage.api.insert(pre_provisioned_group("grp-1", &snapshots));
    let _program = stage.started(&[]).await;
    stage.until_group_ready().await;
    let calls = stage.driver.calls_to(method);
    let request = calls[0].request::<GetVolumeGroupSnapshotRequest>().unwrap();
    assert_eq!(request.secrets, [("u".into(), "p".into())].into(), "G-31");
    assert_eq!(request.group_snapshot_id, "grp-1", "G-31");
    assert_eq!(request.snapshot_ids, snapshots, "G-31");
    let trace = stage.trace();
    assert_eq!(trace[0], format!("secret l-{GROUP}"), "G-31");
}

/// The group kinds exist when the program looks for them, and their lists fail before it leads.
#[tokio::test]
async fn groups_that_cannot_be_listed_hold_up_no_single_snapshot() {
    let stage = Stage::with_groups().await;
    let broken = Fault::on("GET", "*/volumegroupsnapshotcontents").skip(1);
    let broken = stage.api.fault(broken.answer(500));
    stage.api.insert(content("u1"));
    stage.api.insert(group_content());
    let _program = stage.started(&[QUICK]).await;
    stage.until_ready(NAME).await;
    assert!(stage.group()["status"].is_null());
    broken.remove();
    stage.until_group_ready().await;
}

/// Row S-127: the driver reported the member as not ready, and cannot list a single one.
#[tokio::test]
async fn s_127_a_member_is_as_ready_as_its_group_says() {
    let name = "snapcontent-h2";
    let stage = Stage::with_groups().await;
    stage
        .driver
        .configure(|model| model.controller = vec![ControllerRpc::CreateDeleteSnapshot]);
    let answer = |ready| CreateVolumeGroupSnapshotResponse {
        group_snapshot: Some(group(ready)),
    };
    let asked = Gate::new();
    let again = CallFault::on(CREATE_GROUP).skip(1).times(1);
    stage.driver.fault(again.hold(&asked));
    let first = CallFault::on(CREATE_GROUP).times(1);
    stage.driver.fault(first.answer(answer(false)));
    let later = CallFault::on(CREATE_GROUP);
    stage.driver.fault(later.answer(answer(true)));
    stage.api.insert(group_content());
    let _program = stage.started(&[QUICK]).await;
    stage.until("asked again", |_| asked.waiting() > 0).await;
    let mut content = member_content();
    content["metadata"]["annotations"] = json!({GROUP_HANDLE: "grp-1"});
    content["status"] = json!({
        "snapshotHandle": "snap-2", "volumeGroupSnapshotHandle": "grp-1",
        "creationTime": 1_767_323_045_000_000_000_i64, "readyToUse": false,
    });
    stage.api.insert(content);
    settle().await;
    let early = stage.content_named(name)["status"]["readyToUse"].clone();
    assert_eq!(early, false, "the driver said that it is not");
    asked.open();
    stage.until_group_ready().await;
    stage.until_ready(name).await;
    assert_eq!((stage.calls(CREATE), stage.calls(LIST)), (0, 0));
}
