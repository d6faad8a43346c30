//! The whole life of snapshots: taken, restored, cloned, retained, imported, deleted.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::suite::Verdict;
use e2e::{manifest, object, wait};
use serde_json::{Value, json};

use super::scene::{
    CLAIM_FINALIZER, CLAIMS, CONTENTS, SNAPSHOTS, Scene, is_free, is_ready, skipped,
};

const SNAPSHOT: &str = "VolumeSnapshot";

/// Asserts that all objects of one snapshot agree. Returns the snapshot's handle.
fn must_agree(scene: &Scene<'_>, (snapshot, content): &(Value, Value)) -> Result<String> {
    let uid = text(snapshot, "/metadata/uid").context("a UID")?;
    let handles = scene.handles_for(uid)?;
    let handle = text(content, "/status/snapshotHandle");
    ensure!(
        handle.is_some_and(|handle| handles == [handle]),
        "in the storage: {handles:?}, in the content: {content:#}"
    );
    let sizes = (
        text(snapshot, "/status/restoreSize"),
        content.pointer("/status/restoreSize"),
    );
    ensure!(sizes == (Some("1Mi"), Some(&json!(1 << 20))), "{sizes:?}");
    let bound = content.pointer("/spec/volumeSnapshotRef/uid");
    ensure!(bound == Some(&json!(uid)), "{content:#}");
    ensure!(is_ready(content), "{content:#}");
    let class = text(snapshot, "/spec/volumeSnapshotClassName");
    let said = text(content, "/spec/volumeSnapshotClassName");
    ensure!(class == said, "{content:#}");
    Ok(handle.unwrap_or_default().to_owned())
}

pub(super) fn data(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "data")?;
    let _driver = scene.deployment.start_controller(&[])?;
    let node = scene.deployment.start_node(0, &[])?;
    let mut programs = scene.start()?;

    let original = scene.empty_claim(&mut programs, "data-original")?;
    let use_of = ("data-original", original.as_str());
    scene.with_pod(&mut programs, &node, use_of, |pod| {
        pod.write(&node.seat, &original, "before")
    })?;
    scene.snapshot("data-taken", &scene.deleting(), "data-original")?;
    let taken = scene.until_ready(&mut programs, "data-taken")?;
    let handle = must_agree(&scene, &taken)?;
    scene.until(&mut programs, "the claim is free", || {
        Ok(is_free(&scene, "data-original")?.then_some(()))
    })?;
    scene.with_pod(&mut programs, &node, use_of, |pod| {
        pod.write(&node.seat, &original, "after")
    })?;

    let restored = scene.claim_from(&mut programs, "data-restored", (SNAPSHOT, "data-taken"))?;
    let use_of = ("data-restored", restored.as_str());
    scene.with_pod(&mut programs, &node, use_of, |pod| {
        let data = pod.read(&node.seat, &restored)?;
        ensure!(data == "before", "the snapshot has {data:?}");
        pod.write(&node.seat, &restored, "restored")
    })?;
    let kind = "PersistentVolumeClaim";
    let cloned = scene.claim_from(&mut programs, "data-cloned", (kind, "data-restored"))?;
    let use_of = ("data-cloned", cloned.as_str());
    scene.with_pod(&mut programs, &node, use_of, |pod| {
        let data = pod.read(&node.seat, &cloned)?;
        ensure!(data == "restored", "the clone has {data:?}");
        Ok(())
    })?;

    // A snapshot outlives the volume that it was taken of.
    scene.api.delete(&format!("{CLAIMS}/data-original"))?;
    scene.until(&mut programs, "the volume is gone", || {
        let volumes = scene.stored("/volumes")?;
        Ok(volumes
            .as_object()
            .is_some_and(|it| it.len() == 2)
            .then_some(()))
    })?;
    let again = scene.claim_from(&mut programs, "data-again", (SNAPSHOT, "data-taken"))?;
    scene.with_pod(&mut programs, &node, ("data-again", &again), |pod| {
        let data = pod.read(&node.seat, &again)?;
        ensure!(data == "before", "the snapshot has {data:?}");
        Ok(())
    })?;
    scene.delete(&mut programs, "data-taken")?;
    for claim in ["data-restored", "data-cloned", "data-again"] {
        scene.api.delete(&format!("{CLAIMS}/{claim}"))?;
    }
    scene.until_nothing_is_left(&mut programs)?;
    let calls = scene.calls()?;
    for (method, number) in [("CreateSnapshot", 1), ("DeleteSnapshot", 1)] {
        let asked = calls.of(method).count();
        ensure!(asked == number, "{method} {asked} times");
    }
    let deleted = calls.of("DeleteSnapshot");
    let request = deleted.iter().next().map(|it| it.request.to_string());
    ensure!(
        request.as_ref().is_some_and(|it| it.contains(&handle)),
        "{request:?} is not about {handle}"
    );
    programs.stop()?;
    scene.finish()
}

