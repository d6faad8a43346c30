//! Classes, claims and volumes of in-tree plugins, which the CSI driver that replaced the plugin
//! serves: rows M-1 to M-98.
//!
//! Rows 44, 45, 205, 282, 284 and 285 as they are here: what a migrated in-tree plugin left behind is
//! named in an event, and nothing is changed.

use serde_json::json;
use sidecar_testkit::build::{self, Object};

use super::stage::{ANNOTATION, PV, READY, Stage, claim, finalizers, released, settle};

mod start;

const EBS: &str = "ebs.csi.aws.com";
const GCE: &str = "pd.csi.storage.gke.io";
const CINDER: &str = "cinder.csi.openstack.org";
const AZURE_DISK: &str = "disk.csi.azure.com";
const AZURE_FILE: &str = "file.csi.azure.com";
const VSPHERE: &str = "csi.vsphere.vmware.com";
const PORTWORX: &str = "pxd.portworx.com";

const PLUGIN: &str = "kubernetes.io/aws-ebs";
const MIGRATED: &str = "pv.kubernetes.io/migrated-to";

/// A cluster with this driver.
async fn on(driver: &str) -> Stage {
    let stage = Stage::new().await;
    stage.driver.configure(|model| model.name = driver.into());
    stage
}

async fn stage() -> Stage {
    let stage = on(EBS).await;
    stage.api.insert(build::class("in-tree").of(PLUGIN));
    stage.api.insert(build::class("csi").of(EBS));
    stage
}

#[tokio::test]
async fn rows_44_45_282_and_284_claims() {
    let stage = stage().await;
    let program = stage.start(&["--retry-interval-start=5m"]);
    program.logs(READY).await;
    let named = |name: &str, provisioner: &str| {
        let claim = build::claim(&format!("ns1/{name}"))
            .class("in-tree")
            .mode("RWO")
            .uid(name);
        claim.annotation(ANNOTATION, provisioner)
    };
    stage
        .api
        .insert(named("r44", PLUGIN).annotation(MIGRATED, EBS));
    stage.api.insert(named("r282", EBS));
    let other = named("r45a", PLUGIN).annotation(MIGRATED, "other.csi");
    stage.api.insert(other);
    stage.api.insert(named("r45b", PLUGIN));
    stage.until_events("ProvisioningFailed", 2).await;
    settle().await;
    let events = stage.events("ProvisioningFailed");
    assert_eq!(events.len(), 2, "row 45: {events:?}");
    assert!(
        events.iter().all(|text| text.contains(PLUGIN)),
        "{events:?}"
    );
    assert_eq!(stage.calls("CreateVolume"), 0, "rows 44, 45, 282");
    let writes = stage.api.requests_to("PUT", "*/persistentvolumeclaims/*");
    assert!(writes.is_empty());
    stage
        .api
        .insert(claim().class("csi").annotation(ANNOTATION, EBS));
    stage.until_volume(PV).await;
    assert!(!stage.volume(PV)["spec"]["csi"].is_null(), "row 284");
}

#[tokio::test]
async fn rows_205_and_285_volumes() {
    let stage = stage().await;
    let volume = released("r205")
        .with("/spec/csi", json!(null))
        .with(
            "/spec/awsElasticBlockStore/volumeID",
            "aws://us-east-1a/vol-1",
        )
        .annotation("pv.kubernetes.io/provisioned-by", PLUGIN)
        .annotation(MIGRATED, EBS);
    stage.api.insert(volume);
    let before = stage.volume("r205");
    let _program = stage.start(&["--retry-interval-start=5m"]);
    stage.until_events("VolumeFailedDelete", 1).await;
    settle().await;
    assert!(stage.events("VolumeFailedDelete")[0].contains(PLUGIN));
    assert_eq!(stage.calls("DeleteVolume"), 0);
    assert_eq!(finalizers(&stage.volume("r205")), finalizers(&before));
    assert_eq!(stage.volume("r205"), before, "nothing is changed");
}
