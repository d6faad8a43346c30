//! S-11 to S-15, S-19 to S-23, S-25 and S-27: from the socket to the first work.

use std::time::Duration;

use sidecar_testkit::api::access::Allow;
use sidecar_testkit::driver::ControllerRpc;
use sidecar_testkit::{CallFault, Fault};
use tonic::Code;

use super::stage::{NAME, READY, Stage, content, free_address, get, group_content};

fn methods(stage: &Stage) -> Vec<&'static str> {
    let calls = stage.driver.calls();
    calls.iter().map(|call| call.method).collect()
}

/// The process keeps running when the driver restarts.
#[tokio::test]
async fn s_27_a_driver_that_restarts() {
    let stage = Stage::new().await;
    let mut program = stage
        .started(&["--retry-interval-start=5m", "--timeout=10s"])
        .await;
    stage.driver.stop();
    stage.api.insert(content("u1"));
    stage.until_events("SnapshotCreationFailed", 1).await;
    stage.driver.start();
    stage.until_ready(NAME).await;
    assert!(program.is_running(), "{}", program.log());
}

/// Probe comes before GetPluginInfo, as in all programs here.
#[tokio::test]
async fn s_14_what_the_driver_is_asked() {
    for (arguments, deadline) in [(&[][..], 60), (&["--timeout=90s"], 90)] {
        let stage = Stage::new().await;
        let _program = stage.started(arguments).await;
        assert_eq!(
            methods(&stage),
            [
                "Probe",
                "GetPluginInfo",
                "GetPluginCapabilities",
                "ControllerGetCapabilities"
            ]
        );
        for call in stage.driver.calls() {
            let given = call.deadline.unwrap();
            let fits = given <= Duration::from_secs(deadline)
                && given > Duration::from_secs(deadline - 20);
            assert!(fits, "{} {given:?}", call.method);
        }
    }
}

#[tokio::test]
async fn s_15_a_driver_that_takes_no_snapshots() {
    let stage = Stage::new().await;
    let lists = vec![ControllerRpc::ListSnapshots];
    stage.driver.configure(|model| model.controller = lists);
    let ended = stage.start(&[]).end().await;
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    let text = "CSI driver test.csi.driver does not support ControllerCreateSnapshot";
    assert!(ended.log.contains(text), "{}", ended.log);
}

/// The reads of the group kinds: whether the list is limited to the minimum, and the resource.
fn asked_of_groups(stage: &Stage) -> Vec<(bool, String)> {
    let reads = stage
        .api
        .requests_to("GET", "*/groupsnapshot.storage.k8s.io/v1/*");
    let reads = reads.into_iter().map(|read| {
        let resource = read.path.rsplit('/').next().unwrap_or_default().to_owned();
        (read.query.get("limit") == Some(&"1".to_owned()), resource)
    });
    reads.collect()
}

#[tokio::test]
async fn s_19_a_cluster_without_groups() {
    let stage = Stage::new().await;
    stage.api.insert(content("u1"));
    let program = stage.started(&[]).await;
    stage.until_ready(NAME).await;
    let asked = asked_of_groups(&stage);
    let once = (true, "volumegroupsnapshotcontents".to_owned());
    assert_eq!(asked, [once], "S-19");
    assert_eq!(stage.calls("GroupControllerGetCapabilities"), 0, "S-19");
    let log = program.log();
    assert!(log.contains("Group snapshots are off"), "S-19: {log}");
    assert!(
        log.contains("could not find the requested resource"),
        "S-19: {log}"
    );
}

/// Row S-126: group kinds that appear later are served without a restart.
#[tokio::test]
async fn s_126_kinds_of_groups_that_come_later() {
    let stage = Stage::with_groups().await;
    let refused = Fault::on("GET", "*/volumegroupsnapshot*");
    let refused = stage.api.fault(refused.answer(404));
    stage.api.insert(content("u1"));
    stage.api.insert(group_content());
    let program = stage.started(&["--resync-period=300ms"]).await;
    stage.until_ready(NAME).await;
    stage
        .until("looked for again", |_| refused.hits() > 2)
        .await;
    assert!(stage.group()["status"].is_null(), "{}", program.log());
    refused.remove();
    stage.until_group_ready().await;
    assert!(stage.calls("CreateVolumeGroupSnapshot") > 0);
    // The program did not query the group capabilities while the group kinds were missing.
    assert_eq!(stage.calls("GroupControllerGetCapabilities"), 0);
}

