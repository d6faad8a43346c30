//! PersistentVolumes whose fate differs from their claims'.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::object::{self, Binding};
use e2e::process::Process;
use e2e::suite::Verdict;
use e2e::wait;
use serde_json::{Value, json};

use super::place::name;
use super::scene::{CLAIMS, SOON, Scene, VOLUMES, at_most, skipped, writes};

const FLAGS: [&str; 2] = ["--enable-topology=false", "--sync=false"];

const OURS: &str = "external-provisioner.volume.kubernetes.io/finalizer";

fn protected(volume: &Value) -> bool {
    let finalizers = volume.pointer("/metadata/finalizers");
    let mut finalizers = finalizers.and_then(Value::as_array).into_iter().flatten();
    finalizers.any(|it| it == OURS)
}

fn until(
    scene: &Scene<'_>,
    provisioner: &mut Process,
    what: &str,
    volume: &str,
    is: impl Fn(&Value) -> bool,
) -> Result<()> {
    let done = wait::until_true(SOON, &format!("{volume} is {what}"), || {
        provisioner.must_run()?;
        Ok(is(&scene.api.get(&format!("{VOLUMES}/{volume}"))?))
    });
    done.with_context(|| provisioner.tail())
}

fn released(volume: &Value) -> bool {
    text(volume, "/status/phase") == Some("Released")
}

/// Asserts that the driver gets no delete call in the next moment.
fn nothing_deleted(scene: &Scene<'_>) -> Result<()> {
    wait::stays(Duration::from_millis(500), "no volume is deleted", || {
        Ok(scene.calls()?.of("DeleteVolume").count() == 0)
    })
}

pub(super) fn retained(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let retain = json!({ "reclaimPolicy": "Retain" });
    let scene = Scene::with_class(cluster, "retain", Binding::Immediate, &FLAGS, &retain)?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut provisioner = scene.start_provisioner(&[])?;
    let mut volumes = Vec::new();
    for claim in ["retain-0", "retain-1"] {
        scene.claim(claim)?;
        let volume = scene.until_bound(&mut provisioner, claim)?;
        let volume = name(&volume)?.to_owned();
        until(&scene, &mut provisioner, "let go", &volume, |it| {
            !protected(it)
        })?;
        scene.release(claim)?;
        until(&scene, &mut provisioner, "released", &volume, released)?;
        volumes.push(volume);
    }
    nothing_deleted(&scene)?;
    ensure!(
        scene.stored("/left_over/volumes")? == json!(2),
        "both are kept"
    );
    let [kept, changed] = volumes.as_slice() else {
        anyhow::bail!("two volumes");
    };

    // The administrator deletes one object, and the volume in the storage by other means.
    let object = format!("{VOLUMES}/{kept}");
    let handle = scene.api.get(&object)?;
    let handle = text(&handle, "/spec/csi/volumeHandle").context("handle")?;
    scene.api.delete(&object)?;
    scene.api.until_gone(SOON, &object)?;
    nothing_deleted(&scene)?;
    ensure!(
        scene.stored("/left_over/volumes")? == json!(2),
        "both are kept"
    );
    let control = scene.deployment.controller.control();
    control.ask("POST", "/forget", Some(&json!({ "volumes": [handle] })))?;

    // The administrator sets the other volume's policy to Delete.
    let delete = json!({ "spec": { "persistentVolumeReclaimPolicy": "Delete" } });
    scene.api.merge(&format!("{VOLUMES}/{changed}"), &delete)?;
    scene.until_nothing_is_left(&mut provisioner)?;
    let requests = scene.phase()?;
    let deleted = scene.calls()?.of("DeleteVolume").count();
    ensure!(deleted == 1, "DeleteVolume: {deleted}");
    at_most("writes", writes(&requests), 5, &requests)?;
    scene.finish()
}

pub(super) fn deleted_first(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "first", Binding::Immediate, &FLAGS)?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut provisioner = scene.start_provisioner(&[])?;
    scene.claim("first")?;
    let volume = scene.until_bound(&mut provisioner, "first")?;
    let object = format!("{VOLUMES}/{}", name(&volume)?);
    scene.api.delete(&object)?;
    nothing_deleted(&scene)?;
    let volume = scene.api.get(&object)?;
    ensure!(protected(&volume), "the volume waits for its claim");
    scene.release("first")?;
    scene.until_nothing_is_left(&mut provisioner)?;
    let requests = scene.phase()?;
    let deleted = scene.calls()?.of("DeleteVolume").count();
    ensure!(deleted > 0, "the storage still has the volume");
    at_most("DeleteVolume", deleted as u64, 1, &requests)?;
    at_most("writes", writes(&requests), 3, &requests)?;
    scene.finish()
}

/// Row N-8: an attachment keeps the volume, without a warning. Only the scenario detaches it.
pub(super) fn attached(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let flags = [FLAGS.as_slice(), &["--enable-attach=true"]].concat();
    let scene = Scene::new(cluster, "attached", Binding::Immediate, &flags)?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut provisioner = scene.start_provisioner(&[])?;
    scene.claim("attached")?;
    let volume = scene.until_bound(&mut provisioner, "attached")?;
    let (volume, driver) = (name(&volume)?, scene.deployment.driver());
    let attachment = object::volume_attachment("by-hand", driver, volume, "node-0");
    let attachments = "/apis/storage.k8s.io/v1/volumeattachments";
    scene.api.create(attachments, &attachment)?;
    scene.release("attached")?;
    let detach = "VolumeDelete: persistentvolume";
    scene.until_event(&mut provisioner, volume, detach)?;
    nothing_deleted(&scene)?;
    scene.api.delete(&format!("{attachments}/by-hand"))?;
    scene.until_nothing_is_left(&mut provisioner)?;
    let deleted = scene.calls()?.of("DeleteVolume").count();
    ensure!(deleted == 1, "DeleteVolume: {deleted}");
    let events = scene.api.events("default", volume);
    ensure!(!events.contains("VolumeFailedDelete"), "{events}");
    scene.finish()
}

pub(super) fn made_by_hand(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "hand", Binding::Immediate, &FLAGS)?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut provisioner = scene.start_provisioner(&[])?;
    let control = scene.deployment.controller.control();
    let handles = control.make_volumes(&["by-hand".to_owned()], 1 << 20)?;
    let handle = handles.first().context("a volume")?;
    let driver = scene.deployment.driver();
    let object = object::persistent_volume("by-hand", driver, handle);
    let policy = json!({
        // kube-controller-manager leaves the deletion to the provisioner that is named here.
        "metadata": { "annotations": { "pv.kubernetes.io/provisioned-by": driver } },
        "spec": { "persistentVolumeReclaimPolicy": "Delete" },
    });
    scene.api.create(VOLUMES, &object::with(object, &policy))?;
    scene.create_claim(&object::claim_of("by-hand", "by-hand"))?;
    scene.until_bound(&mut provisioner, "by-hand")?;
    until(&scene, &mut provisioner, "taken over", "by-hand", protected)?;
    scene.release("by-hand")?;
    scene.until_nothing_is_left(&mut provisioner)?;
    ensure!(
        scene.api.find(&format!("{CLAIMS}/by-hand"))?.is_none(),
        "the claim is gone"
    );
    let deleted = scene.calls()?.of("DeleteVolume");
    ensure!(deleted.about(handle).count() == 1, "{}", deleted.count());
    let requests = scene.phase()?;
    at_most("writes", writes(&requests), 3, &requests)?;
    scene.finish()
}
