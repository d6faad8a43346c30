//! Clones, and volumes restored from snapshots.

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::object::{self, Binding};
use e2e::snapshots;
use e2e::suite::Verdict;
use serde_json::{Value, json};

use super::scene::{Scene, skipped};

const FLAGS: [&str; 2] = ["--enable-topology=false", "--sync=false"];

fn handle(volume: &Value) -> &str {
    text(volume, "/spec/csi/volumeHandle").unwrap_or_default()
}

/// Asserts that the storage made `volume` from `source`.
fn made_from(scene: &Scene<'_>, volume: &Value, source: &str) -> Result<()> {
    let state = scene.deployment.controller.control().state()?;
    let made = state.pointer(&format!("/volumes/{}/source", handle(volume)));
    let made = made.context("the copy's source in the storage")?;
    ensure!(made.to_string().contains(source), "source: {made}");
    Ok(())
}

pub(super) fn claim(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "clone", Binding::Immediate, &FLAGS)?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut provisioner = scene.start_provisioner(&[])?;
    scene.claim("original")?;
    let original = scene.until_bound(&mut provisioner, "original")?;
    let class = scene.deployment.driver();
    let kind = "PersistentVolumeClaim";
    scene.create_claim(&object::claim_from("copy", class, "1Mi", kind, "original"))?;
    let copy = scene.until_bound(&mut provisioner, "copy")?;
    made_from(&scene, &copy, handle(&original))?;
    scene.release("original")?;
    scene.release("copy")?;
    scene.until_nothing_is_left(&mut provisioner)?;
    scene.until_claim_gone(&mut provisioner, "original")?;
    scene.finish()
}

pub(super) fn snapshot(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "restore", Binding::Immediate, &FLAGS)?;
    snapshots::install(cluster, &scene.api)?;
    let _driver = scene.deployment.start_controller(&[])?;
    let control = scene.deployment.controller.control();
    let volumes = control.make_volumes(&["old".to_owned()], 1 << 20)?;
    let volume = volumes.first().context("a volume")?;
    let taken = control.take_snapshot("taken", volume)?;
    let driver = scene.deployment.driver();
    let snapshot = object::snapshot("taken", driver, &taken, 1 << 20);
    snapshots::store(&scene.api, &snapshot)?;

    let mut provisioner = scene.start_provisioner(&[])?;
    let kind = "VolumeSnapshot";
    scene.create_claim(&object::claim_from(
        "restored", driver, "1Mi", kind, "taken",
    ))?;
    let restored = scene.until_bound(&mut provisioner, "restored")?;
    made_from(&scene, &restored, &taken)?;
    scene.release("restored")?;
    scene.until_claim_gone(&mut provisioner, "restored")?;
    snapshots::remove(&scene.api, &snapshot)?;
    // The provisioner does not remove what the administrator has made.
    let forget = json!({ "volumes": [volume], "snapshots": [taken] });
    control.ask("POST", "/forget", Some(&forget))?;
    scene.until_nothing_is_left(&mut provisioner)?;
    scene.finish()
}
