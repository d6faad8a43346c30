//! Section 10.13, the sidecar's part: groups of snapshots.

use csi_proto::csi::CreateVolumeGroupSnapshotRequest;
use serde_json::json;
use sidecar_testkit::api::fault::Gate;
use sidecar_testkit::{CallFault, Fault};
use tonic::Code;

use super::stage::{
    DELETE, GROUP, GROUP_CONTENTS, NAME, QUICK, Stage, content, group_content,
    pre_provisioned_group, secret, settle,
};

const CREATE_GROUP: &str = "CreateVolumeGroupSnapshot";
const DELETE_GROUP: &str = "DeleteVolumeGroupSnapshot";
const CREATE: &str = "CreateGroup groupsnapshot-v1 vol-1+vol-2";
const CUT: &str = r#"st {"creationTime":"2020-01-01T00:00:00Z","readyToUse":true,"volumeGroupSnapshotHandle":"grp-1","volumeSnapshotInfoList":[{"creationTime":1577836800000000000,"readyToUse":true,"restoreSize":1073741824,"snapshotHandle":"snap-2","volumeHandle":"vol-1"},{"creationTime":1577836800000000000,"readyToUse":true,"snapshotHandle":"snap-3","volumeHandle":"vol-2"}]}"#;

fn asked(stage: &Stage) -> CreateVolumeGroupSnapshotRequest {
    let calls = stage.driver.calls_to(CREATE_GROUP);
    let request = calls[0].request::<CreateVolumeGroupSnapshotRequest>();
    request.unwrap().clone()
}

#[tokio::test]
async fn g_2_g_21_g_34_a_group_comes_and_goes() {
    let stage = Stage::with_groups().await;
    // A single snapshot beside the group, whose content has the same name as the group's.
    let mut single = content("u1");
    single["metadata"]["name"] = GROUP.into();
    stage.api.insert(group_content());
    let _program = stage.started(&[]).await;
    stage.until_group_ready().await;
    assert_eq!(stage.trace(), ["bc+", CREATE, CUT, "bc-"], "G-2");
    let request = asked(&stage);
    assert_eq!(request.parameters, [("a".into(), "b".into())].into(), "G-2");
    assert!(request.secrets.is_empty(), "G-2");
    stage.api.insert(single);
    stage.until_ready(GROUP).await;
    assert!(!stage.group().is_null(), "G-34");
    stage.api.clear_requests();
    stage.driver.clear_calls();
    stage.forsake_group();
    stage.until_group_gone().await;
    let cleared = r#"st {"creationTime":null,"readyToUse":null,"volumeGroupSnapshotHandle":null}"#;
    let deleted = "DeleteGroup grp-1 snap-2+snap-3";
    assert_eq!(stage.trace(), [deleted, cleared, "F-"], "G-21");
    assert_eq!(stage.calls(DELETE), 0, "G-21");
    stage.driver.configure(|model| {
        assert!(model.groups.is_empty(), "G-21");
        assert_eq!(model.snapshots.len(), 1, "G-34");
    });
}

#[tokio::test]
async fn g_5_g_6_g_7_what_the_driver_gets() {
    let stage = Stage::with_groups().await;
    stage.api.insert(secret("sec"));
    let mut wanted = group_content();
    wanted["metadata"]["annotations"] = json!({
        "groupsnapshot.storage.kubernetes.io/deletion-secret-name": "sec",
        "groupsnapshot.storage.kubernetes.io/deletion-secret-namespace": "ns2",
    });
    wanted["spec"]["volumeGroupSnapshotRef"]["uid"] = "0123abcd-4567-89ab".into();
    stage.api.insert(wanted);
    let arguments = [
        "--extra-create-metadata",
        "--groupsnapshot-name-prefix=p",
        "--groupsnapshot-name-uuid-length=12",
    ];
    let _program = stage.started(&arguments).await;
    stage.until_group_ready().await;
    let request = asked(&stage);
    assert_eq!(request.name, "p-0123abcd4567", "G-6");
    assert_eq!(request.secrets, [("u".into(), "p".into())].into(), "G-7");
    let prefix = "csi.storage.k8s.io/volumegroupsnapshot";
    let expected = [
        ("a".to_owned(), "b".to_owned()),
        (format!("{prefix}/name"), "v1".to_owned()),
        (format!("{prefix}/namespace"), "ns".to_owned()),
        (format!("{prefix}content/name"), GROUP.to_owned()),
    ];
    assert_eq!(request.parameters, expected.into(), "G-5");
}

