//! Shutdown of a process that also works on groups.

use rustix::process::Signal;
use sidecar_testkit::CallFault;
use sidecar_testkit::api::fault::Gate;
use sidecar_testkit::controller::ELECTION;

use super::stage::{CREATE, NAME, Stage, content, group_content, settle};

const LEASE: &str = "ns/external-snapshotter-leader-test-csi-driver";

/// Upstream's sidecar shuts down only one of its two queues, and hangs.
#[tokio::test]
async fn s_30_both_queues_end() {
    const CREATE_GROUP: &str = "CreateVolumeGroupSnapshot";
    let stage = Stage::with_groups().await;
    let gate = Gate::new();
    stage.driver.fault(CallFault::on(CREATE).hold(&gate));
    stage.driver.fault(CallFault::on(CREATE_GROUP).hold(&gate));
    stage.api.insert(content("u1"));
    stage.api.insert(group_content());
    let mut program = stage.started(&ELECTION).await;
    stage.until_calls(CREATE, 1).await;
    stage.until_calls(CREATE_GROUP, 1).await;
    program.signal(Signal::TERM);
    program.logs("Signal received, shutting down").await;
    let mut another = group_content();
    another["metadata"]["name"] = "groupsnapcontent-v2".into();
    stage.api.insert(another);
    settle().await;
    assert!(program.is_running());
    gate.open();
    let ended = program.end().await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert!(stage.is_ready(NAME), "its status is written");
    assert_eq!(
        stage.group()["status"]["readyToUse"],
        true,
        "and that of the group"
    );
    assert_eq!(stage.calls(CREATE_GROUP), 1, "no new call");
    let lease = stage.api.object("leases", LEASE).unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "");
}
