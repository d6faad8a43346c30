//! Volumes that upstream's sidecars have made and attached, and that ours take over.

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::deployment::Pod;
use e2e::object;
use e2e::program;
use e2e::suite::Verdict;
use serde_json::json;

use super::scene::{CLAIMS, Plugin, SOON, Scene, VOLUMES, annotation, skipped};

const CINDER: Plugin = Plugin {
    name: "kubernetes.io/cinder",
    driver: "cinder.csi.openstack.org",
    source: "cinder",
    zone: ("topology.cinder.csi.openstack.org/zone", "nova", "earth"),
    ids: "",
    parameters: &[("availability", "nova")],
};

pub(super) fn from_upstream(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    if !program::has_upstreams() {
        return Ok(Verdict::Skipped(
            "UPSTREAM=FOLDER names upstream's sidecars".to_owned(),
        ));
    }
    let scene = Scene::new(cluster, "in-tree-swap", CINDER)?;
    scene.allow_upstreams()?;
    let _driver = scene.deployment.start_controller(&[])?;
    let node = scene.start_node()?;
    let mut theirs = scene.start_programs([
        program::upstreams_provisioner,
        program::upstreams_attacher,
        program::upstreams_resizer,
    ])?;
    let mut pods = Vec::new();
    for claim in ["in-tree-swap-0", "in-tree-swap-1"] {
        scene
            .api
            .create(CLAIMS, &object::claim(claim, scene.name, "32Mi"))?;
        let name = scene.until_bound(&mut theirs, claim)?;
        let mut pod = Pod::create(&scene.api, claim, Some(&node.seat.node), claim)?;
        pod.until_running(&scene.api)
            .with_context(|| theirs.tails())?;
        pod.write(&node.seat, &name, "kept")?;
        pods.push((claim, name, pod));
    }
    theirs.stop()?;

    let mut ours = scene.start()?;
    for (claim, name, pod) in &pods {
        let size = json!({ "spec": { "resources": { "requests": { "storage": "96Mi" } } } });
        scene.api.merge(&format!("{CLAIMS}/{claim}"), &size)?;
        scene.until(&mut ours, &format!("{claim} has grown"), || {
            let claim = scene.claim(claim)?;
            let grown = text(&claim, "/status/capacity/storage") == Some("96Mi");
            Ok(grown.then_some(()))
        })?;
        ensure!(pod.read(&node.seat, name)? == "kept", "data of {claim}");
        let volume = scene.volume(name)?;
        let by = annotation(&volume, "pv.kubernetes.io/provisioned-by");
        ensure!(by == Some(CINDER.name), "{volume:#}");
    }
    for (claim, name, pod) in &pods {
        scene.api.delete(&pod.path)?;
        scene.api.until_gone(SOON, &pod.path)?;
        scene.api.delete(&format!("{CLAIMS}/{claim}"))?;
        let gone = scene.api.until_gone(SOON, &format!("{VOLUMES}/{name}"));
        gone.with_context(|| ours.tails())?;
    }
    scene.until_left(&mut ours, 0)?;
    ensure!(
        scene.calls()?.of("CreateVolume").answered().count() == 2,
        "two volumes"
    );
    scene.finish(&node)
}