#[tokio::test]
async fn g_20_a_group_that_is_not_cut() {
    let stage = Stage::with_groups().await;
    stage.driver.fault(
        CallFault::on(CREATE_GROUP)
            .times(2)
            .fail(Code::Internal, "x"),
    );
    stage.api.insert(group_content());
    let _program = stage.started(&[QUICK]).await;
    stage.until_group_ready().await;
    for (reason, prefix) in [
        (
            "GroupSnapshotCreationFailed",
            "Failed to create group snapshot",
        ),
        (
            "GroupSnapshotContentCheckandUpdateFailed",
            "Failed to check and update group snapshot content",
        ),
    ] {
        stage.until_events(reason, 1).await;
        let event = &stage.events(reason)[0];
        let text = format!(
            "{prefix}: failed to take group snapshot of the volumes [vol-1 vol-2]: \"rpc error: code \
             = Internal desc = x\""
        );
        assert_eq!(event["message"], text, "G-20");
        let about = &event["involvedObject"];
        assert_eq!(about["kind"], "VolumeGroupSnapshotContent", "G-20");
        assert_eq!(about["name"], GROUP, "G-20");
    }
    assert_eq!(stage.calls(CREATE_GROUP), 3, "G-20");
    assert!(stage.group()["status"]["error"].is_null(), "G-20");
}

#[tokio::test]
async fn g_22_what_is_retained() {
    let stage = Stage::with_groups().await;
    let mut wanted = group_content();
    wanted["spec"]["deletionPolicy"] = "Retain".into();
    stage.api.insert(wanted);
    let _program = stage.started(&[]).await;
    stage.until_group_ready().await;
    stage.forsake_group();
    stage.until_group_gone().await;
    assert_eq!(stage.calls(DELETE_GROUP), 0, "G-22");
}

#[tokio::test]
async fn g_27_g_30_g_32_groups_that_were_there_before() {
    let stage = Stage::with_groups().await;
    stage.api.insert(group_content());
    let program = stage.started(&[]).await;
    stage.until_group_ready().await;
    program.kill().await;
    stage.api.remove(GROUP_CONTENTS, GROUP);
    stage.api.clear_requests();
    stage.driver.clear_calls();
    let snapshots = ["snap-2", "snap-3"];
    stage.api.insert(pre_provisioned_group("grp-1", &snapshots));
    let _program = stage.started(&[]).await;
    stage.until_group_ready().await;
    settle().await;
    let found = r#"st {"creationTime":"2020-01-01T00:00:00Z","readyToUse":true,"volumeGroupSnapshotHandle":"grp-1"}"#;
    let get = "GetGroup grp-1 snap-2+snap-3";
    assert_eq!(stage.trace(), [get, found], "G-27");
    stage.forsake_group();
    stage.until_group_gone().await;
    let trace = stage.trace();
    assert_eq!(trace[2], "DeleteGroup grp-1 snap-2+snap-3", "G-32");
    stage
        .driver
        .configure(|model| assert!(model.snapshots.is_empty(), "G-32"));
    stage.api.insert(pre_provisioned_group("grp-1", &[]));
    let reason = "GroupSnapshotContentCheckandUpdateFailed";
    stage.until_events(reason, 1).await;
    let text = "cannot list group snapshot groupsnapcontent-v1. No snapshots found in the group";
    let message = stage.group()["status"]["error"]["message"].clone();
    assert!(message.as_str().unwrap().contains(text), "G-30: {message}");
}

