//! Claims, with and without a pod that decides where their volumes are.

use anyhow::{Context, Result, ensure};
use e2e::cluster::Cluster;
use e2e::deployment::Pod;
use e2e::object::Binding;
use e2e::suite::Verdict;
use serde_json::json;

use super::scene::{Scene, at_most, skipped, writes};

const ZONE: &str = "provision.test/zone";

/// Claims of the plain scenario.
const CLAIMS: u64 = 5;

pub(super) fn immediate(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let flags = ["--enable-topology=false", "--sync=false"];
    let scene = Scene::new(cluster, "immediate", Binding::Immediate, &flags)?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut provisioner = scene.start_provisioner(&[])?;
    let names: Vec<_> = (0..CLAIMS).map(|it| format!("immediate-{it}")).collect();
    for name in &names {
        scene.claim(name)?;
    }
    for name in &names {
        scene.until_bound(&mut provisioner, name)?;
    }
    for name in &names {
        scene.release(name)?;
    }
    scene.until_nothing_is_left(&mut provisioner)?;
    let requests = scene.phase()?;
    at_most("writes", writes(&requests), 5 * CLAIMS, &requests)?;
    for method in ["CreateVolume", "DeleteVolume"] {
        let calls = scene.calls()?.of(method).count();
        at_most(method, calls as u64, CLAIMS, &requests)?;
    }
    scene.finish()
}

pub(super) fn first_consumer(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let binding = Binding::WaitForFirstConsumer;
    let scene = Scene::new(cluster, "consumer", binding, &["--sync=false"])?;
    let zone = |name: &str| format!("--topology={ZONE}={name}");
    let near = scene.deployment.start_node(0, &[&zone("near")])?;
    let far = scene.deployment.start_new_node("far", &[&zone("far")])?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut provisioner = scene.start_provisioner(&[])?;

    for (name, node, zone) in [("pinned-far", &far, "far"), ("pinned-near", &near, "near")] {
        scene.claim(name)?;
        let mut pod = Pod::create(&scene.api, name, Some(&node.seat.node), name)?;
        let volume = scene.until_bound(&mut provisioner, name)?;
        let terms = volume.pointer("/spec/nodeAffinity/required/nodeSelectorTerms");
        let expected = json!([{ "matchExpressions": [
            { "key": ZONE, "operator": "In", "values": [zone] },
        ]}]);
        ensure!(
            terms == Some(&expected),
            "the volume is in the zone of its pod: {terms:?}"
        );
        pod.until_running(&scene.api)?;
        let volume = e2e::api::text(&volume, "/metadata/name").context("name of the volume")?;
        pod.write(&node.seat, volume, "here")?;
        ensure!(pod.read(&node.seat, volume)? == "here", "what was written");
        scene.api.delete(&pod.path)?;
        // Without attachments nothing in Kubernetes keeps a volume that a node still has.
        scene.until_unstaged()?;
        scene.release(name)?;
    }
    scene.until_nothing_is_left(&mut provisioner)?;
    drop(far);
    cluster.remove_node("far")?;
    scene.finish()
}
