//! Expansions that fail at first.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::cluster::Cluster;
use e2e::program;
use e2e::suite::Verdict;
use serde_json::json;

use super::scene::{ALONE, EXPAND, Scene, has_size, skipped, state};

pub(super) fn recovers(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "recovers", ALONE)?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut resizer = scene.start_resizer(&[])?;
    let names = scene.volumes(1)?;
    let name = names.first().context("a volume")?;
    scene.rule(&json!({
        "id": "fails", "match": { "method": EXPAND, "times": 2 },
        "action": { "outcome": { "fail": { "code": "INTERNAL", "message": "boom" } } },
    }))?;
    scene.grow(name, "64Mi")?;
    scene.until_event(name, "code = Internal desc = boom")?;
    scene.until_size(&mut resizer, name, "64Mi")?;
    let calls = scene.calls()?.of(EXPAND).count();
    ensure!(calls >= 3, "{calls} calls");
    scene.finish()
}

pub(super) fn impossible(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let flags = [
        "--disable-node-expansion=true",
        "--max-volume-size=134217728",
    ];
    let scene = Scene::new(cluster, "impossible", &flags)?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut resizer = scene.start_resizer(&[])?;
    let names = scene.volumes(1)?;
    let name = names.first().context("a volume")?;
    scene.grow(name, "1Gi")?;
    scene.until(&mut resizer, name, "known to be impossible", |claim| {
        state(claim) == "ControllerResizeInfeasible"
    })?;
    scene.grow(name, "64Mi")?;
    let since = Instant::now();
    scene.until_size(&mut resizer, name, "64Mi")?;
    ensure!(
        since.elapsed() < Duration::from_secs(30),
        "{:?}",
        since.elapsed()
    );
    scene.finish()
}

pub(super) fn driver_away(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    if program::is_foreign(&program::resizer()?)? {
        return Ok(Verdict::Skipped("only ours survives it".to_owned()));
    }
    let scene = Scene::new(cluster, "away", ALONE)?;
    let driver = scene.deployment.start_controller(&[])?;
    let mut resizer = scene.start_resizer(&["--timeout=2s"])?;
    let names = scene.volumes(1)?;
    let name = names.first().context("a volume")?;
    scene.grow(name, "48Mi")?;
    scene.until_size(&mut resizer, name, "48Mi")?;
    drop(driver);
    scene.grow(name, "64Mi")?;
    scene.until_event(name, "code = Unavailable")?;
    let _driver = scene.deployment.start_controller(&[])?;
    scene.until(&mut resizer, name, "grown", |claim| has_size(claim, "64Mi"))?;
    scene.finish()
}
