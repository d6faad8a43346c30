//! Volumes that really grow.

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::controller::{Controller, LONG_LEASE, PROVISIONER, Route};
use e2e::deployment::{NodePod, Pod};
use e2e::process::Process;
use e2e::suite::Verdict;
use e2e::{object, wait};
use serde_json::json;

use super::scene::{CLAIMS, EXPAND, MODIFY, Scene, VOLUMES, no_more_than_upstream, skipped, state};

/// Size of the file system in the volume, as a program in the pod reads it.
fn file_system(pod: &Pod, node: &NodePod<'_>, volume: &str) -> Result<u64> {
    let target = pod.target(&node.seat, volume);
    let said = node.seat.run(
        "/bin/df",
        &["--output=size", "-B1", &target.to_string_lossy()],
    )?;
    let size = said.lines().last().context("df says nothing")?;
    Ok(size.trim().parse()?)
}

fn run(scene: &Scene<'_>, node: &NodePod<'_>, name: &str, claim: &str) -> Result<Pod> {
    let mut pod = Pod::create(&scene.api, name, Some(&node.seat.node), claim)?;
    pod.until_running(&scene.api)?;
    Ok(pod)
}

pub(super) fn online(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "online", &[])?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut resizer = scene.start_resizer(&[])?;
    let node = scene.deployment.start_node(0, &[])?;
    let names = scene.volumes(1)?;
    let name = names.first().context("a volume")?;
    let pod = run(&scene, &node, "online", name)?;
    pod.write(&node.seat, name, "kept")?;
    let before = file_system(&pod, &node, name)?;
    scene.grow(name, "96Mi")?;
    scene.until_size(&mut resizer, name, "96Mi")?;
    let after = file_system(&pod, &node, name)?;
    ensure!(after > 2 * before, "{before} bytes before, {after} after");
    ensure!(pod.read(&node.seat, name)? == "kept", "its data");
    let volume = scene.api.get(&format!("{VOLUMES}/{name}"))?;
    ensure!(
        text(&volume, "/spec/capacity/storage") == Some("96Mi"),
        "{volume:#}"
    );
    // The annotation is removed a moment later.
    wait::until_true(super::scene::SOON, "the annotation is removed", || {
        let volume = scene.api.get(&format!("{VOLUMES}/{name}"))?;
        let annotations = volume.pointer("/metadata/annotations");
        Ok(!annotations.is_some_and(|it| it.to_string().contains("pre-resize-capacity")))
    })?;
    no_more_than_upstream(&scene, 1, 1)?;
    scene.api.delete(&pod.path)?;
    scene.api.until_gone(super::scene::SOON, &pod.path)?;
    scene.finish()
}

pub(super) fn offline(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "offline", &[])?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut resizer = scene.start_resizer(&[])?;
    let node = scene.deployment.start_node(0, &[])?;
    let names = scene.volumes(1)?;
    let name = names.first().context("a volume")?;
    let first = run(&scene, &node, "offline-0", name)?;
    let before = file_system(&first, &node, name)?;
    scene.api.delete(&first.path)?;
    scene.api.until_gone(super::scene::SOON, &first.path)?;
    scene.grow(name, "96Mi")?;
    scene.until(&mut resizer, name, "pending on the node", |claim| {
        state(claim) == "NodeResizePending"
    })?;
    let second = run(&scene, &node, "offline-1", name)?;
    scene.until_size(&mut resizer, name, "96Mi")?;
    let after = file_system(&second, &node, name)?;
    ensure!(after > 2 * before, "{before} bytes before, {after} after");
    no_more_than_upstream(&scene, 1, 1)?;
    scene.api.delete(&second.path)?;
    scene.api.until_gone(super::scene::SOON, &second.path)?;
    scene.finish()
}

/// A claim for a block device, and the volume that the provisioner has made for it.
fn provisioned_block(scene: &Scene<'_>, provisioner: &mut Process) -> Result<String> {
    let claim = object::claim("block", scene.deployment.driver(), "32Mi");
    let claim = object::with(claim, &json!({ "spec": { "volumeMode": "Block" } }));
    scene.api.create(CLAIMS, &claim)?;
    let bound = wait::until(super::scene::SOON, "the claim is bound", || {
        provisioner.must_run()?;
        let claim = scene.claim("block")?;
        let bound = text(&claim, "/status/phase") == Some("Bound");
        Ok(text(&claim, "/spec/volumeName")
            .filter(|_| bound)
            .map(str::to_owned))
    });
    bound.with_context(|| provisioner.tail())
}