#[tokio::test]
async fn g_36_killed_while_a_group_is_cut() {
    for row in ["call", "status", "unmark"] {
        let stage = Stage::with_groups().await;
        let gate = Gate::new();
        let contents = "*/volumegroupsnapshotcontents/*";
        match row {
            "call" => drop(stage.driver.fault(CallFault::on(CREATE_GROUP).hold(&gate))),
            "status" => {
                let path = format!("{contents}/status");
                drop(stage.api.fault(Fault::on("PATCH", &path).hold(&gate)));
            }
            _ => drop(
                stage
                    .api
                    .fault(Fault::on("PATCH", contents).skip(2).hold(&gate)),
            ),
        }
        stage.api.insert(group_content());
        let program = stage.started(&[]).await;
        stage.until("waits", |_| gate.waiting() > 0).await;
        program.kill().await;
        let over = |stage: &Stage| stage.driver.calls().iter().all(|call| !call.is_running());
        stage.until("no call runs", over).await;
        stage.api.clear_faults();
        stage.driver.clear_faults();
        let _program = stage.started(&[]).await;
        stage.until_group_ready().await;
        stage.driver.configure(|model| {
            assert_eq!(model.groups.len(), 1, "G-36, {row}");
            assert_eq!(model.snapshots.len(), 2, "G-36, {row}");
        });
    }
}

#[tokio::test]
async fn g_37_killed_while_a_group_is_deleted() {
    for row in ["call", "clearing", "release"] {
        let stage = Stage::with_groups().await;
        stage.api.insert(group_content());
        let program = stage.started(&[]).await;
        stage.until_group_ready().await;
        let gate = Gate::new();
        let content = format!("*/volumegroupsnapshotcontents/{GROUP}");
        match row {
            "call" => drop(stage.driver.fault(CallFault::on(DELETE_GROUP).hold(&gate))),
            "clearing" => {
                let path = format!("{content}/status");
                drop(stage.api.fault(Fault::on("PATCH", &path).hold(&gate)));
            }
            _ => drop(stage.api.fault(Fault::on("PATCH", &content).hold(&gate))),
        }
        stage.forsake_group();
        stage.until("waits", |_| gate.waiting() > 0).await;
        program.kill().await;
        stage.api.clear_faults();
        stage.driver.clear_faults();
        let _program = stage.started(&[]).await;
        stage.until_group_gone().await;
        let calls = if row == "release" { 1 } else { 2 };
        assert_eq!(stage.calls(DELETE_GROUP), calls, "G-37, {row}");
        assert_eq!(stage.calls(DELETE), 0, "G-37, {row}");
        stage
            .driver
            .configure(|model| assert!(model.snapshots.is_empty(), "G-37, {row}"));
    }
}

#[tokio::test]
async fn g_38_a_driver_that_knows_no_groups() {
    for announced in [None, Some(Vec::new())] {
        let stage = Stage::with_groups().await;
        stage.driver.configure(|model| model.group = announced);
        stage.api.insert(group_content());
        let _program = stage.started(&["--resync-period=200ms"]).await;
        stage.until_events("GroupSnapshotCreationFailed", 1).await;
        settle().await;
        let events = stage.events("GroupSnapshotCreationFailed");
        assert_eq!(events.len(), 1, "G-38: {events:?}");
        assert!(
            events[0]["count"].as_u64().is_none_or(|count| count == 1),
            "G-38"
        );
        assert!(stage.trace().is_empty(), "G-38: {:?}", stage.trace());
        assert_eq!(stage.calls(CREATE_GROUP), 0, "G-38");
        stage.api.insert(content("u1"));
        stage.until_ready(NAME).await;
    }
}