pub(super) fn policies(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "policy")?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut programs = scene.start()?;
    scene.empty_claim(&mut programs, "policy")?;
    scene.snapshot("goes", &scene.deleting(), "policy")?;
    scene.snapshot("stays", &scene.retaining(), "policy")?;
    let goes = must_agree(&scene, &scene.until_ready(&mut programs, "goes")?)?;
    let (snapshot, content) = scene.until_ready(&mut programs, "stays")?;
    let stays = must_agree(&scene, &(snapshot, content.clone()))?;

    scene.delete(&mut programs, "goes")?;
    scene.delete(&mut programs, "stays")?;
    scene.until(&mut programs, "one snapshot is left in the storage", || {
        let left = scene.stored("/snapshots")?;
        let left = left.as_object().context("snapshots")?;
        ensure!(left.contains_key(&stays), "the retained one went: {left:?}");
        Ok((!left.contains_key(&goes)).then_some(()))
    })?;
    let name = text(&content, "/metadata/name").context("name of the content")?;
    let content = format!("{CONTENTS}/{name}");
    wait::stays(Duration::from_secs(1), "the retained content", || {
        let it = scene.api.get(&content)?;
        Ok(it.pointer("/metadata/deletionTimestamp").is_none())
    })?;

    // With the other policy, the content's deletion deletes the snapshot.
    let delete = json!({ "spec": { "deletionPolicy": "Delete" } });
    scene.api.merge(&content, &delete)?;
    scene.api.delete(&content)?;
    scene.api.delete(&format!("{CLAIMS}/policy"))?;
    scene.until_nothing_is_left(&mut programs)?;
    programs.stop()?;
    scene.finish()
}

/// Creates content and VolumeSnapshot for a snapshot that the storage has.
fn existing(scene: &Scene<'_>, name: &str, handle: &str, policy: &str) -> Result<()> {
    let objects = object::snapshot(name, scene.deployment.driver(), handle, 1 << 20);
    let class = if policy == "Delete" {
        scene.deleting()
    } else {
        scene.retaining()
    };
    let spec = json!({ "spec": { "deletionPolicy": policy, "volumeSnapshotClassName": class } });
    manifest::create(&scene.api, &object::with(objects.content, &spec))?;
    let class = json!({ "spec": { "volumeSnapshotClassName": class } });
    manifest::create(&scene.api, &object::with(objects.object, &class)).map(drop)
}

