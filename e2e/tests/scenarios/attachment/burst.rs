//! Many attachments at the same moment.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use csi_test_driver::invariants::Options;
use e2e::cluster::Cluster;
use e2e::object;
use e2e::suite::{Verdict, say};

use super::scene::{PUBLISH, STORAGE, Scene, UNPUBLISH, exactly, skipped};

const VOLUMES: usize = 500;
const NODES: usize = 10;

pub(super) fn five_hundred(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "burst")?;
    let _driver = scene.start_driver()?;
    let mut attacher = scene.start_attacher(&[
        "--worker-threads=50",
        "--kube-api-qps=2000",
        "--kube-api-burst=4000",
    ])?;
    for node in 0..NODES {
        scene.pretend_node(&format!("burst-{node}"))?;
    }
    let volumes = scene.volumes(VOLUMES)?;
    let objects = volumes.iter().enumerate().map(|(index, volume)| {
        let node = format!("burst-{}", index % NODES);
        object::volume_attachment(&volume.name, scene.driver(), &volume.name, &node)
    });
    let objects = objects.collect::<Vec<_>>();
    scene.phase()?;

    let since = Instant::now();
    scene
        .api
        .create_all(&format!("{STORAGE}/volumeattachments"), &objects)?;
    let created = since.elapsed();
    attacher.until("all are attached", || Ok(left(&scene, false)? == 0))?;
    let attached = since.elapsed();
    scene.patches("to attach all", 3 * VOLUMES as u64)?;
    exactly("publish calls", scene.calls()?.of(PUBLISH).count(), VOLUMES)?;

    let since = Instant::now();
    let paths: Vec<_> = volumes.iter().map(|volume| volume.attachment()).collect();
    scene.api.delete_all(&paths)?;
    let deleted = since.elapsed();
    attacher.until("all are gone", || Ok(left(&scene, true)? == 0))?;
    let gone = since.elapsed();
    scene.patches("to detach all", 2 * VOLUMES as u64)?;
    exactly(
        "unpublish calls",
        scene.calls()?.of(UNPUBLISH).count(),
        VOLUMES,
    )?;
    exactly("publish calls", scene.calls()?.of(PUBLISH).count(), VOLUMES)?;
    say(&format!(
        "          {VOLUMES} created in {:.1} s and attached after {:.1} s, deleted in {:.1} s and gone after {:.1} s",
        created.as_secs_f64(),
        attached.as_secs_f64(),
        deleted.as_secs_f64(),
        gone.as_secs_f64()
    ));
    scene.nothing_attached()?;
    scene.finish(&Options::default())
}

/// Number of our attachments that exist, or that exist and are not attached.
fn left(scene: &Scene<'_>, any: bool) -> Result<usize> {
    // Long lists cost the API server more than the requests that are counted.
    sleep(Duration::from_millis(300));
    let list = scene
        .api
        .get(&format!("{STORAGE}/volumeattachments?resourceVersion=0"))?;
    let items = list.pointer("/items").and_then(|items| items.as_array());
    let mut ours: Vec<_> = items.into_iter().flatten().collect();
    ours.retain(|it| {
        it.pointer("/spec/attacher").and_then(|it| it.as_str()) == Some(scene.driver())
    });
    let all = ours.len();
    ours.retain(|it| it.pointer("/status/attached") == Some(&true.into()));
    if any {
        return Ok(all);
    }
    // Some may not be in the watch cache yet.
    Ok(VOLUMES.saturating_sub(ours.len()))
}
