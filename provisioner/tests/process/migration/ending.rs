//! Rows M-53 to M-64: volumes that cannot have a PersistentVolume of the plugin are deleted, and the object is not
//! rejected again and again.

use csi_proto::csi::{CreateVolumeResponse, DeleteVolumeRequest};
use serde_json::json;
use sidecar_testkit::CallFault;
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::driver::{ControllerRpc, PluginService};
use tonic::Code;

use super::super::stage::{GI, PV, READY, Stage, U, free_address, settle, together};
use super::{
    AZURE_DISK, EBS, GCE, Segments, VSPHERE, answer, claim_for, intents, plugin, until_counted,
    until_settled, with_class,
};

const CREATE: &str = "CreateVolume";
const DELETE: &str = "DeleteVolume";
const E: &str = "topology.ebs.csi.aws.com/zone";
const URI: &str = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/n";
const BLOB: &str = "https://a.blob.core.windows.net/vhds/n.vhd";

/// Row, driver, its answer, and the text of the event.
type Row = (
    &'static str,
    &'static str,
    CreateVolumeResponse,
    &'static str,
);

fn rows() -> Vec<Row> {
    let ebs = |topologies: &[Segments<'_>]| answer("vol-1", &[], topologies);
    // Three zones of one region, with more than 20 characters each.
    let long = ["bos", "nyc", "was"].map(|city| format!("us-east-1-wl1-{city}-wlz-1"));
    let long: Vec<[(&str, &str); 1]> = long.iter().map(|zone| [(E, zone.as_str())]).collect();
    let long: Vec<Segments<'_>> = long.iter().map(|segments| &segments[..]).collect();
    vec![
        (
            "M-53",
            EBS,
            ebs(&[&[(E, "zone1")]]),
            "Unexpected zone format: zone1",
        ),
        ("M-54", EBS, ebs(&[&[("x", "y")]]), "no zones specified"),
        (
            "M-55",
            GCE,
            answer("d", &[], &[]),
            "failed to get id components",
        ),
        (
            "M-58",
            VSPHERE,
            answer("uuid", &[], &[]),
            "spec.vsphereVolume.volumePath",
        ),
        ("M-59", AZURE_DISK, answer(BLOB, &[], &[]), "disk"),
        (
            "M-60",
            EBS,
            answer("vol-1", &[("partition", "300")], &[]),
            "partition",
        ),
        ("M-61", EBS, ebs(&long), "topology.kubernetes.io/zone"),
    ]
}

async fn cluster(driver: &str, answer: CreateVolumeResponse) -> Stage {
    let stage = with_class(driver, &[]).await;
    let service = PluginService::VolumeAccessibilityConstraints;
    stage.driver.configure(|model| model.services.push(service));
    stage.driver.fault(CallFault::on(CREATE).answer(answer));
    stage
}

#[tokio::test]
async fn m_53_to_55_and_58_to_61_a_volume_without_persistent_volume_is_deleted_again() {
    together(rows(), deleted_again).await;
}

async fn deleted_again((row, driver, answer, cause): Row) {
    let id = answer.volume.as_ref().unwrap().volume_id.clone();
    let stage = cluster(driver, answer).await;
    let address = free_address();
    let http = format!("--http-endpoint={address}");
    let arguments = [
        "--immediate-topology=false",
        "--retry-interval-start=2s",
        &http,
    ];
    let program = stage.start(&arguments);
    program.logs(READY).await;
    stage.api.insert(claim_for(driver));
    stage.until_events("ProvisioningFailed", 1).await;
    let event = stage.events("ProvisioningFailed")[0].clone();
    assert!(event.contains(cause), "{row}: {event}");
    let deletions = stage.driver.calls_to(DELETE);
    assert_eq!(deletions.len(), 1, "{row}");
    let request: &DeleteVolumeRequest = deletions[0].request().unwrap();
    assert_eq!(request.volume_id, id, "{row}");
    // No outcome is unknown any more.
    until_settled(&stage, driver).await;
    stage.until_calls(CREATE, 2).await;
    stage.until_calls(DELETE, 2).await;
    stage.api.remove("persistentvolumeclaims", "ns1/c1");
    until_settled(&stage, driver).await;
    settle().await;
    let created = stage.calls(CREATE);
    assert_eq!(stage.calls(DELETE), created, "{row}");
    for method in [CREATE, DELETE] {
        until_counted(&address, method, (created as u64, 0)).await;
    }
    settle().await;
    assert_eq!(stage.calls(CREATE), created, "{row}: nobody wants it");
    assert!(stage.volume(PV).is_null(), "{row}");
    assert!(
        stage
            .api
            .requests_to("POST", "*/persistentvolumes")
            .is_empty(),
        "{row}"
    );
    assert!(stage.events("ProvisioningSucceeded").is_empty(), "{row}");
}

#[tokio::test]
async fn m_56_a_uri_in_lower_case_is_good_enough() {
    let lower = URI
        .replace("resourceGroups", "resourcegroups")
        .replace("Microsoft", "microsoft");
    let stage = cluster(AZURE_DISK, answer(&lower, &[], &[])).await;
    let _program = stage.start(&["--immediate-topology=false"]);
    stage.api.insert(claim_for(AZURE_DISK));
    stage.until_volume(PV).await;
    let disk = stage.volume(PV)["spec"]["azureDisk"].clone();
    assert_eq!(
        (&disk["diskURI"], &disk["diskName"]),
        (&json!(lower), &json!("n"))
    );
    assert_eq!(stage.calls(DELETE), 0);
}

#[tokio::test]
async fn m_57_a_volume_that_cannot_be_deleted_again_stays_owed() {
    let stage = cluster(GCE, answer("d", &[], &[])).await;
    let fault = stage
        .driver
        .fault(CallFault::on(DELETE).fail(Code::Internal, "no"));
    let arguments = ["--immediate-topology=false", "--retry-interval-start=2s"];
    let program = stage.start(&arguments);
    program.logs(READY).await;
    stage.api.insert(claim_for(GCE));
    stage.until_events("ProvisioningFailed", 1).await;
    let event = stage.events("ProvisioningFailed")[0].clone();
    assert!(
        event.contains("failed to get id components") && event.contains("orphan"),
        "{event}"
    );
    assert_eq!(intents(&stage, GCE), [U]);
    // Neither the end of the claim nor that of the process settles the request.
    stage.api.remove("persistentvolumeclaims", "ns1/c1");
    stage.until_calls(CREATE, 2).await;
    assert_eq!(intents(&stage, GCE), [U]);
    program.kill().await;
    fault.remove();
    let before = stage.calls(DELETE);
    let program = stage.start(&arguments);
    stage.until_calls(DELETE, before + 1).await;
    until_settled(&stage, GCE).await;
    assert!(stage.volume(PV).is_null(), "{}", program.log());
}

#[tokio::test]
async fn m_62_a_volume_attributes_class_needs_a_class_of_the_driver() {
    let stage = with_class(EBS, &[]).await;
    stage.can(ControllerRpc::ModifyVolume);
    stage.api.insert(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass",
        "metadata": {"name": "fast"}, "driverName": EBS, "parameters": {"iops": "1"},
    }));
    let _program = stage.start(&["--retry-interval-start=300s"]);
    stage
        .api
        .insert(claim_for(EBS).with("/spec/volumeAttributesClassName", "fast"));
    stage.until_events("ProvisioningFailed", 1).await;
    let event = stage.events("ProvisioningFailed")[0].clone();
    assert!(
        event.contains("needs a StorageClass whose provisioner is the CSI driver"),
        "{event}"
    );
    assert_eq!((stage.calls(CREATE), intents(&stage, EBS).len()), (0, 0));
    // Recreating the class ends the wait.
    stage.api.remove("storageclasses", "sc1");
    stage.api.insert(build::class("sc1").of(EBS).uid("another"));
    stage.until_volume(PV).await;
    assert_eq!(
        stage.volume(PV)["spec"]["volumeAttributesClassName"],
        "fast"
    );
}