#[tokio::test]
async fn s_21_a_driver_without_groups() {
    let stage = Stage::with_groups().await;
    stage.driver.configure(|model| model.group = None);
    stage.api.insert(content("u1"));
    let program = stage.started(&[]).await;
    stage.until_ready(NAME).await;
    let contents = "volumegroupsnapshotcontents".to_owned();
    let classes = "volumegroupsnapshotclasses".to_owned();
    let first = [(true, contents.clone()), (true, classes.clone())];
    for watched in [(false, contents), (false, classes)] {
        stage
            .until("S-21", |stage| asked_of_groups(stage).contains(&watched))
            .await;
    }
    assert_eq!(asked_of_groups(&stage)[..2], first, "S-21");
    assert_eq!(stage.calls("GroupControllerGetCapabilities"), 1, "S-21");
    let text = "Cannot determine whether the driver supports group snapshots";
    assert!(program.log().contains(text), "S-21: {}", program.log());
}

/// A group controller without capabilities is called all the same, as upstream's sidecar does.
#[tokio::test]
async fn s_21_a_group_controller_that_does_not_say_what_it_can_do() {
    let stage = Stage::with_groups().await;
    let fault = CallFault::on("GroupControllerGetCapabilities");
    stage.driver.fault(fault.fail(Code::Internal, "no"));
    stage.api.insert(group_content());
    let _program = stage.started(&[]).await;
    stage.until_group_ready().await;
}

#[tokio::test]
async fn s_22_groups_that_would_be_named_by_nothing() {
    let stage = Stage::with_groups().await;
    let ended = stage.start(&["--groupsnapshot-name-prefix="]).end().await;
    assert_eq!(ended.code, Some(1), "S-22: {}", ended.log);
    let text = "group snapshot name prefix cannot be of length 0";
    assert!(ended.log.contains(text), "S-22: {}", ended.log);
    let stage = Stage::new().await;
    let mut program = stage.started(&["--groupsnapshot-name-prefix="]).await;
    assert!(program.is_running(), "S-22: {}", program.log());
}

#[tokio::test]
async fn s_20_the_gate_of_group_snapshots() {
    let stage = Stage::new().await;
    let program = stage
        .started(&["--feature-gates=CSIVolumeGroupSnapshot=false"])
        .await;
    assert!(
        program.log().contains("GA feature gate"),
        "{}",
        program.log()
    );
    let groups = stage.api.requests_to("GET", "*groupsnapshot*");
    assert!(groups.is_empty(), "{groups:?}");
}

#[tokio::test]
async fn s_23_missing_rules_are_named() {
    let stage = Stage::new().await;
    stage.api.allow_only([
        Allow::new(
            "snapshot.storage.k8s.io",
            "volumesnapshotclasses",
            "list,watch",
        ),
        Allow::new(
            "snapshot.storage.k8s.io",
            "volumesnapshotcontents",
            "get,list,patch",
        ),
        Allow::new(
            "snapshot.storage.k8s.io",
            "volumesnapshotcontents/status",
            "patch",
        ),
        Allow::new("authorization.k8s.io", "selfsubjectaccessreviews", "create"),
        Allow::new("", "events", "create,patch"),
        Allow::new("", "secrets", "get"),
    ]);
    let program = stage.start(&[]);
    program.logs("volumesnapshotcontents").await;
    program.logs("watch").await;
}

#[tokio::test]
async fn s_25_metrics() {
    let stage = Stage::new().await;
    stage.api.insert(content("u1"));
    let address = free_address();
    let _program = stage
        .started(&[&format!("--http-endpoint={address}")])
        .await;
    stage.until_ready(NAME).await;
    let (code, text) = get(&address, "/metrics").await;
    assert_eq!(code, 200);
    for line in [
        r#"csi_sidecar_operations_seconds_count{driver_name="test.csi.driver",grpc_status_code="OK",method_name="/csi.v1.Controller/CreateSnapshot"} 1"#,
        r#"workqueue_adds_total{name="csi-snapshotter-content"} 1"#,
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert_eq!(get(&address, "/healthz/leader-election").await.0, 404);
    assert!(READY.starts_with("Starting"));
}
