//! The whole life of volumes with a class of an in-tree plugin, or with its source.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::deployment::{NodePod, Pod};
use e2e::process::Programs;
use e2e::suite::Verdict;
use e2e::{object, wait};
use serde_json::{Value, json};

use super::scene::{CLAIMS, Plugin, SOON, Scene, VOLUMES, annotation, must_have, skipped};

const BY: &str = "pv.kubernetes.io/provisioned-by";
const MOVED: &str = "pv.kubernetes.io/migrated-to";
const OURS: &str = "external-provisioner.volume.kubernetes.io/finalizer";

const EBS: Plugin = Plugin {
    name: "kubernetes.io/aws-ebs",
    driver: "ebs.csi.aws.com",
    source: "awsElasticBlockStore",
    zone: ("topology.ebs.csi.aws.com/zone", "us-east-1a", "us-east-1"),
    ids: "",
    parameters: &[("type", "gp3"), ("fsType", "ext4")],
};

/// A disk's project is in no PersistentVolume: the calls to the driver lack it.
const GCE: Plugin = Plugin {
    name: "kubernetes.io/gce-pd",
    driver: "pd.csi.storage.gke.io",
    source: "gcePersistentDisk",
    zone: ("topology.gke.io/zone", "us-east1-b", "us-east1"),
    ids: "projects/UNSPECIFIED/zones/us-east1-b/disks/",
    parameters: &[("type", "pd-ssd")],
};

pub(super) fn ebs(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "in-tree-ebs", EBS)?;
    let _driver = scene.deployment.start_controller(&[])?;
    let node = scene.start_node()?;
    let mut sidecars = scene.start()?;
    life(&scene, &mut sidecars, &node)?;
    inline(&scene, &mut sidecars, &node)?;
    by_hand(&scene, &mut sidecars)?;
    scene.finish(&node)
}

pub(super) fn gce(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "in-tree-gce", GCE)?;
    let _driver = scene.deployment.start_controller(&[])?;
    let node = scene.start_node()?;
    let mut sidecars = scene.start()?;
    life(&scene, &mut sidecars, &node)?;
    scene.finish(&node)
}

/// M-149, M-150, M-152, M-153 and M-155.
fn life(scene: &Scene<'_>, sidecars: &mut Programs, node: &NodePod<'_>) -> Result<()> {
    let (claim, plugin) = (scene.name, scene.plugin);
    scene
        .api
        .create(CLAIMS, &object::claim(claim, scene.name, "32Mi"))?;
    let name = scene.until_bound(sidecars, claim)?;
    let said = scene.claim(claim)?;
    for key in [
        "volume.kubernetes.io/storage-provisioner",
        "volume.beta.kubernetes.io/storage-provisioner",
    ] {
        ensure!(
            annotation(&said, key) == Some(plugin.driver),
            "M-149: {said:#}"
        );
    }
    let volume = scene.volume(&name)?;
    let source = volume
        .pointer("/spec")
        .and_then(|spec| spec.get(plugin.source));
    ensure!(
        source.is_some() && volume.pointer("/spec/csi").is_none(),
        "M-149: {volume:#}"
    );
    ensure!(
        annotation(&volume, BY) == Some(plugin.name),
        "M-149: {volume:#}"
    );
    until_moved(scene, sidecars, &name).context("M-149")?;

    let mut pod = Pod::create(&scene.api, claim, Some(&node.seat.node), claim)?;
    pod.until_running(&scene.api)
        .with_context(|| sidecars.tails())?;
    pod.must_be_mounted(&node.seat, &name)?;
    let attachment =
        scene.attachment(|it| text(it, "/spec/source/persistentVolumeName") == Some(&name))?;
    let attachment = attachment.context("M-150: no VolumeAttachment")?;
    ensure!(
        text(&attachment, "/spec/attacher") == Some(plugin.driver),
        "{attachment:#}"
    );
    let volume = scene.volume(&name)?;
    let finalizer = format!("external-attacher/{}", plugin.driver.replace('.', "-"));
    must_have(&volume, &finalizer).context("M-150")?;
    must_have(&volume, OURS)?;

    grow(scene, sidecars, &name)?;

    let bare = json!({ "metadata": { "annotations": { MOVED: null } } });
    scene.api.merge(&format!("{VOLUMES}/{name}"), &bare)?;
    until_moved(scene, sidecars, &name).context("M-155")?;

    scene.api.delete(&pod.path)?;
    scene.api.until_gone(SOON, &pod.path)?;
    scene.api.delete(&format!("{CLAIMS}/{claim}"))?;
    let gone = scene.api.until_gone(SOON, &format!("{VOLUMES}/{name}"));
    gone.context("M-153")
        .with_context(|| scene.api.events("default", &name))
        .with_context(|| sidecars.tails())?;
    scene.until_left(sidecars, 0).context("M-153")?;
    let deleted = scene.calls()?.of("DeleteVolume").answered().count();
    ensure!(deleted == 1, "M-153: DeleteVolume {deleted} times");
    Ok(())
}