#[tokio::test]
async fn m_63_what_any_driver_may_answer_is_deleted_as_of_any_driver() {
    let mut small = answer("vol-1", &[], &[]);
    small.volume.as_mut().unwrap().capacity_bytes = GI - 1;
    let stage = cluster(EBS, small).await;
    let address = free_address();
    let http = format!("--http-endpoint={address}");
    let _program = stage.start(&[
        "--immediate-topology=false",
        "--retry-interval-start=300s",
        &http,
    ]);
    stage.api.insert(claim_for(EBS));
    stage.until_events("ProvisioningFailed", 1).await;
    until_counted(&address, CREATE, (1, 0)).await;
    until_counted(&address, DELETE, (0, 1)).await;
}

#[tokio::test]
async fn m_64_what_is_repeated_gets_the_form_that_was_recorded() {
    let stage = with_class(EBS, &[("fsType", "xfs")]).await;
    let late = CallFault::on(CREATE).times(1);
    stage
        .driver
        .fault(late.fail_after(Code::DeadlineExceeded, "late"));
    let arguments = ["--retry-interval-start=3s"];
    let program = stage.start(&arguments);
    stage.api.insert(claim_for(EBS));
    stage.until_events("ProvisioningFailed", 1).await;
    assert_eq!(intents(&stage, EBS), [U]);
    // Another process reads it from the journal.
    program.kill().await;
    stage.api.remove("storageclasses", "sc1");
    stage.api.insert(build::class("sc1").of(EBS).uid("another"));
    let _program = stage.start(&arguments);
    stage.until_volume(PV).await;
    let volume = stage.volume(PV);
    let expected = json!({"volumeID": "vol-1", "fsType": "xfs"});
    assert_eq!(volume["spec"]["awsElasticBlockStore"], expected, "{volume}");
    let by = &volume["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"];
    assert_eq!(by, plugin(EBS));
    let requests = stage.creations();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0], requests[1]);
    assert_eq!(stage.handles(), ["vol-1"]);
}
