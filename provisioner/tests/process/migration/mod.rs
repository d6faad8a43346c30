//! Classes, claims and volumes of in-tree plugins, which the CSI driver that replaced the plugin
//! serves: rows M-1 to M-98.
//!
//! Rows 44, 45, 282 and 284 as they are here: a claim for a volume of a migrated in-tree plugin is
//! named in an event, and nothing is changed.

use sidecar_testkit::build::{self, Object};

use super::stage::{ANNOTATION, PV, READY, Stage, claim, settle};

mod start;
mod volumes;

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
