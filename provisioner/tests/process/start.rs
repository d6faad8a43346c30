//! Rows 6, 16, 23 to 29 and 291, 292: from the socket to the first work.

use sidecar_testkit::api::access::Allow;
use sidecar_testkit::build::Object;
use sidecar_testkit::driver::{ControllerRpc, PluginService};
use sidecar_testkit::{CallFault, Fault};

use super::stage::{PV, READY, Stage, claim, free_address, get, settle, together};

#[tokio::test]
async fn row_16_a_driver_without_services() {
    let stage = Stage::new().await;
    stage.driver.configure(|model| model.services = Vec::new());
    let ended = stage.start(&[]).end().await;
    assert_eq!(ended.code, Some(255), "row 16: {}", ended.log);
    assert!(ended.log.contains("Unimplemented"), "{}", ended.log);
}

#[tokio::test]
async fn rows_23_25_and_292_paths_without_election() {
    let stage = Stage::new().await;
    let address = free_address();
    let program = stage.start(&[&format!("--http-endpoint={address}"), "--enable-pprof"]);
    program.logs(READY).await;
    assert_eq!(
        get(&address, "/healthz/leader-election").await.0,
        404,
        "row 23"
    );
    assert_eq!(get(&address, "/healthz").await.0, 404);
    let (code, text) = get(&address, "/metrics").await;
    assert_eq!(code, 200);
    for line in [
        r#"csi_sidecar_operations_seconds_count{driver_name="unknown-driver",grpc_status_code="OK",method_name="/csi.v1.Identity/Probe"} 1"#,
        r#"workqueue_depth{name="claims"} 0"#,
        r#"workqueue_depth{name="volumes"} 0"#,
        "csi_sidecar_provisioning_in_doubt 0",
    ] {
        assert!(text.contains(line), "row 292: {line}\n{text}");
    }
    assert!(!text.contains("migrated"), "{text}");
    assert_eq!(program.listeners(), 1);
    drop(program);
    let program = stage.start(&["--enable-pprof"]);
    program.logs(READY).await;
    assert_eq!(program.listeners(), 0, "row 25");
}

#[tokio::test]
async fn rows_26_and_27_without_volume_attributes_classes() {
    together(
        [("26", None, true), ("27", Some(true), false)],
        without_attributes_classes,
    )
    .await;
}

async fn without_attributes_classes((row, gate, provisions): (&str, Option<bool>, bool)) {
    let stage = Stage::new().await;
    stage.can(ControllerRpc::ModifyVolume);
    stage.api.forget_kind("volumeattributesclasses");
    let flag = gate.map(|on| format!("--feature-gates=VolumeAttributesClass={on}"));
    let arguments: Vec<&str> = flag.iter().map(String::as_str).collect();
    let program = stage.start(&arguments);
    program.logs(READY).await;
    stage
        .api
        .insert(claim().with("/spec/volumeAttributesClassName", "gold"));
    if provisions {
        stage.until_volume(PV).await;
        let request = &stage.creations()[0];
        assert!(request.mutable_parameters.is_empty(), "row {row}");
        assert!(stage.volume(PV)["spec"]["volumeAttributesClassName"].is_null());
    } else {
        stage.until_events("ProvisioningFailed", 1).await;
        assert_eq!(stage.calls("CreateVolume"), 0, "row {row}");
    }
}

#[tokio::test]
async fn row_6_gates_add_up() {
    let stage = Stage::new().await;
    stage.can(ControllerRpc::ModifyVolume);
    let service = PluginService::VolumeAccessibilityConstraints;
    stage.driver.configure(|model| model.services.push(service));
    let _program = stage.start(&[
        "--feature-gates=Topology=false",
        "--feature-gates=VolumeAttributesClass=false",
    ]);
    stage
        .api
        .insert(claim().with("/spec/volumeAttributesClassName", "missing"));
    stage.until_volume(PV).await;
    let request = &stage.creations()[0];
    assert_eq!(request.accessibility_requirements, None);
    assert!(request.mutable_parameters.is_empty());
}

