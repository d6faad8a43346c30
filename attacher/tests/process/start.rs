//! Rows 7 and 16 to 29: from the socket to the first work.

use std::time::Duration;

use sidecar_testkit::driver::{ControllerRpc, Probe};
use sidecar_testkit::{CallFault, Fault};
use tokio::time::{Instant, sleep};
use tonic::Code;

use super::stage::{DRIVER, PROGRAM, Stage, settle};

fn methods(stage: &Stage) -> Vec<&'static str> {
    stage
        .driver
        .calls()
        .iter()
        .map(|call| call.method)
        .collect()
}

#[tokio::test]
async fn rows_7_and_22_a_probe_that_times_out_is_repeated_for_ever() {
    let stage = Stage::new().await;
    stage.driver.fault(CallFault::on("Probe").hang());
    for arguments in ["--timeout=0", "--timeout=1s"] {
        let mut attacher = stage.start(&[arguments]);
        attacher.logs_times("CSI driver probe timed out", 3).await;
        let took = attacher.elapsed();
        assert!(attacher.is_running(), "{}", attacher.log());
        assert!(took > Duration::from_millis(1900), "{arguments}: {took:?}");
        assert!(!methods(&stage).contains(&"GetPluginInfo"));
    }
    let calls = stage.driver.calls_to("Probe");
    let last = calls.last().unwrap();
    assert!(
        last.deadline
            .is_some_and(|left| left <= Duration::from_secs(1))
    );
}

/// Upstream ends after thirty seconds, as this does; see also the connection's own tests.
#[tokio::test]
async fn row_16_a_socket_that_never_appears() {
    let stage = Stage::new().await;
    stage.driver.stop();
    let attacher = stage.start(&[]);
    attacher.logs("Still connecting").await;
    let first = attacher.elapsed();
    assert!((9.0..20.0).contains(&first.as_secs_f64()), "{first:?}");
    let ended = attacher.end().await;
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.log.contains("context deadline exceeded"),
        "{}",
        ended.log
    );
    assert!(
        (29.0..45.0).contains(&ended.took.as_secs_f64()),
        "{:?}",
        ended.took
    );
    assert_eq!(
        ended.log.matches("Still connecting").count(),
        2,
        "{}",
        ended.log
    );
}

#[tokio::test]
async fn row_17_a_socket_that_appears_late() {
    let stage = Stage::new().await;
    stage.driver.stop();
    let attacher = stage.start(&[]);
    sleep(Duration::from_secs(4)).await;
    let appears = Instant::now();
    stage.driver.start();
    attacher.logs("Starting CSI attacher").await;
    assert!(
        appears.elapsed() < Duration::from_secs(15),
        "{:?}",
        appears.elapsed()
    );
}

#[tokio::test]
async fn row_18_addresses_that_cannot_be_watched() {
    let stage = Stage::new().await;
    for address in ["unix:/x", "run/csi.sock", "dns:///x"] {
        let kubeconfig = stage.kubeconfig();
        let address = format!("--csi-address={address}");
        let ended = PROGRAM.start(&[&kubeconfig, &address]).end().await;
        assert_eq!(ended.code, Some(1), "{address}");
        assert!(ended.log.contains("unix://"), "{address}: {}", ended.log);
        assert!(ended.took < Duration::from_secs(20));
    }
}

#[tokio::test]
async fn rows_19_to_21_probes() {
    let stage = Stage::new().await;
    stage.driver.fault(
        CallFault::on("Probe")
            .fail(Code::Unavailable, "no")
            .times(1),
    );
    let ended = stage.start(&[]).end().await;
    assert_eq!(
        (ended.code, methods(&stage).len()),
        (Some(1), 1),
        "row 19: {}",
        ended.log
    );
    assert!(
        ended.log.contains("CSI driver probe failed"),
        "{}",
        ended.log
    );

    stage.driver.clear_faults();
    stage.driver.clear_calls();
    stage.driver.configure(|model| {
        let late = Probe::Fail(Code::DeadlineExceeded, "late".into());
        model.probes = [late, Probe::NotReady, Probe::Unset].into();
    });
    let attacher = stage.start(&[]);
    attacher.logs("Starting CSI attacher").await;
    let calls = stage.driver.calls();
    assert_eq!(
        methods(&stage)[..4],
        ["Probe", "Probe", "Probe", "GetPluginInfo"]
    );
    let apart = (calls[2].started - calls[0].started).as_secs_f64();
    assert!((1.2..15.0).contains(&apart), "row 20: {apart}");
}

