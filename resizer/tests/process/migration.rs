//! Rows M-1 to M-6 and M-133 to M-148: volumes of in-tree plugins, which the CSI driver that
//! replaced the plugin expands if the claim names it.
//!
//! All rows run with the permissions for volumes of CSI drivers.

use csi_proto::csi::volume_capability::access_mode::Mode;
use serde_json::{Value, json};
use sidecar_testkit::CallFault;
use sidecar_testkit::api::access::Allow;
use sidecar_testkit::build;

use super::stage::{
    EXPAND, GI, MODIFY, NEVER_AGAIN, PRE_RESIZE, PROGRAM, QUICK, Running, Stage, free_address, get,
    settle,
};

const RESIZER: &str = "volume.kubernetes.io/storage-resizer";
const ZONE: &str = "topology.kubernetes.io/zone";

const EBS: &str = "ebs.csi.aws.com";
const GCE: &str = "pd.csi.storage.gke.io";
const PORTWORX: &str = "pxd.portworx.com";

const BEGIN: &str = r#"cs(rv) {"status":{"allocatedResourceStatuses":{"storage":"ControllerResizeInProgress"},"allocatedResources":{"storage":"2Gi"},"conditions":[{"status":"True","type":"Resizing"}]}}"#;
const GROW: &str = r#"pp {"spec":{"capacity":{"storage":"2Gi"}}}"#;
const FINISH: &str = r#"cs(rv) {"metadata":{"annotations":{"volume.kubernetes.io/node-expansion-not-required":"true"}},"status":{"allocatedResourceStatuses":null,"capacity":{"storage":"2Gi"},"conditions":null}}"#;
const GROW_ON_NODE: &str = r#"pp {"metadata":{"annotations":{"volume.alpha.kubernetes.io/pre-resize-capacity":"1Gi"}},"spec":{"capacity":{"storage":"2Gi"}}}"#;

/// A stage with a driver of this name, whose volume `pv1` has this in-tree source.
async fn on(driver: &str, field: &str, source: Value) -> Stage {
    let stage = Stage::modifying().await;
    stage.driver.configure(|model| {
        model.name = driver.to_owned();
        model.controller.pop();
    });
    for handle in ["vol-1", "p", "projects/UNSPECIFIED/zones/z1/disks/d"] {
        stage.driver.volume(handle);
    }
    stage.edit_volume(|volume| {
        volume["spec"]["csi"] = Value::Null;
        volume["spec"][field] = source;
    });
    stage.api.allow_only([
        Allow::new("", "persistentvolumes", "get,list,watch,patch"),
        Allow::new("", "persistentvolumeclaims", "get,list,watch"),
        Allow::new("", "persistentvolumeclaims/status", "patch"),
        Allow::new("", "pods", "get,list,watch"),
        Allow::new("", "secrets", "get"),
        Allow::new("", "events", "list,watch,create,update,patch"),
        Allow::new(
            "storage.k8s.io",
            "volumeattributesclasses",
            "get,list,watch",
        ),
    ]);
    stage
}

async fn on_ebs() -> Stage {
    on(
        EBS,
        "awsElasticBlockStore",
        json!({"volumeID": "aws://us-east-1a/vol-1"}),
    )
    .await
}

/// Annotates the claim with the resizer, as kube-controller-manager does before an expansion.
fn annotate(stage: &Stage, resizer: &str) {
    stage.edit_claim(|claim| claim["metadata"]["annotations"][RESIZER] = resizer.into());
}

fn modes(stage: &Stage, modes: Value) {
    stage.edit_volume(|volume| volume["spec"]["accessModes"] = modes);
}

fn has_mode(stage: &Stage, mode: Mode) -> bool {
    let capability = stage.request().volume_capability.unwrap();
    capability.access_mode.unwrap().mode == i32::from(mode)
}