pub(super) fn pre_provisioned(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "existing")?;
    let _driver = scene.deployment.start_controller(&[])?;
    let node = scene.deployment.start_node(0, &[])?;
    let control = scene.deployment.controller.control();
    let volumes = control.make_volumes(&["old".to_owned()], 1 << 20)?;
    let volume = volumes.first().context("a volume")?;
    let storage = scene.deployment.controller.dir.join("state");
    let file = storage.join("volumes").join(format!("{volume}.dir"));
    std::fs::write(file.join("file"), "years ago")?;
    let (kept, gone) = (
        control.take_snapshot("kept", volume)?,
        control.take_snapshot("gone", volume)?,
    );

    let mut programs = scene.start()?;
    existing(&scene, "kept", &kept, "Retain")?;
    existing(&scene, "gone", &gone, "Delete")?;
    for (name, handle) in [("kept", &kept), ("gone", &gone)] {
        let (snapshot, content) = scene.until_ready(&mut programs, name)?;
        let said = text(&content, "/status/snapshotHandle");
        ensure!(said == Some(handle), "{content:#}");
        let size = text(&snapshot, "/status/restoreSize");
        ensure!(size == Some("1Mi"), "{snapshot:#}");
    }
    let restored = scene.claim_from(&mut programs, "from-old", (SNAPSHOT, "kept"))?;
    scene.with_pod(&mut programs, &node, ("from-old", &restored), |pod| {
        let data = pod.read(&node.seat, &restored)?;
        ensure!(data == "years ago", "the snapshot has {data:?}");
        Ok(())
    })?;
    scene.delete(&mut programs, "kept")?;
    scene.delete(&mut programs, "gone")?;
    scene.api.delete(&format!("{CLAIMS}/from-old"))?;
    // The administrator deletes what was retained.
    scene.api.delete(&format!("{CONTENTS}/content-of-kept"))?;
    scene.until(&mut programs, "only the retained one is left", || {
        let left = scene.stored("/snapshots")?;
        let left = left.as_object().context("snapshots")?;
        ensure!(left.contains_key(&kept), "the retained one went: {left:?}");
        Ok((left.len() == 1).then_some(()))
    })?;
    let calls = scene.calls()?;
    ensure!(calls.of("CreateSnapshot").count() == 0, "one was taken");
    for folder in ["volumes", "snapshots"] {
        for entry in std::fs::read_dir(storage.join(folder))? {
            let path = entry?.path();
            let name = path.to_string_lossy().into_owned();
            if name.contains(volume.as_str()) || name.contains(&kept) {
                std::fs::remove_dir_all(path)?;
            }
        }
    }
    let forget = json!({ "volumes": [volume], "snapshots": [kept] });
    control.ask("POST", "/forget", Some(&forget))?;
    scene.until_nothing_is_left(&mut programs)?;
    programs.stop()?;
    scene.finish()
}

/// A storage system that takes a snapshot at once and copies it for a while.
pub(super) fn not_ready(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "copying")?;
    let _driver = scene.deployment.start_controller(&[])?;
    let control = scene.deployment.controller.control();
    control.ask(
        "POST",
        "/settings",
        Some(&json!({ "snapshots_ready": false })),
    )?;
    let mut programs = scene.start()?;
    scene.empty_claim(&mut programs, "copied")?;
    scene.snapshot("copying", &scene.deleting(), "copied")?;
    scene.until(&mut programs, "the snapshot is cut", || {
        let snapshot = scene.api.get(&format!("{SNAPSHOTS}/copying"))?;
        Ok(snapshot
            .pointer("/status/creationTime")
            .is_some()
            .then_some(()))
    })?;
    wait::stays(Duration::from_secs(2), "not ready", || {
        let snapshot = scene.api.get(&format!("{SNAPSHOTS}/copying"))?;
        Ok(!is_ready(&snapshot))
    })?;
    let claim = scene.api.get(&format!("{CLAIMS}/copied"))?;
    ensure!(
        claim.to_string().contains(CLAIM_FINALIZER),
        "the claim is not protected: {claim:#}"
    );
    control.ask(
        "POST",
        "/settings",
        Some(&json!({ "snapshots_ready": true })),
    )?;
    let ready = scene.until_ready(&mut programs, "copying")?;
    must_agree(&scene, &ready)?;
    scene.delete(&mut programs, "copying")?;
    scene.api.delete(&format!("{CLAIMS}/copied"))?;
    scene.until_nothing_is_left(&mut programs)?;
    programs.stop()?;
    scene.finish()
}
