//! Drivers that crash, and drivers that lose their state.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use csi_test_driver::invariants::Options;
use e2e::cluster::Cluster;
use e2e::suite::Verdict;
use e2e::wait;
use serde_json::json;

use super::scene::{PUBLISH, Scene, UNPUBLISH, exactly, skipped};

pub(super) fn killed(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "killed")?;
    let driver = scene.start_driver()?;
    let mut attacher = scene.start_attacher(&[])?;
    scene.pretend_node("killed-a")?;
    let volumes = scene.volumes(2)?;
    let [before, after] = volumes.as_slice() else {
        bail!("two volumes")
    };

    // One publish call that has no effect, and one that has its full effect without an answer.
    scene.hold("before", PUBLISH, before, "before")?;
    scene.hold("after", PUBLISH, after, "after")?;
    scene.attach(before, "killed-a")?;
    scene.attach(after, "killed-a")?;
    scene.until_held("before", 1)?;
    scene.until_held("after", 1)?;
    drop(driver);
    let driver = scene.start_driver()?;
    attacher.until_attached(&[before, after])?;
    for volume in [before, after] {
        let calls = scene.calls()?.about(&volume.handle).of(PUBLISH);
        let answered = calls.answered().count();
        exactly("publish calls, answered", (calls.count(), answered), (2, 1))?;
    }

    scene.hold("unpublish", UNPUBLISH, before, "after")?;
    scene.detach(before)?;
    scene.detach(after)?;
    scene.until_held("unpublish", 1)?;
    drop(driver);
    let _driver = scene.start_driver()?;
    attacher.until_gone(&[before, after])?;
    exactly("calls for the one", scene.asked(before)?, (2, 2))?;
    scene.nothing_attached()?;
    scene.finish(&Options::default())
}

pub(super) fn lost_an_attachment(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "lost")?;
    let _driver = scene.start_driver()?;
    let mut attacher = scene.start_attacher(&["--reconcile-sync=500ms"])?;
    scene.pretend_node("lost-a")?;
    let volumes = scene.volumes(2)?;
    let [lost, kept] = volumes.as_slice() else {
        bail!("two volumes")
    };
    scene.attach(lost, "lost-a")?;
    scene.attach(kept, "lost-a")?;
    attacher.until_attached(&[lost, kept])?;

    // Comparing a list that agrees leads to no requests.
    scene.phase()?;
    let listed = scene.calls()?.of("ListVolumes").count();
    attacher.until("the driver's volumes are listed three times more", || {
        Ok(scene.calls()?.of("ListVolumes").count() >= listed + 3)
    })?;
    let idle = scene.phase()?;
    exactly(
        "PATCH requests while nothing is wrong",
        idle.verb("patch"),
        0,
    )?;
    exactly("calls while nothing is wrong", scene.asked(lost)?, (1, 0))?;

    let forget = json!({ "attachments": [lost.handle] });
    scene.control().ask("POST", "/forget", Some(&forget))?;
    attacher.until("the lost attachment is made again", || {
        Ok(scene.asked(lost)?.0 >= 2)
    })?;
    wait::stays(Duration::from_millis(1500), "the attacher runs", || {
        attacher.process.must_run().map(|()| true)
    })?;
    let state = scene.control().state()?;
    let attached = state.pointer(&format!("/volumes/{}/attachments", lost.handle));
    let attached = attached.context("the volume's attachments")?;
    ensure!(
        attached.get("id-of-lost-a").is_some(),
        "attachments: {attached}"
    );
    exactly("calls for what was lost", scene.asked(lost)?, (2, 0))?;
    exactly("calls for the other one", scene.asked(kept)?, (1, 0))?;
    scene.patches("to mend it", 1)?;

    scene.detach(lost)?;
    scene.detach(kept)?;
    attacher.until_gone(&[lost, kept])?;
    exactly("calls for what was lost", scene.asked(lost)?, (2, 1))?;
    exactly("calls for the other one", scene.asked(kept)?, (1, 1))?;
    scene.nothing_attached()?;
    scene.finish(&Options::default())
}
