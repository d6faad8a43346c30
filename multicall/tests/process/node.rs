//! Row A-72: on a node, with the registrar.

#[path = "../../../registrar/tests/registrar/kubelet.rs"]
mod kubelet;

use sidecar_testkit::build::Object;
use sidecar_testkit::driver::{ControllerRpc, PluginService};
use sidecar_testkit::process::until;
use sidecar_testkit::{CallFault, Gate, build};

use super::stage::{DRIVER, PATIENT, Stage, free_address, get, is_provisioned};

/// A driver that creates volumes on its own node.
async fn stage() -> Stage {
    let stage = Stage::new().await;
    stage.driver.configure(|model| {
        model.controller = vec![ControllerRpc::CreateDeleteVolume];
        model
            .services
            .push(PluginService::VolumeAccessibilityConstraints);
        model.topology = Some([("key".to_owned(), "here".to_owned())].into());
    });
    stage
}

fn provision_here(stage: &Stage, number: usize) {
    let claim = build::claim(&format!("ns1/new{number}"))
        .class("sc1")
        .mode("RWO")
        .uid(&format!("uid-{number}"))
        .annotation("volume.kubernetes.io/storage-provisioner", DRIVER)
        .annotation("volume.kubernetes.io/selected-node", "here");
    stage.api.insert(claim);
}

#[tokio::test]
async fn a_72_the_registrar_beside_the_provisioner_of_a_node() {
    let stage = stage().await;
    let directory = tempfile::tempdir().unwrap();
    let address = free_address();
    let gate = Gate::new();
    let held = CallFault::on("CreateVolume").skip(1);
    stage.driver.fault(held.hold(&gate));
    let arguments = [
        "--controllers=provisioner,node-driver-registrar,livenessprobe",
        "--provisioner-node-deployment",
        "--kubelet-registration-path=/p/csi.sock",
        &format!("--plugin-registration-path={}", directory.path().display()),
        &format!("--http-endpoint={address}"),
        PATIENT,
    ];
    let running = stage.start_in(&arguments, &[("NODE_NAME", "here")]);
    let socket = directory.path().join(format!("{DRIVER}-reg.sock"));
    until("the socket", async || socket.exists()).await;
    assert_eq!(get(&address, "/healthz").await, (200, "ok".to_owned()));
    assert_eq!(get(&address, "/livez").await.0, 200);
    let (status, text) = get(&address, "/readyz").await;
    assert!(
        text.contains("kubelet has not asked yet"),
        "{status} {text}"
    );
    assert_eq!(get(&address, "/registration").await.0, 503);

    let info = kubelet::ask(&socket).await;
    assert_eq!((&*info.name, &*info.endpoint), (DRIVER, "/p/csi.sock"));
    kubelet::notify(&socket, true, "").await.unwrap();
    assert_eq!(get(&address, "/registration").await.0, 200);
    provision_here(&stage, 0);
    stage.until("a volume", || is_provisioned(&stage, 0)).await;
    assert_eq!(get(&address, "/readyz").await, (200, "ok".to_owned()));
    let elected = stage.api.requests_to("*", "*/leases/*test-csi-driver");
    assert!(elected.is_empty(), "{elected:#?}");
    let log = running.log();
    let line = log
        .lines()
        .find(|line| line.contains("Waiting for kubelet"));
    let line = line.expect("the registrar says what it waits for");
    assert!(
        line.contains("controller=\"node-driver-registrar\""),
        "{line}"
    );

    // The driver stays registered while work goes on.
    provision_here(&stage, 1);
    stage.until_calls("CreateVolume", 2).await;
    running.terminate();
    running.logs("Signal received").await;
    assert_eq!(kubelet::ask(&socket).await.name, DRIVER);
    gate.open();
    running.end().await.well();
    assert!(is_provisioned(&stage, 1));
    assert!(!socket.exists());
}

#[tokio::test]
async fn a_104_who_is_refused_by_kubelet_works_on_and_asks_again() {
    let stage = stage().await;
    let directory = tempfile::tempdir().unwrap();
    let address = free_address();
    let arguments = [
        "--controllers=provisioner,node-driver-registrar,livenessprobe",
        &format!("--http-endpoint={address}"),
        "--provisioner-node-deployment",
        "--kubelet-registration-path=/p/csi.sock",
        &format!("--plugin-registration-path={}", directory.path().display()),
        PATIENT,
    ];
    let running = stage.start_in(&arguments, &[("NODE_NAME", "here")]);
    let socket = directory.path().join(format!("{DRIVER}-reg.sock"));
    until("the socket", async || socket.exists()).await;
    // A refusal is told until the registrar knows the driver's name again.
    let gate = Gate::new();
    let held = CallFault::on("GetPluginInfo").hold(&gate);
    let held = stage.driver.fault(held);
    // The process may end before it answers.
    let _ = kubelet::notify(&socket, false, "a name that is taken").await;
    running.logs("a name that is taken").await;
    let (status, why) = get(&address, "/readyz").await;
    assert!(
        status == 503 && why.contains("a name that is taken"),
        "{why}"
    );
    assert_eq!(get(&address, "/healthz").await, (200, "ok".to_owned()));
    assert_eq!(get(&address, "/livez").await, (200, "ok".to_owned()));
    held.remove();
    gate.open();
    provision_here(&stage, 0);
    stage.until("a volume", || is_provisioned(&stage, 0)).await;
    running
        .logs_times("Waiting for kubelet to register", 2)
        .await;
    kubelet::notify(&socket, true, "").await.unwrap();
    assert_eq!(get(&address, "/readyz").await, (200, "ok".to_owned()));
    running.terminated().await.well();
    assert!(!socket.exists());
}
