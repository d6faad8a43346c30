//! Snapshots that upstream's programs begin and ours finish, and the other way round.

use anyhow::{Result, ensure};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::controller::{LONG_LEASE, Route};
use e2e::process::Programs;
use e2e::program;
use e2e::suite::Verdict;
use serde_json::json;

use super::scene::{CLAIMS, SNAPSHOTS, Scene, skipped};

fn upstreams(scene: &Scene<'_>) -> Result<Programs> {
    let [lease, deadline] = LONG_LEASE;
    let election = ["--leader-election", "-v=2", lease, deadline];
    let controller = scene.controller.of(program::upstreams_snapshot_controller);
    let snapshotter = scene.snapshotter.of(program::upstreams_snapshotter);
    Ok(Programs::of(vec![
        controller.start("0", Route::Direct, &election)?,
        snapshotter.start("0", Route::Direct, &election)?,
    ]))
}

fn ours(scene: &Scene<'_>) -> Result<Programs> {
    let [lease, deadline] = LONG_LEASE;
    let election = ["--leader-election", lease, deadline];
    Ok(Programs::of(vec![
        scene.start_controller(Route::Direct, &election)?,
        scene.start_snapshotter(Route::Direct, &election)?,
    ]))
}

/// One pair takes a snapshot; the other pair makes it ready and deletes it.
fn handed_over(
    scene: &Scene<'_>,
    name: &str,
    first: Programs,
    second: &mut dyn FnMut() -> Result<Programs>,
) -> Result<()> {
    let control = scene.deployment.controller.control();
    control.ask(
        "POST",
        "/settings",
        Some(&json!({ "snapshots_ready": false })),
    )?;
    let mut first = first;
    let made = scene.snapshot(name, &scene.deleting(), "swapped")?;
    scene.until(&mut first, "the snapshot is cut", || {
        let snapshot = scene.api.get(&format!("{SNAPSHOTS}/{name}"))?;
        Ok(snapshot
            .pointer("/status/creationTime")
            .is_some()
            .then_some(()))
    })?;
    drop(first);
    control.ask(
        "POST",
        "/settings",
        Some(&json!({ "snapshots_ready": true })),
    )?;
    let mut second = second()?;
    scene.until_ready(&mut second, name)?;
    let taken = scene.handles_for(text(&made, "/metadata/uid").unwrap_or_default())?;
    ensure!(taken.len() == 1, "in the storage: {taken:?}");
    scene.delete(&mut second, name)?;
    let left = scene.stored("/left_over/snapshots")?;
    ensure!(left == 0, "{left} snapshots are left in the storage");
    second.stop()
}

pub(super) fn and_back(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    if !program::has_upstreams() {
        return Ok(Verdict::Skipped(
            "UPSTREAM=FOLDER names upstream's programs".to_owned(),
        ));
    }
    let scene = Scene::new(cluster, "swap")?;
    scene.allow_upstreams()?;
    let _driver = scene.deployment.start_controller(&[])?;
    let claims = ["swapped".to_owned()];
    scene.made_claims(&claims)?;
    handed_over(&scene, "to-ours", upstreams(&scene)?, &mut || ours(&scene))?;
    handed_over(&scene, "to-theirs", ours(&scene)?, &mut || {
        upstreams(&scene)
    })?;
    scene.forget_claims(&claims)?;
    let claim = scene.api.find(&format!("{CLAIMS}/swapped"))?;
    ensure!(claim.is_none(), "{claim:?}");
    scene.finish()
}
