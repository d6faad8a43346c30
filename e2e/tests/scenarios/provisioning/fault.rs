//! Claims during faults.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::deployment::Pod;
use e2e::object::{self, Binding};
use e2e::suite::{Verdict, say};
use e2e::wait;
use serde_json::json;

use super::scene::{CLASSES, Scene, at_most, skipped};

const FLAGS: [&str; 2] = ["--enable-topology=false", "--sync=false"];

pub(super) fn late_class(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "late", Binding::Immediate, &FLAGS)?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut provisioner = scene.start_provisioner(&[])?;
    // kube-controller-manager assigns a claim to the provisioner once it has seen the class, so the
    // class exists at first.
    let rule = json!({
        "id": "broken", "match": { "method": "CreateVolume" },
        "action": { "outcome": { "fail": { "code": "INTERNAL", "message": "not today" } } },
    });
    scene.rule(&rule)?;
    scene.claim("late")?;
    scene.until_event(&mut provisioner, "late", "not today")?;
    let name = scene.deployment.driver();
    scene.api.delete(&format!("{CLASSES}/{name}"))?;
    scene.deployment.controller.control().clear_rules()?;
    wait::stays(Duration::from_secs(1), "the provisioner runs", || {
        provisioner.must_run().map(|()| true)
    })?;
    scene.api.create(
        CLASSES,
        &object::storage_class(name, name, Binding::Immediate),
    )?;
    let since = Instant::now();
    scene.until_bound(&mut provisioner, "late")?;
    say(&format!(
        "          bound {:.2} s after its class appeared again",
        since.elapsed().as_secs_f64()
    ));
    scene.release("late")?;
    scene.until_nothing_is_left(&mut provisioner)?;
    scene.finish()
}

pub(super) fn exhausted(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let binding = Binding::WaitForFirstConsumer;
    let scene = Scene::new(cluster, "full", binding, &["--sync=false"])?;
    let node = scene
        .deployment
        .start_node(0, &["--topology=full.test/zone=one"])?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut provisioner = scene.start_provisioner(&[])?;
    let rule = json!({
        "id": "full", "match": { "method": "CreateVolume", "times": 1 },
        "action": { "outcome": { "fail": { "code": "RESOURCE_EXHAUSTED", "message": "full" } } },
    });
    scene.rule(&rule)?;
    scene.claim("full")?;
    let mut pod = Pod::create(&scene.api, "full", None, "full")?;
    // The scheduler is asked again, and selects the same node: there is no other.
    let volume = scene.until_bound(&mut provisioner, "full")?;
    pod.until_running(&scene.api)?;
    ensure!(pod.node == node.seat.node, "the pod is on {}", pod.node);
    let volume = text(&volume, "/metadata/name").context("name of the volume")?;
    pod.must_be_mounted(&node.seat, volume)?;
    let events = scene.api.events("default", "full");
    ensure!(events.contains("full"), "what went wrong is said\n{events}");
    let calls = scene.calls()?.of("CreateVolume").count();
    at_most("CreateVolume", calls as u64, 2, &scene.phase()?)?;
    scene.api.delete(&pod.path)?;
    scene.until_unstaged()?;
    scene.release("full")?;
    scene.until_nothing_is_left(&mut provisioner)?;
    scene.finish()
}