#[tokio::test]
async fn rows_28_and_29_nothing_is_listed_that_is_not_needed() {
    let stage = Stage::new().await;
    let program = stage.start(&[]);
    program.logs(READY).await;
    settle().await;
    let listed = |path: &str| !stage.api.requests_to("GET", path).is_empty();
    assert!(listed("*/persistentvolumeclaims"));
    for (row, path) in [
        ("28", "*/volumeattachments"),
        ("29", "*/nodes"),
        ("29", "*/csinodes"),
        ("237", "*/volumesnapshots"),
        ("2.3", "*/referencegrants"),
    ] {
        assert!(!listed(path), "row {row}");
    }
    drop(program);
    stage.can(ControllerRpc::PublishUnpublishVolume);
    stage.driver.configure(|model| {
        model
            .services
            .push(PluginService::VolumeAccessibilityConstraints);
    });
    let program = stage.start(&[]);
    program.logs(READY).await;
    assert!(listed("*/volumeattachments") && listed("*/nodes") && listed("*/csinodes"));
}

#[tokio::test]
async fn row_291_a_call_that_took_too_long_is_counted() {
    let stage = Stage::new().await;
    stage.driver.fault(CallFault::on("CreateVolume").hang());
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let _program = stage.start(&[&endpoint, "--timeout=5s", "--retry-interval-start=5m"]);
    stage.api.insert(claim());
    stage.until_events("ProvisioningFailed", 1).await;
    let (_, text) = get(&address, "/metrics").await;
    for line in [
        r#"csi_sidecar_operations_seconds_count{driver_name="test-driver",grpc_status_code="DeadlineExceeded",method_name="/csi.v1.Controller/CreateVolume"} 1"#,
        r#"controller_persistentvolumeclaim_provision_failed_total{class="sc1",source=""} 1"#,
        "csi_sidecar_provisioning_in_doubt 1",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[tokio::test]
async fn what_is_not_permitted_is_named_as_it_goes_into_a_manifest() {
    let stage = Stage::new().await;
    let allow = |volumes: &str| {
        stage.api.allow_only([
            Allow::new("", "persistentvolumes", volumes),
            Allow::new("", "persistentvolumeclaims", "get,list,watch,update"),
            Allow::new("storage.k8s.io", "storageclasses", "list,watch"),
            Allow::new("", "events", "create,patch"),
            Allow::new("", "secrets", "get"),
            Allow::new("coordination.k8s.io", "leases", "get,create,update"),
        ]);
    };
    allow("get,list,watch,delete");
    let mut program = stage.start(&["--retry-interval-start=1s"]);
    let rule = r#"{apiGroups: [""], resources: ["persistentvolumes"], verbs: ["create", "patch"]} in a ClusterRole"#;
    let rule = rule.replace('"', r#"\""#);
    program.logs(&rule).await;
    stage.api.insert(claim());
    stage.until_calls("CreateVolume", 1).await;
    settle().await;
    assert!(program.is_running() && stage.volume(PV).is_null());
    let lines = program.log();
    let complaints = lines.lines().filter(|line| line.contains("a permission"));
    assert_eq!(complaints.count(), 1, "{lines}");
    allow("get,list,watch,create,patch,delete");
    stage.until_volume(PV).await;
    assert_eq!(stage.calls("CreateVolume"), 1);
}

#[tokio::test]
async fn watches_that_are_refused_are_tried_again() {
    let stage = Stage::new().await;
    let fault = stage
        .api
        .fault(Fault::on("GET", "*/persistentvolumes*").answer(403));
    let mut program = stage.start(&[]);
    stage.api.insert(claim());
    settle().await;
    assert_eq!(stage.calls("CreateVolume"), 0);
    assert!(program.is_running());
    fault.remove();
    stage.until_volume(PV).await;
}