/// M-152
fn grow(scene: &Scene<'_>, sidecars: &mut Programs, volume: &str) -> Result<()> {
    let claim = scene.name;
    let size = json!({ "spec": { "resources": { "requests": { "storage": "96Mi" } } } });
    scene.api.merge(&format!("{CLAIMS}/{claim}"), &size)?;
    scene.until(sidecars, "the claim has grown", || {
        let said = scene.claim(claim)?;
        let grown = text(&said, "/status/capacity/storage") == Some("96Mi");
        let key = "volume.kubernetes.io/storage-resizer";
        Ok((grown && annotation(&said, key) == Some(scene.plugin.driver)).then_some(()))
    })?;
    let events = scene.api.events("default", claim);
    ensure!(events.contains("ExternalExpanding"), "M-152: {events}");
    let volume = scene.volume(volume)?;
    ensure!(
        text(&volume, "/spec/capacity/storage") == Some("96Mi"),
        "M-152: {volume:#}"
    );
    Ok(())
}

/// Waits until kube-controller-manager has annotated the driver that the volume moved to.
fn until_moved(scene: &Scene<'_>, sidecars: &mut Programs, name: &str) -> Result<()> {
    scene.until(sidecars, "the volume is said to be moved", || {
        let volume = scene.volume(name)?;
        Ok((annotation(&volume, MOVED) == Some(scene.plugin.driver)).then_some(()))
    })
}

/// Creates a volume as the storage's administrator does. Returns its id.
fn made(scene: &Scene<'_>, name: &str) -> Result<String> {
    let control = scene.deployment.controller.control();
    let ids = control.make_volumes(&[name.to_owned()], 32 << 20)?;
    ids.into_iter().next().context("a volume")
}

fn forget(scene: &Scene<'_>, id: &str) -> Result<()> {
    let control = scene.deployment.controller.control();
    control.ask("POST", "/forget", Some(&json!({ "volumes": [id] })))?;
    Ok(())
}

/// M-151
fn inline(scene: &Scene<'_>, sidecars: &mut Programs, node: &NodePod<'_>) -> Result<()> {
    let id = made(scene, "inline")?;
    let source = json!({ scene.plugin.source: { "volumeID": id } });
    let pod = object::pod("in-tree-inline", &node.seat.node, &source);
    let path = "/api/v1/namespaces/default/pods";
    scene.api.create(path, &pod)?;
    let mut pod = Pod::find(&scene.api, "in-tree-inline")?;
    pod.until_running(&scene.api)
        .with_context(|| sidecars.tails())?;
    let inline = |it: &Value| {
        text(it, "/spec/source/inlineVolumeSpec/csi/volumeHandle") == Some(id.as_str())
    };
    let attachment = scene
        .attachment(inline)?
        .context("M-151: no VolumeAttachment")?;
    let spec = attachment
        .pointer("/spec/source/inlineVolumeSpec")
        .context("M-151")?;
    let modes = spec.pointer("/accessModes");
    ensure!(
        modes == Some(&json!(["ReadWriteOnce"])),
        "M-151: {attachment:#}"
    );
    ensure!(
        text(spec, "/volumeMode") == Some("Filesystem"),
        "M-151: {attachment:#}"
    );
    scene.api.delete(&pod.path)?;
    scene.api.until_gone(SOON, &pod.path)?;
    scene.until(sidecars, "M-151: it is detached", || {
        Ok(scene.attachment(inline)?.is_none().then_some(()))
    })?;
    scene.until_left(sidecars, 1)?;
    forget(scene, &id)
}

/// M-154: no controller annotates a volume that no provisioner has made.
fn by_hand(scene: &Scene<'_>, sidecars: &mut Programs) -> Result<()> {
    let (name, id) = ("in-tree-by-hand", made(scene, "by-hand")?);
    let volume = object::persistent_volume(name, scene.plugin.driver, &id);
    let changes = json!({ "spec": {
        "csi": null,
        scene.plugin.source: { "volumeID": id },
        "persistentVolumeReclaimPolicy": "Delete",
    }});
    scene.api.create(VOLUMES, &object::with(volume, &changes))?;
    scene.api.create(CLAIMS, &object::claim_of(name, name))?;
    scene.until_bound(sidecars, name)?;
    let before = scene.calls()?.of("DeleteVolume").count();
    scene.api.delete(&format!("{CLAIMS}/{name}"))?;
    scene.until(sidecars, "M-154: the volume has failed", || {
        let volume = scene.volume(name)?;
        Ok((text(&volume, "/status/phase") == Some("Failed")).then_some(()))
    })?;
    wait::stays(Duration::from_secs(1), "M-154: it is left alone", || {
        let volume = scene.volume(name)?;
        let untouched = !volume.to_string().contains(OURS);
        Ok(untouched && scene.calls()?.of("DeleteVolume").count() == before)
    })?;
    scene.api.delete(&format!("{VOLUMES}/{name}"))?;
    scene.api.until_gone(SOON, &format!("{VOLUMES}/{name}"))?;
    forget(scene, &id)
}