/// Whether the metrics have samples of this method with that label.
fn counted(metrics: &str, method: &str, migrated: bool) -> bool {
    let label = format!(r#"migrated="{migrated}""#);
    let mut counts = metrics.lines().filter(|line| line.contains("_count{"));
    counts.any(|line| line.contains(&format!("/{method}\"")) && line.contains(&label))
}

/// Asserts that the program writes, calls and reports nothing for the claim.
async fn nothing_for(stage: &Stage, row: &str, program: Running) {
    stage.grow("2Gi");
    settle().await;
    stage.traced(row, &[]);
    assert_eq!(stage.posted(), [""; 0], "{row}");
    drop(program);
}

#[tokio::test]
async fn m_1_and_2_drivers_that_replaced_a_plugin_are_met_twice_and_count_what_is_migrated() {
    let replacing = [
        EBS,
        GCE,
        "cinder.csi.openstack.org",
        "disk.csi.azure.com",
        "file.csi.azure.com",
        "csi.vsphere.vmware.com",
        PORTWORX,
    ];
    let others = ["EBS.csi.aws.com", "rbd.csi.ceph.com", "hostpath.csi.k8s.io"];
    let rows = replacing.map(|name| (name, true)).into_iter();
    for (driver, migrated) in rows.chain(others.map(|name| (name, false))) {
        let stage = Stage::new().await;
        stage
            .driver
            .configure(|model| model.name = driver.to_owned());
        let address = free_address();
        let endpoint = format!("--http-endpoint={address}");
        let _program = stage.started(&[&endpoint]).await;
        assert_eq!(
            stage.calls("Probe"),
            if migrated { 2 } else { 1 },
            "{driver}"
        );
        assert_eq!(stage.calls("GetPluginInfo"), 1, "{driver}");
        let (_, text) = get(&address, "/metrics").await;
        let of_calls = || {
            text.lines()
                .filter(|line| line.starts_with("csi_sidecar_operations"))
        };
        assert!(of_calls().count() > 0, "{driver}: {text}");
        let labelled = |line: &str| line.contains(r#"migrated="false""#);
        assert!(
            of_calls().all(|line| labelled(line) == migrated),
            "{driver}: {text}"
        );
    }
}

#[tokio::test]
async fn m_4_there_are_no_gates_for_it() {
    for gate in [
        "CSIMigration",
        "CSIMigrationAWS",
        "InTreePluginAWSUnregister",
    ] {
        let ended = PROGRAM
            .start(&[&format!("--feature-gates={gate}=true")])
            .end()
            .await;
        assert_eq!(ended.code, Some(1), "{gate}: {}", ended.log);
        assert!(ended.log.contains(gate), "{}", ended.log);
    }
}

#[tokio::test]
async fn m_133_and_6_the_volume_of_an_annotated_claim_grows() {
    let stage = on_ebs().await;
    annotate(&stage, EBS);
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let _program = stage.started(&[&endpoint]).await;
    stage.grow("2Gi");
    stage.until_events("VolumeResizeSuccessful", 1).await;
    settle().await;
    stage.traced("M-133", &[BEGIN, "Exp vol-1 2147483648", GROW, FINISH]);
    let told = [
        "N Resizing External resizer is resizing volume pv1",
        "N VolumeResizeSuccessful Resize volume succeeded",
    ];
    assert_eq!(stage.posted(), told, "M-133");
    let source = &stage.volume()["spec"]["awsElasticBlockStore"];
    assert_eq!(source["volumeID"], "aws://us-east-1a/vol-1", "M-133");
    let (_, text) = get(&address, "/metrics").await;
    assert!(
        counted(&text, EXPAND, true) && !counted(&text, EXPAND, false),
        "M-133: {text}"
    );
    assert!(counted(&text, "ControllerGetCapabilities", false), "{text}");
    let mut refused = stage.api.requests();
    refused.retain(|request| request.status == Some(403));
    assert!(refused.is_empty(), "M-6: {refused:?}");
}

#[tokio::test]
async fn m_134_and_135_and_148_the_annotation_alone_says_who_expands() {
    for resizer in [None, Some("kubernetes.io/aws-ebs"), Some("other.driver")] {
        let stage = on_ebs().await;
        if let Some(resizer) = resizer {
            annotate(&stage, resizer);
        }
        let program = stage.started(&[QUICK]).await;
        nothing_for(&stage, "M-134", program).await;
        // S > C for a while, and a new process.
        let program = stage.started(&[QUICK]).await;
        settle().await;
        stage.traced("M-148", &[]);
        assert_eq!(stage.posted(), [""; 0], "M-148");
        stage.clear();
        annotate(&stage, EBS);
        stage.until_capacity("2Gi").await;
        assert_eq!(stage.asked(), [2 * GI], "M-135");
        drop(program);
    }
}

#[tokio::test]
async fn m_136_and_137_how_the_driver_knows_the_volume_and_its_users() {
    let stage = on(GCE, "gcePersistentDisk", json!({"pdName": "d"})).await;
    stage.edit_volume(|volume| volume["metadata"]["labels"][ZONE] = "z1".into());
    modes(&stage, json!(["ReadWriteOnce", "ReadOnlyMany"]));
    annotate(&stage, GCE);
    let _program = stage.started(&[]).await;
    stage.grow("2Gi");
    stage.until_capacity("2Gi").await;
    assert_eq!(
        stage.request().volume_id,
        "projects/UNSPECIFIED/zones/z1/disks/d",
        "M-136"
    );
    assert!(has_mode(&stage, Mode::SingleNodeWriter), "M-137");

    let stage = on_ebs().await;
    modes(&stage, json!(["ReadWriteOnce", "ReadOnlyMany"]));
    annotate(&stage, EBS);
    let _program = stage.started(&[NEVER_AGAIN]).await;
    stage.grow("2Gi");
    stage.until_events("VolumeResizeFailed", 1).await;
    let message = &stage.events("VolumeResizeFailed")[0];
    assert!(
        message.contains("failed to get capabilities of volume pv1"),
        "M-137: {message}"
    );
    assert_eq!(stage.calls(EXPAND), 0, "M-137");
}

#[tokio::test]
async fn m_138_a_volume_that_cannot_be_translated_is_tried_again_with_back_off() {
    let stage = on(
        EBS,
        "awsElasticBlockStore",
        json!({"volumeID": "aws://z/x"}),
    )
    .await;
    annotate(&stage, EBS);
    let _program = stage.started(&[QUICK]).await;
    stage.grow("2Gi");
    stage.until_events("VolumeResizeFailed", 3).await;
    let message = &stage.events("VolumeResizeFailed")[0];
    let text = r#"resize volume "pv1" by resizer "ebs.csi.aws.com" failed: failed to translate persistent volume: failed to translate Kubernetes ID"#;
    assert!(message.starts_with(text), "{message}");
    assert_eq!((stage.state(), stage.calls(EXPAND)), ("CRIP", 0));
    assert_eq!(stage.conditions(), ["Resizing"]);
    assert_eq!(stage.size(), "1Gi");
}

#[tokio::test]
async fn m_139_and_143_and_144_volumes_that_are_not_this_drivers() {
    let stage = on(EBS, "nfs", json!({"server": "s", "path": "/"})).await;
    annotate(&stage, EBS);
    let program = stage.started(&[QUICK]).await;
    nothing_for(&stage, "M-139", program).await;

    let stage = on("T", "gcePersistentDisk", json!({"pdName": "d"})).await;
    annotate(&stage, "T");
    let program = stage.started(&[QUICK]).await;
    nothing_for(&stage, "M-143", program).await;

    let stage = on_ebs().await;
    stage.edit_volume(|volume| {
        volume["spec"]["awsElasticBlockStore"] = Value::Null;
        volume["spec"]["csi"] = json!({"driver": "other", "volumeHandle": "h1"});
    });
    annotate(&stage, EBS);
    let program = stage.started(&[QUICK]).await;
    nothing_for(&stage, "M-144", program).await;
}

#[tokio::test]
async fn m_140_the_secret_that_portworx_is_asked_with() {
    let stage = on(PORTWORX, "portworxVolume", json!({"volumeID": "p"})).await;
    let secret = build::secret("ns1/es").entry("user", "ZQ==");
    stage.api.insert(secret);
    stage.edit_volume(|volume| {
        volume["metadata"]["annotations"] = json!({
            "openstorage.io/auth-secret-name": "es",
            "openstorage.io/auth-secret-namespace": "ns1",
        });
    });
    annotate(&stage, PORTWORX);
    let _program = stage.started(&[]).await;
    stage.grow("2Gi");
    stage.until_capacity("2Gi").await;
    let trace = stage.trace();
    assert_eq!(trace[1..3], ["secret es", "Exp p 2147483648"], "{trace:?}");
    assert_eq!(stage.request().secrets["user"], "e");
}

#[tokio::test]
async fn m_141_the_node_has_to_expand_too() {
    let stage = on_ebs().await;
    stage.node();
    annotate(&stage, EBS);
    let _program = stage.started(&[]).await;
    stage.grow("2Gi");
    stage.until_events("FileSystemResizeRequired", 1).await;
    let trace = stage.trace();
    assert_eq!(trace[..3], [BEGIN, "Exp vol-1 2147483648", GROW_ON_NODE]);
    assert_eq!((stage.state(), stage.capacity()), ("NRP", json!("1Gi")));
    stage.clear();
    stage.node_expanded("2Gi");
    stage
        .until("annotation removed", |stage| stage.pre_resize().is_null())
        .await;
    settle().await;
    assert_eq!(stage.trace().len(), 1, "{:?}", stage.trace());
    assert_eq!(stage.size(), "2Gi");
}

/// A restart after the node's part, before the last write.
#[tokio::test]
async fn m_141_an_annotation_that_has_done_its_duty() {
    let stage = on_ebs().await;
    stage.edit_volume(|volume| volume["metadata"]["annotations"][PRE_RESIZE] = "1Gi".into());
    let _program = stage.started(&[]).await;
    stage
        .until("M-141", |stage| stage.pre_resize().is_null())
        .await;
    let trace = stage.trace();
    assert!(trace.len() == 2 && trace[0] == "GET c1", "{trace:?}");
}

#[tokio::test]
async fn m_142_kubelet_does_it_all() {
    let stage = on_ebs().await;
    stage.node();
    stage
        .driver
        .configure(|model| model.controller = Vec::new());
    annotate(&stage, EBS);
    let _program = stage.started(&[]).await;
    stage.grow("2Gi");
    stage.until_events("FileSystemResizeRequired", 1).await;
    assert_eq!(stage.trace()[..2], [BEGIN, GROW_ON_NODE]);
    assert_eq!((stage.state(), stage.calls(EXPAND)), ("NRP", 0));
}

#[tokio::test]
async fn m_145_the_volume_of_another_plugin_is_refused_with_an_event() {
    let stage = on(EBS, "gcePersistentDisk", json!({"pdName": "d"})).await;
    annotate(&stage, EBS);
    let _program = stage.started(&[QUICK]).await;
    stage.grow("2Gi");
    stage.until_events("VolumeResizeFailed", 1).await;
    settle().await;
    let message = &stage.events("VolumeResizeFailed")[0];
    assert!(
        message.contains(GCE) && message.contains(RESIZER),
        "{message}"
    );
    stage.traced("nothing is changed", &[]);
    assert_eq!(stage.events_of("VolumeResizeFailed"), 1);
}

#[tokio::test]
async fn m_146_in_tree_volumes_are_not_modified() {
    let stage = on_ebs().await;
    stage.can(sidecar_testkit::driver::ControllerRpc::ModifyVolume);
    annotate(&stage, EBS);
    let _program = stage.started(&[QUICK]).await;
    stage.reclass(Some("b"));
    settle().await;
    stage.traced("M-146", &[]);
    assert_eq!(stage.calls(MODIFY), 0);
    assert_eq!(stage.posted(), [""; 0]);
}

#[tokio::test]
async fn z_122_and_123_a_disk_of_gce() {
    let stage = on(GCE, "gcePersistentDisk", json!({"pdName": "d1"})).await;
    let handle = "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d1";
    stage.driver.volume(handle);
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let _program = stage.started(&[&endpoint]).await;
    stage.grow("2Gi");
    settle().await;
    stage.traced("Z-122 without the annotation", &[]);
    assert_eq!(stage.posted(), [""; 0], "Z-122 without the annotation");
    annotate(&stage, GCE);
    stage.until_capacity("2Gi").await;
    assert_eq!(stage.request().volume_id, handle, "Z-122");
    assert_eq!(stage.size(), "2Gi", "Z-122");
    let (_, text) = get(&address, "/metrics").await;
    assert!(counted(&text, EXPAND, true), "Z-123: {text}");
    let mut others = text.lines().filter(|line| line.contains("_count{"));
    assert!(
        others.all(
            |line| line.contains(r#"migrated="true""#) == line.contains(EXPAND)
                || !line.starts_with("csi_sidecar_operations")
        ),
        "Z-123: {text}"
    );
}

/// A refusal of the driver has the same effect as for any other volume.
#[tokio::test]
async fn m_133_a_refusal_is_recorded_and_recovered_from() {
    let stage = on_ebs().await;
    annotate(&stage, EBS);
    let fault = CallFault::on(EXPAND).fail(tonic::Code::Internal, "boom");
    stage.driver.fault(fault.times(1));
    let _program = stage.started(&[QUICK]).await;
    stage.grow("2Gi");
    stage.until_capacity("2Gi").await;
    assert_eq!(stage.asked(), [2 * GI; 2]);
    let failed = &stage.events("VolumeResizeFailed")[0];
    assert!(failed.contains("boom"), "{failed}");
}
