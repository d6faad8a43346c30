//! Two replicas of which one leads.

use anyhow::{Context, Result, bail, ensure};
use csi_test_driver::invariants::Options;
use e2e::cluster::Cluster;
use e2e::controller::Route;
use e2e::program;
use e2e::suite::Verdict;
use e2e::wait;
use rustix::process::Signal;

use super::scene::{PUBLISH, Running, SOON, Scene, exactly, skipped};

/// Short enough to wait for its end, long enough for a leader on a machine that stalls.
const TIMING: [&str; 3] = [
    "--leader-election-lease-duration=25s",
    "--leader-election-renew-deadline=22s",
    "--leader-election-retry-period=500ms",
];

fn holder(scene: &Scene<'_>) -> Result<String> {
    let driver = scene.driver().replace('.', "-");
    let lease = format!("external-attacher-leader-{driver}");
    let holder = scene.attacher.holder(&scene.api, &lease)?;
    Ok(holder.unwrap_or_default())
}

fn until_holder(scene: &Scene<'_>, name: &str) -> Result<()> {
    wait::until_true(SOON, &format!("{name:?} holds the lease"), || {
        Ok(holder(scene)? == name)
    })
    .with_context(|| format!("holder: {:?}", holder(scene)))
}

pub(super) fn leader_killed(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    if !rustix::process::geteuid().is_root() {
        let why = "host names of their own, by which replicas are told apart, need root";
        return Ok(Verdict::Skipped(why.to_owned()));
    }
    let scene = Scene::new(cluster, "replica")?;
    let _driver = scene.start_driver()?;
    scene.pretend_node("replica-a")?;
    let volumes = scene.volumes(3)?;
    let [settled, pending, later] = volumes.as_slice() else {
        bail!("three volumes")
    };
    let mut first = Running::start(&scene, "first", Route::Direct, &TIMING)?;
    until_holder(&scene, "csi-attacher-first")?;
    let mut second = Running::start(&scene, "second", Route::Direct, &TIMING)?;
    scene.attach(settled, "replica-a")?;
    first.until_attached(&[settled])?;
    second.process.must_run()?;

    // The leader is killed while a call to the driver runs.
    scene.hold("publish", PUBLISH, pending, "after")?;
    scene.attach(pending, "replica-a")?;
    scene.until_held("publish", 1)?;
    drop(first);
    scene.control().clear_rules()?;
    scene.attach(later, "replica-a")?;
    second.until_attached(&[pending, later])?;
    ensure!(
        holder(&scene)? == "csi-attacher-second",
        "the second replica leads: {}",
        holder(&scene)?
    );
    exactly(
        "calls before the leader died",
        scene.asked(settled)?,
        (1, 0),
    )?;
    exactly("calls when the leader died", scene.asked(pending)?, (2, 0))?;
    exactly("calls after the leader died", scene.asked(later)?, (1, 0))?;

    // A replica that shuts down cleanly does not make the others wait.
    let mut third = Running::start(&scene, "third", Route::Direct, &TIMING)?;
    second.process.signal(Signal::TERM)?;
    let code = second.process.exit_code(SOON)?;
    if !program::is_foreign(&program::attacher()?)? {
        ensure!(code == 0, "exit code {code}\n{}", second.process.tail());
    }
    for volume in [settled, pending, later] {
        scene.detach(volume)?;
    }
    third.until_gone(&[settled, pending, later])?;
    exactly(
        "calls before the leader died",
        scene.asked(settled)?,
        (1, 1),
    )?;
    exactly("calls when the leader died", scene.asked(pending)?, (2, 1))?;
    exactly("calls after the leader died", scene.asked(later)?, (1, 1))?;
    scene.nothing_attached()?;
    scene.finish(&Options::default())
}
