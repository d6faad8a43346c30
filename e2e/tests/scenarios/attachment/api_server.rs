//! Outages of the API server, and watches that break.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, bail};
use csi_test_driver::invariants::Options;
use e2e::cluster::Cluster;
use e2e::controller::Route;
use e2e::proxy::FaultProxy;
use e2e::suite::Verdict;
use serde_json::json;

use super::scene::{PUBLISH, Running, Scene, UNPUBLISH, exactly, skipped};

pub(super) fn killed(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "server")?;
    let _driver = scene.start_driver()?;
    scene.pretend_node("server-a")?;
    let volumes = scene.volumes(3)?;
    let [attaching, detaching, later] = volumes.as_slice() else {
        bail!("three volumes")
    };
    let mut attacher = scene.start_attacher(&[])?;
    scene.attach(detaching, "server-a")?;
    attacher.until_attached(&[detaching])?;
    scene.hold("publish", PUBLISH, attaching, "after")?;
    scene.hold("unpublish", UNPUBLISH, detaching, "after")?;
    scene.attach(attaching, "server-a")?;
    scene.detach(detaching)?;
    scene.until_held("publish", 1)?;
    scene.until_held("unpublish", 1)?;

    cluster.run(&["ctl", "kill", "kube-apiserver"])?;
    scene.control().clear_rules()?;
    // The driver's answers arrive while the API server is down.
    sleep(Duration::from_millis(500));
    cluster.run(&["ctl", "start", "kube-apiserver"])?;
    attacher.process.must_run()?;
    attacher.until_attached(&[attaching])?;
    attacher.until_gone(&[detaching])?;

    scene.attach(later, "server-a")?;
    attacher.until_attached(&[later])?;
    scene.detach(later)?;
    scene.detach(attaching)?;
    attacher.until_gone(&[attaching, later])?;
    exactly("calls afterwards", scene.asked(later)?, (1, 1))?;
    scene.nothing_attached()?;
    scene.finish(&Options::default())
}

/// Attachments while watches are under fault.
const VOLUMES: usize = 24;

pub(super) fn watches_cut_and_gone(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "watch")?;
    let _driver = scene.start_driver()?;
    scene.pretend_node("watch-a")?;
    let volumes = scene.volumes(VOLUMES)?;
    let proxy = FaultProxy::of(cluster)?;
    let watches = |name: &str, count: u32, action: &str| {
        json!({
            "name": name, "userAgent": "csi-attacher", "method": "GET", "uri": "watch=",
            "count": count, "action": action, "afterMs": 600, "abort": name == "cut",
        })
    };
    let doubled = json!({
        "name": "doubled", "userAgent": "csi-attacher", "method": "GET", "uri": "watch=",
        "action": "duplicate-event",
    });
    let rules = [
        watches("cut", 6, "cut-watch"),
        watches("gone", 6, "gone"),
        doubled,
    ];
    proxy.replace(&rules)?;

    let flags = ["--kube-api-qps=100", "--kube-api-burst=100"];
    let mut attacher = Running::start(&scene, "0", Route::Proxy, &flags)?;
    for (index, volume) in volumes.iter().enumerate() {
        scene.attach(volume, "watch-a")?;
        if let Some(older) = index.checked_sub(8).and_then(|older| volumes.get(older)) {
            attacher.until_attached(&[older])?;
            scene.detach(older)?;
        }
        // The pace makes every fault interrupt some attachment.
        sleep(Duration::from_millis(100));
    }
    attacher.until("all faults have happened", || {
        Ok((proxy.hits("cut")?, proxy.hits("gone")?) == (6, 6) && proxy.hits("doubled")? > 0)
    })?;
    let all: Vec<_> = volumes.iter().collect();
    let (first, last) = all.split_at(VOLUMES - 8);
    attacher.until_attached(last)?;
    for volume in last {
        scene.detach(volume)?;
    }
    attacher.until_gone(first)?;
    attacher.until_gone(last)?;
    for volume in &all {
        exactly(
            &format!("calls for {}", volume.name),
            scene.asked(volume)?,
            (1, 1),
        )?;
    }
    scene.nothing_attached()?;
    scene.finish(&Options::default())
}
