//! Group snapshots: snapshots of several volumes at one moment.

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::object;
use e2e::process::Programs;
use e2e::snapshots::{GROUPS, group_rules};
use e2e::suite::Verdict;
use serde_json::{Value, json};

use super::scene::{CLAIMS, CONTENTS, SNAPSHOTS, Scene, is_ready, skipped};

const NAMES: [&str; 2] = ["group-a", "group-b"];
const CLASSES: &str = "/apis/groupsnapshot.storage.k8s.io/v1/volumegroupsnapshotclasses";

fn group() -> String {
    format!("{GROUPS}/namespaces/default/volumegroupsnapshots/group")
}

/// Waits until all of the group's VolumeSnapshots are ready, and returns them.
fn members(scene: &Scene<'_>, programs: &mut Programs) -> Result<Vec<Value>> {
    let found = scene.until(programs, "the members are ready", || {
        let list = scene.api.get(SNAPSHOTS)?;
        let items = list.pointer("/items").and_then(Value::as_array);
        let ours = items.into_iter().flatten().filter(|it| {
            text(it, "/metadata/ownerReferences/0/kind") == Some("VolumeGroupSnapshot")
                && text(it, "/status/volumeGroupSnapshotName") == Some("group")
                && is_ready(it)
        });
        let ours: Vec<_> = ours.cloned().collect();
        Ok((ours.len() == NAMES.len()).then_some(ours))
    });
    found.with_context(|| scene.api.events("default", "group"))
}

/// Creates a group snapshot of all claims with the label, and waits until it is ready.
fn take(scene: &Scene<'_>, programs: &mut Programs) -> Result<()> {
    let driver = scene.deployment.driver();
    let class = json!({
        "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshotClass",
        "metadata": { "name": driver }, "driver": driver, "deletionPolicy": "Delete",
    });
    scene.api.create(CLASSES, &class)?;
    let wish = json!({
        "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshot",
        "metadata": { "name": "group" },
        "spec": {
            "volumeGroupSnapshotClassName": driver,
            "source": { "selector": { "matchLabels": { "app": "group" } } },
        },
    });
    let groups = format!("{GROUPS}/namespaces/default/volumegroupsnapshots");
    scene.api.create(&groups, &wish)?;
    let ready = scene.until(programs, "the group is ready", || {
        let group = scene.api.get(&group())?;
        Ok(is_ready(&group).then_some(()))
    });
    ready.with_context(|| scene.api.events("default", "group"))
}

pub(super) fn life(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "group")?;
    scene.controller.allow(&scene.api, &group_rules())?;
    let (resource, verb) = ("volumegroupsnapshotcontents", "create");
    let allowed = ("groupsnapshot.storage.k8s.io", resource, verb);
    scene
        .controller
        .until_permitted(&scene.api, allowed.0, allowed.1, allowed.2)?;
    let driver = scene.deployment.driver().to_owned();
    let _driver = scene.deployment.start_controller(&[])?;
    let node = scene.deployment.start_node(0, &[])?;
    let mut programs = scene.start()?;
    for name in NAMES {
        let label = json!({ "metadata": { "labels": { "app": "group" } } });
        let claim = object::with(object::claim(name, &driver, "1Mi"), &label);
        let volume = scene.claim(&mut programs, &claim)?;
        scene.with_pod(&mut programs, &node, (name, &volume), |pod| {
            pod.write(&node.seat, &volume, name)
        })?;
    }
    take(&scene, &mut programs)?;
    for (number, member) in members(&scene, &mut programs)?.iter().enumerate() {
        let name = text(member, "/metadata/name").context("name of a member")?;
        let source = text(member, "/spec/source/persistentVolumeClaimName");
        let source = source.context("claim of a member")?.to_owned();
        let restored = format!("group-restored-{number}");
        let from = ("VolumeSnapshot", name);
        let volume = scene.claim_from(&mut programs, &restored, from)?;
        scene.with_pod(&mut programs, &node, (&restored, &volume), |pod| {
            let data = pod.read(&node.seat, &volume)?;
            ensure!(data == source, "the snapshot of {source} has {data:?}");
            Ok(())
        })?;
        scene.api.delete(&format!("{CLAIMS}/{restored}"))?;
    }
    scene.api.delete(&group())?;
    scene.until(&mut programs, "the group and its members are gone", || {
        let contents = scene.api.get(CONTENTS)?.to_string();
        let groups = scene
            .api
            .get(&format!("{GROUPS}/volumegroupsnapshotcontents"))?;
        let quoted = format!("\"{driver}\"");
        let left = contents.contains(&quoted) || groups.to_string().contains(&quoted);
        Ok((!left && scene.api.find(&group())?.is_none()).then_some(()))
    })?;
    for name in NAMES {
        scene.api.delete(&format!("{CLAIMS}/{name}"))?;
    }
    scene.until_nothing_is_left(&mut programs)?;
    let calls = scene.calls()?;
    for (method, number) in [
        ("CreateVolumeGroupSnapshot", 1),
        ("CreateSnapshot", 0),
        ("DeleteSnapshot", 0),
    ] {
        let asked = calls.of(method).count();
        ensure!(asked == number, "{method} {asked} times");
    }
    programs.stop()?;
    scene.finish()
}
