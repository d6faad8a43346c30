//! Pods with a claim: the whole chain of controllers, attacher, kubelet and driver.

use anyhow::{Context, Result, ensure};
use csi_test_driver::invariants::Options;
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::deployment::{NodePod, Pod};
use e2e::suite::Verdict;
use e2e::{object, wait};
use serde_json::{Value, json};

use super::scene::{SOON, STORAGE, Scene, Volume, exactly, skipped};

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

/// VolumeAttachments of a volume; kube-controller-manager chooses their names.
fn attachments(scene: &Scene<'_>, volume: &Volume) -> Result<Vec<Value>> {
    let list = scene.api.get(&format!("{STORAGE}/volumeattachments"))?;
    let items = list.pointer("/items").and_then(Value::as_array);
    let of =
        |it: &&Value| text(it, "/spec/source/persistentVolumeName") == Some(volume.name.as_str());
    Ok(items.into_iter().flatten().filter(of).cloned().collect())
}

fn until_detached(scene: &Scene<'_>, volume: &Volume) -> Result<()> {
    wait::until_true(SOON, "the VolumeAttachment is gone", || {
        Ok(attachments(scene, volume)?.is_empty())
    })
    .with_context(|| format!("{:?}", attachments(scene, volume)))
}

/// Runs a pod on the node of the driver's pod until its volume is mounted.
fn run(scene: &Scene<'_>, node: &NodePod<'_>, name: &str, volume: &Volume) -> Result<Pod> {
    let mut pod = Pod::create(&scene.api, name, Some(&node.seat.node), &volume.name)?;
    pod.until_running(&scene.api)?;
    pod.must_be_mounted(&node.seat, &volume.name)?;
    Ok(pod)
}

pub(super) fn with_a_claim(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "pod")?;
    let api = &scene.api;
    let _driver = scene.start_driver()?;
    let mut attacher = scene.start_attacher(&[])?;
    let node = scene.deployment.start_node(0, &[])?;
    let volumes = scene.volumes(1)?;
    let volume = volumes.first().context("a volume")?;
    api.create(CLAIMS, &object::claim_of(&volume.name, &volume.name))?;
    scene.patches("before any attachment", 0)?;

    let writer = run(&scene, &node, "writer", volume)?;
    writer.write(&node.seat, &volume.name, "kept")?;
    let attached = attachments(&scene, volume)?;
    let context = attached
        .first()
        .and_then(|it| it.pointer("/status/attachmentMetadata"));
    ensure!(
        context == Some(&json!({ "attachment": format!("{}@{}", volume.handle, node.seat.node) })),
        "publish context: {context:?}"
    );
    scene.patches("first attach", 3)?;
    api.delete(&writer.path)?;
    until_detached(&scene, volume)?;
    scene.patches("detach", 2)?;

    let reader = run(&scene, &node, "reader", volume)?;
    let read = reader.read(&node.seat, &volume.name)?;
    ensure!(read == "kept", "what was written is there: {read:?}");
    scene.patches("later attach", 2)?;
    api.delete(&reader.path)?;
    until_detached(&scene, volume)?;
    scene.patches("later detach", 2)?;

    api.delete(&format!("{CLAIMS}/{}", volume.name))?;
    api.delete(&volume.path())?;
    attacher.until("the volume without attachments is gone", || {
        Ok(api.find(&volume.path())?.is_none())
    })?;
    scene.patches("deletion of the volume", 1)?;
    exactly("publish and unpublish calls", scene.asked(volume)?, (2, 2))?;
    scene.nothing_attached()?;
    scene.permitted()?;
    scene.finish(&Options::default())
}

pub(super) fn node_deleted(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "node")?;
    let api = &scene.api;
    let _driver = scene.start_driver()?;
    let mut attacher = scene.start_attacher(&[])?;
    let node = scene.deployment.start_new_node("doomed", &[])?;
    let volumes = scene.volumes(1)?;
    let volume = volumes.first().context("a volume")?;
    api.create(CLAIMS, &object::claim_of(&volume.name, &volume.name))?;
    let pod = run(&scene, &node, "orphan", volume)?;
    scene.patches("first attach", 3)?;

    drop(node);
    cluster.remove_node("doomed")?;
    api.until_gone(SOON, &format!("{STORAGE}/csinodes/doomed"))?;
    // For the next minute nobody else removes a pod from a node that no longer exists.
    api.delete_with(&pod.path, &json!({ "gracePeriodSeconds": 0 }))?;
    // kube-controller-manager gives a node six minutes to unmount, even one that no longer exists;
    // an administrator in a hurry deletes the attachment.
    for attachment in attachments(&scene, volume)? {
        let name = text(&attachment, "/metadata/name").context("name of an attachment")?;
        api.delete(&format!("{STORAGE}/volumeattachments/{name}"))?;
    }
    attacher.until("the VolumeAttachment drains", || {
        Ok(attachments(&scene, volume)?.is_empty())
    })?;
    scene.patches("detach from a node that is no more", 2)?;
    exactly("publish and unpublish calls", scene.asked(volume)?, (1, 1))?;
    scene.nothing_attached()?;
    api.delete(&format!("{CLAIMS}/{}", volume.name))?;
    scene.finish(&Options {
        nodes_were_lost: true,
        ..Options::default()
    })
}