pub(super) fn block(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "block", &[])?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut resizer = scene.start_resizer(&[])?;
    let node = scene.deployment.start_node(0, &[])?;
    let provisioner = Controller::install(cluster, PROVISIONER, &scene.deployment.controller)?;
    provisioner.until_permitted(&scene.api, "coordination.k8s.io", "leases", "create")?;
    let [lease, deadline] = LONG_LEASE;
    let flags = ["--leader-election", lease, deadline];
    let mut provisioner = provisioner.start("0", Route::Direct, &flags)?;
    let volume = provisioned_block(&scene, &mut provisioner)?;
    let pod = object::pod("block", &node.seat.node, &object::claimed_volume("block"));
    let container = json!({
        "name": "main", "image": "registry.k8s.io/pause:3.10",
        "volumeDevices": [{ "name": "data", "devicePath": "/dev/data" }],
    });
    let pod = object::with(pod, &json!({ "spec": { "containers": [container] } }));
    scene.api.create("/api/v1/namespaces/default/pods", &pod)?;
    let mut pod = Pod::find(&scene.api, "block")?;
    pod.until_running(&scene.api)?;
    scene.grow("block", "96Mi")?;
    scene.until_size(&mut resizer, "block", "96Mi")?;
    let handles = scene.calls()?.of(EXPAND).handles();
    let handle = handles.first().context("the driver was asked")?;
    let on_node = scene.calls()?.of("NodeExpandVolume").about(handle);
    ensure!(on_node.answered().count() >= 1, "the node does its part");
    let object = scene.api.get(&format!("{VOLUMES}/{volume}"))?;
    ensure!(
        text(&object, "/spec/capacity/storage") == Some("96Mi"),
        "{object:#}"
    );
    no_more_than_upstream(&scene, 1, 1)?;
    scene.api.delete(&pod.path)?;
    scene.api.until_gone(super::scene::SOON, &pod.path)?;
    // The pod is gone before its device.
    wait::until_true(super::scene::SOON, "the node lets it go", || {
        let left = scene.calls()?.of("NodeUnstageVolume").about(handle);
        Ok(left.answered().count() >= 1)
    })?;
    scene.api.delete(&format!("{CLAIMS}/block"))?;
    let path = format!("{VOLUMES}/{volume}");
    let gone = scene.api.until_gone(super::scene::SOON, &path);
    gone.with_context(|| provisioner.tail())?;
    scene.finish()
}

pub(super) fn controller_alone(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "alone", &["--disable-node-expansion=true"])?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut resizer = scene.start_resizer(&[])?;
    let names = scene.volumes(3)?;
    for name in &names {
        scene.grow(name, "64Mi")?;
    }
    for name in &names {
        scene.until_size(&mut resizer, name, "64Mi")?;
        scene.until_event(name, "Resize volume succeeded")?;
    }
    no_more_than_upstream(&scene, 3, 0)?;
    scene.finish()
}

pub(super) fn with_class(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let flags = [
        "--disable-node-expansion=true",
        "--enable-controller-modify-volume=true",
    ];
    let scene = Scene::new(cluster, "both", &flags)?;
    let driver = scene.deployment.driver().to_owned();
    let class = object::attributes_class(&driver, &driver, &json!({ "iops": "9" }));
    scene
        .api
        .create("/apis/storage.k8s.io/v1/volumeattributesclasses", &class)?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut resizer = scene.start_resizer(&[])?;
    let names = scene.volumes(1)?;
    let name = names.first().context("a volume")?;
    scene.rule(&json!({
        "id": "slow", "match": { "method": EXPAND }, "action": { "delay": { "ms": 500 } },
    }))?;
    let patch = json!({ "spec": {
        "resources": { "requests": { "storage": "64Mi" } }, "volumeAttributesClassName": driver,
    } });
    scene.api.merge(&format!("{CLAIMS}/{name}"), &patch)?;
    scene.until_size(&mut resizer, name, "64Mi")?;
    scene.until(&mut resizer, name, "modified", |claim| {
        text(claim, "/status/currentVolumeAttributesClassName") == Some(&*driver)
            && claim.pointer("/status/modifyVolumeStatus").is_none()
    })?;
    scene.until_event(name, "successfully")?;
    let calls = scene.calls()?;
    ensure!(calls.of(MODIFY).count() >= 1, "it is modified");
    let requests = scene.phase()?;
    let conflicts = requests.count(|it| it.code == 409);
    super::scene::at_most("conflicts", conflicts, 0, &requests)?;
    scene.finish()
}
