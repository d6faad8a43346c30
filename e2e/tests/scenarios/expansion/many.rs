//! Many claims at once, with and without faults.

use std::time::Instant;

use anyhow::{Context, Result};
use e2e::cluster::Cluster;
use e2e::process::Process;
use e2e::suite::{Verdict, say};
use serde_json::json;

use super::scene::{ALONE, CLAIMS, EXPAND, Scene, has_size, no_more_than_upstream, skipped};

const FAST: &[&str] = &[
    "--kube-api-qps=2000",
    "--kube-api-burst=4000",
    "--workers=50",
];

/// Number of claims at once, unless `CLAIMS` sets it.
const MANY: usize = 500;

/// Number of claims in progress when a fault begins.
const SOME: usize = 60;

fn grow_all(scene: &Scene<'_>, names: &[String]) -> Result<()> {
    let patch = json!({ "spec": { "resources": { "requests": { "storage": "64Mi" } } } });
    for name in names {
        scene.api.merge(&format!("{CLAIMS}/{name}"), &patch)?;
    }
    Ok(())
}

fn until_grown(scene: &Scene<'_>, resizer: &mut Process, names: &[String]) -> Result<()> {
    let grown = scene.until_all(names, "grown", |claim| has_size(claim, "64Mi"));
    resizer.must_run()?;
    grown.with_context(|| resizer.tail())
}

pub(super) fn hundreds(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let number = match std::env::var("CLAIMS") {
        Ok(number) => number.parse().context("CLAIMS")?,
        Err(_unset) => MANY,
    };
    let scene = Scene::new(cluster, "hundreds", ALONE)?;
    let _driver = scene.deployment.start_controller(&[])?;
    let names = scene.volumes(number)?;
    // All claims wait when the resizer starts.
    grow_all(&scene, &names)?;
    let since = Instant::now();
    let mut resizer = scene.start_resizer(FAST)?;
    until_grown(&scene, &mut resizer, &names)?;
    let took = since.elapsed().as_secs_f64();
    say(&format!("          {number} grown after {took:.1} s"));
    no_more_than_upstream(&scene, number as u64, 0)?;
    scene.finish()
}

pub(super) fn api_server(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "outage", ALONE)?;
    let _driver = scene.deployment.start_controller(&[])?;
    let names = scene.volumes(SOME)?;
    scene.rule(&json!({
        "id": "slow", "match": { "method": EXPAND },
        "action": { "delay": { "ms": 300 }, "at": "after" },
    }))?;
    let mut resizer = scene.start_resizer(FAST)?;
    grow_all(&scene, &names)?;
    e2e::wait::until_true(super::scene::LONG, "some are expanded", || {
        Ok(scene.calls()?.of(EXPAND).answered().count() >= SOME / 4)
    })?;
    cluster.restart("kube-apiserver")?;
    until_grown(&scene, &mut resizer, &names)?;
    scene.finish()
}
