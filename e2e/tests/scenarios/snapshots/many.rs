//! Many snapshots at once.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::process::Programs;
use e2e::suite::{Verdict, say};
use e2e::{object, wait};
use serde_json::Value;

use super::scene::{CLAIMS, LONG, SNAPSHOTS, Scene, is_ready, skipped};

/// Number of snapshots at once, unless `SNAPSHOTS` sets it.
const MANY: usize = 100;

/// Number of claims that are snapshotted.
const CLAIMED: usize = 4;

/// VolumeSnapshots of the scene.
fn listed(scene: &Scene<'_>) -> Result<Vec<Value>> {
    // Long lists cost the API server more than the requests that are counted.
    std::thread::sleep(Duration::from_millis(200));
    let list = scene.api.get(&format!("{SNAPSHOTS}?resourceVersion=0"))?;
    let items = list.pointer("/items").and_then(Value::as_array).cloned();
    let class = scene.deleting();
    let mut items = items.unwrap_or_default();
    items.retain(|it| text(it, "/spec/volumeSnapshotClassName") == Some(&class));
    Ok(items)
}

fn until(
    scene: &Scene<'_>,
    programs: &mut Programs,
    what: &str,
    is: impl Fn(&[Value]) -> bool,
) -> Result<()> {
    let done = wait::until_true(LONG, what, || {
        programs.must_run()?;
        Ok(is(&listed(scene)?))
    });
    done.with_context(|| programs.tails())
}

pub(super) fn hundred(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let number = match std::env::var("SNAPSHOTS") {
        Ok(number) => number.parse().context("SNAPSHOTS")?,
        Err(_unset) => MANY,
    };
    let scene = Scene::new(cluster, "hundred")?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut programs = scene.start()?;
    let claims: Vec<_> = (0..CLAIMED).map(|it| format!("hundred-{it}")).collect();
    for claim in &claims {
        scene.empty_claim(&mut programs, claim)?;
    }
    let class = scene.deleting();
    let snapshots: Vec<_> = { claims.iter().cycle().take(number).enumerate() }
        .map(|(index, claim)| object::snapshot_of(&format!("hundred-{index}"), &class, claim))
        .collect();
    let since = Instant::now();
    scene.api.create_all(SNAPSHOTS, &snapshots)?;
    let what = format!("{number} snapshots are ready");
    until(&scene, &mut programs, &what, |all| {
        all.iter().filter(|it| is_ready(it)).count() == number
    })?;
    let ready = since.elapsed().as_secs_f64();
    let stored = scene.stored("/left_over/snapshots")?;
    ensure!(stored == number, "{stored} snapshots in the storage");
    let asked = scene.calls()?.of("CreateSnapshot").count();
    ensure!(asked == number, "CreateSnapshot {asked} times");

    let paths: Vec<_> = (0..number)
        .map(|index| format!("{SNAPSHOTS}/hundred-{index}"))
        .collect();
    let since = Instant::now();
    scene.api.delete_all(&paths)?;
    until(&scene, &mut programs, "they are gone", <[Value]>::is_empty)?;
    let gone = since.elapsed().as_secs_f64();
    say(&format!(
        "          {number} ready after {ready:.1} s, gone after {gone:.1} s"
    ));
    for claim in &claims {
        scene.api.delete(&format!("{CLAIMS}/{claim}"))?;
    }
    scene.until_nothing_is_left(&mut programs)?;
    let asked = scene.calls()?.of("DeleteSnapshot").count();
    ensure!(asked == number, "DeleteSnapshot {asked} times");
    programs.stop()?;
    scene.finish()
}