#[tokio::test]
async fn rows_23_to_25_identity_calls() {
    let stage = Stage::new().await;
    stage.driver.fault(
        CallFault::on("GetPluginInfo")
            .fail(Code::Internal, "no")
            .times(1),
    );
    let ended = stage.start(&[]).end().await;
    assert_eq!(ended.code, Some(1), "row 23");
    assert_eq!(stage.driver.calls_to("GetPluginInfo").len(), 1, "no retry");
    stage.driver.configure(|model| model.name = String::new());
    let ended = stage.start(&[]).end().await;
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.log.contains("driver name is empty"),
        "row 23: {}",
        ended.log
    );
    stage.driver.configure(|model| model.name = DRIVER.into());

    stage
        .driver
        .fault(CallFault::on("GetPluginInfo").hang().times(1));
    let ended = stage.start(&["--timeout=10s"]).end().await;
    assert_eq!(ended.code, Some(1), "row 24");
    assert!(
        (0.9..9.0).contains(&ended.took.as_secs_f64()),
        "row 24: {:?}",
        ended.took
    );

    let slow = |method: &str, millis| {
        stage
            .driver
            .fault(CallFault::on(method).delay(Duration::from_millis(millis)));
    };
    slow("GetPluginCapabilities", 600);
    slow("ControllerGetCapabilities", 700);
    let ended = stage.start(&[]).end().await;
    assert_eq!(ended.code, Some(1), "row 25");
    assert!(
        ended.log.contains("DeadlineExceeded"),
        "row 25: {}",
        ended.log
    );
}

#[tokio::test]
async fn row_27_a_port_in_use() {
    let stage = Stage::new().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let flag = format!("--http-endpoint={}", taken.local_addr().unwrap());
    let ended = stage.start(&[&flag]).end().await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.log.contains("--http-endpoint"), "{}", ended.log);
}

#[tokio::test]
async fn row_28_without_permission_to_list_csinodes() {
    let stage = Stage::new().await;
    stage
        .api
        .fault(Fault::on("GET", "/apis/storage.k8s.io/v1/csinodes*").answer(403));
    let mut attacher = stage.start(&[]);
    stage.attach("va1", "pv1");
    stage.until_error("va1", "attachError").await;
    let message = stage.attachment("va1")["status"]["attachError"]["message"].clone();
    assert_eq!(message, "csinode.storage.k8s.io \"node1\" not found");
    assert!(attacher.is_running());
}

#[tokio::test]
async fn row_29_without_permission_to_list_volumes() {
    let stage = Stage::new().await;
    let fault = stage
        .api
        .fault(Fault::on("GET", "/api/v1/persistentvolumes*").answer(403));
    let mut attacher = stage.start(&[]);
    stage.attach("va1", "pv1");
    sleep(Duration::from_secs(2)).await;
    assert!(
        attacher.is_running() && stage.trace().is_empty(),
        "{:?}",
        stage.trace()
    );
    fault.remove();
    stage.until_attached("va1").await;
}

#[tokio::test]
async fn missing_rules_are_named_as_they_go_into_a_manifest() {
    use sidecar_testkit::api::access::Allow;
    let stage = Stage::new().await;
    stage.api.allow_only([
        Allow::new(
            "storage.k8s.io",
            "volumeattachments",
            "get,list,watch,patch",
        ),
        Allow::new("storage.k8s.io", "csinodes", "get,list,watch"),
        Allow::new("", "persistentvolumes", "get,list,watch"),
    ]);
    let mut attacher = stage.start(&[]);
    attacher.logs("volumeattachments/status").await;
    settle().await;
    let log = attacher.log();
    assert!(
        log.contains(r#"resources: [\"persistentvolumes\"], verbs: [\"patch\"]"#),
        "{log}"
    );
    assert!(
        !log.contains("secrets"),
        "optional rules are for those who ask: {log}"
    );
    assert!(attacher.is_running());
}

#[tokio::test]
async fn nothing_is_listed_that_is_not_needed() {
    let stage = Stage::new().await;
    stage
        .driver
        .configure(|model| model.controller = vec![ControllerRpc::ListVolumes]);
    let attacher = stage.start(&[]);
    attacher.logs("Starting CSI attacher").await;
    settle().await;
    assert!(
        stage.api.requests_to("GET", "*/csinodes").is_empty(),
        "row 26"
    );
}

#[tokio::test]
async fn fa_6_no_core_file() {
    let stage = Stage::new().await;
    let program = stage.start(&[]);
    program.logs("Starting CSI attacher").await;
    sidecar_testkit::process::keeps_no_core(program.id());
}
