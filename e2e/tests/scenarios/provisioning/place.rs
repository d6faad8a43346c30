//! Topology of volumes.

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::deployment::Pod;
use e2e::object::{self, Binding};
use e2e::suite::Verdict;
use serde_json::{Value, json};

use super::scene::{Scene, at_most, skipped, writes};
use super::zones::Zones;

const FLAGS: [&str; 1] = ["--sync=false"];

/// Name of a PersistentVolume, which is also the name of kubelet's directory for it.
pub(super) fn name(volume: &Value) -> Result<&str> {
    text(volume, "/metadata/name").context("name of the volume")
}

pub(super) fn first_consumer(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let binding = Binding::WaitForFirstConsumer;
    let scene = Scene::new(cluster, "consumer", binding, &FLAGS)?;
    let zones = Zones::start(cluster, &scene, &["near", "far"], &[])?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut provisioner = scene.start_provisioner(&[])?;

    let claims = [("pinned-far", "far"), ("pinned-near", "near")];
    let mut pods = Vec::new();
    for (claim, zone) in claims {
        scene.claim(claim)?;
        let node = zones.node(zone)?;
        pods.push(Pod::create(&scene.api, claim, Some(node), claim)?);
    }
    for ((claim, zone), pod) in claims.into_iter().zip(&mut pods) {
        let volume = scene.until_bound(&mut provisioner, claim)?;
        zones.must_hold(zone, &volume)?;
        pod.until_running(&scene.api)?;
        let (seat, volume) = (&zones.pod(zone)?.seat, name(&volume)?);
        pod.write(seat, volume, zone)?;
        ensure!(pod.read(seat, volume)? == zone, "what was written");
        scene.api.delete(&pod.path)?;
    }
    // Without attachments nothing in Kubernetes keeps a volume that is still staged on a node.
    scene.until_unstaged()?;
    for (claim, _) in claims {
        scene.release(claim)?;
    }
    scene.until_nothing_is_left(&mut provisioner)?;
    let requests = scene.phase()?;
    at_most("writes", writes(&requests), 6, &requests)?;
    scene.finish()
}

/// The topologies in one of the two lists of a CreateVolume request.
fn told(request: &Value, list: &str) -> Vec<Value> {
    let terms = request.pointer(&format!("/accessibility_requirements/{list}"));
    let terms = terms.and_then(Value::as_array).into_iter().flatten();
    terms
        .map(|term| term.pointer("/segments").cloned().unwrap_or_default())
        .collect()
}

pub(super) fn stateful_set(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "web", Binding::Immediate, &FLAGS)?;
    let names = ["a", "b", "c"];
    let zones = Zones::start(cluster, &scene, &names, &[])?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut provisioner = scene.start_provisioner(&[])?;

    let sets = "/apis/apps/v1/namespaces/default/statefulsets";
    let class = scene.deployment.driver();
    let set = object::stateful_set("web", 3, class, "1Mi");
    scene.api.create(sets, &set)?;
    let mut pods = Vec::new();
    // The hash of `web` makes the first of three claims begin with the first zone.
    for (index, zone) in names.into_iter().enumerate() {
        let volume = scene.until_bound(&mut provisioner, &format!("data-web-{index}"))?;
        zones.must_hold(zone, &volume)?;
        let mut pod = Pod::find(&scene.api, &format!("web-{index}"))?;
        pod.until_running(&scene.api)?;
        ensure!(pod.node == zones.node(zone)?, "the pod is on {}", pod.node);
        pod.must_be_mounted(&zones.pod(zone)?.seat, name(&volume)?)?;
        pods.push(pod);
    }
    for call in scene.calls()?.of("CreateVolume").iter() {
        let all = names.map(|zone| zones.segments(zone));
        ensure!(told(&call.request, "requisite") == all, "{}", call.request);
    }

    scene.api.delete(&format!("{sets}/web"))?;
    for pod in pods {
        scene.api.delete(&pod.path)?;
    }
    scene.until_unstaged()?;
    for index in 0..names.len() {
        scene.release(&format!("data-web-{index}"))?;
    }
    scene.until_nothing_is_left(&mut provisioner)?;
    let requests = scene.phase()?;
    at_most("writes", writes(&requests), 9, &requests)?;
    scene.finish()
}

pub(super) fn allowed(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let allowed = [Zones::allowed("allowed.provision.test", "far")];
    let scene = Scene::with_class(
        cluster,
        "allowed",
        Binding::Immediate,
        &FLAGS,
        &json!({ "allowedTopologies": allowed }),
    )?;
    let zones = Zones::start(cluster, &scene, &["near", "far"], &[])?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut provisioner = scene.start_provisioner(&[])?;
    // By their names alone these would be spread over both zones.
    let claims = ["allowed-0", "allowed-1"];
    for claim in claims {
        scene.claim(claim)?;
    }
    for claim in claims {
        let volume = scene.until_bound(&mut provisioner, claim)?;
        zones.must_hold("far", &volume)?;
    }
    for call in scene.calls()?.of("CreateVolume").iter() {
        for list in ["requisite", "preferred"] {
            let only = [zones.segments("far")];
            ensure!(told(&call.request, list) == only, "{}", call.request);
        }
    }
    let mut pod = Pod::create(&scene.api, "allowed", None, "allowed-0")?;
    pod.until_running(&scene.api)?;
    ensure!(pod.node == zones.node("far")?, "the pod is on {}", pod.node);
    scene.api.delete(&pod.path)?;
    scene.until_unstaged()?;
    for claim in claims {
        scene.release(claim)?;
    }
    scene.until_nothing_is_left(&mut provisioner)?;
    let requests = scene.phase()?;
    at_most("writes", writes(&requests), 6, &requests)?;
    scene.finish()
}
