//! Classes, claims and volumes of in-tree plugins that the CSI driver serves which replaced the plugin: rows M-1 to
//! M-98.

use csi_proto::csi::{CreateVolumeResponse, Topology, Volume};
use sidecar_testkit::build::{self, Object};
use sidecar_testkit::process::within;

use super::stage::{ANNOTATION, PATIENCE, Stage, claim, get};

mod capacity;
mod claims;
mod ending;
mod objects;
mod requests;
mod sources;
mod start;
mod trace;
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

/// The plugin that a driver replaced.
fn plugin(driver: &str) -> &'static str {
    match driver {
        EBS => PLUGIN,
        GCE => "kubernetes.io/gce-pd",
        CINDER => "kubernetes.io/cinder",
        AZURE_DISK => "kubernetes.io/azure-disk",
        AZURE_FILE => "kubernetes.io/azure-file",
        VSPHERE => "kubernetes.io/vsphere-volume",
        PORTWORX => "kubernetes.io/portworx-volume",
        _ => panic!("{driver} replaced nothing"),
    }
}

/// A class of the plugin that `driver` replaced, with these parameters.
fn class_of(driver: &str, parameters: &[(&str, &str)]) -> build::Class {
    let class = build::class("sc1").of(plugin(driver));
    parameters
        .iter()
        .fold(class, |class, (key, value)| class.parameter(key, value))
}

/// A cluster with this driver, where `sc1` is a class of the plugin that it replaced.
async fn with_class(driver: &str, parameters: &[(&str, &str)]) -> Stage {
    let stage = on(driver).await;
    stage.api.remove("storageclasses", "sc1");
    stage.api.insert(class_of(driver, parameters));
    stage
}

/// The fixture's claim as kube-controller-manager assigns it to `driver`.
fn claim_for(driver: &str) -> build::Claim {
    claim().annotation(ANNOTATION, driver)
}

/// UIDs of the claims whose intents are in the driver's journal.
fn intents(stage: &Stage, driver: &str) -> Vec<String> {
    stage.intents_in(&format!("csi/{}-journal-0", driver.replace('.', "-")))
}

/// Waits until the driver's journal has no intents.
async fn until_settled(stage: &Stage, driver: &str) {
    stage
        .until("the intents go", |stage| intents(stage, driver).is_empty())
        .await;
}

type Segments<'a> = &'a [(&'a str, &'a str)];

fn topology(segments: Segments<'_>) -> Topology {
    let pairs = segments.iter();
    Topology {
        segments: pairs
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
    }
}

/// A driver's answer: volume handle, volume context, accessible topologies.
fn answer(id: &str, context: Segments<'_>, topologies: &[Segments<'_>]) -> CreateVolumeResponse {
    CreateVolumeResponse {
        volume: Some(Volume {
            volume_id: id.into(),
            volume_context: topology(context).segments,
            accessible_topology: topologies
                .iter()
                .map(|segments| topology(segments))
                .collect(),
            ..Volume::default()
        }),
    }
}

/// Number of calls of a method in the metrics, by their label `migrated`.
fn counted(metrics: &str, method: &str, migrated: bool) -> u64 {
    let (method, label) = (format!("/{method}\""), format!(r#"migrated="{migrated}""#));
    let lines = { metrics.lines() }
        .filter(|line| line.starts_with("csi_sidecar_operations_seconds_count{"))
        .filter(|line| line.contains(&method) && line.contains(&label));
    lines
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum()
}

/// Waits until the metrics have these numbers of calls of a method, with `migrated="true"` and with `"false"`.
async fn until_counted(address: &str, method: &str, expected: (u64, u64)) {
    let mut text = String::new();
    within(PATIENCE, &format!("{method} {expected:?}"), async || {
        text = get(address, "/metrics").await.1;
        (counted(&text, method, true), counted(&text, method, false)) == expected
    })
    .await;
}
