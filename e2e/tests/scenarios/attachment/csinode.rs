//! Nodes whose CSINode is lost, or does not exist yet.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use csi_test_driver::invariants::Options;
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::suite::{Verdict, say};

use super::scene::{STORAGE, Scene, UNPUBLISH, exactly, skipped};

pub(super) fn lost_and_late(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "csinode")?;
    let _driver = scene.start_driver()?;
    let mut attacher = scene.start_attacher(&[])?;
    scene.pretend_node("csinode-a")?;
    let volumes = scene.volumes(2)?;
    let [lost, late] = volumes.as_slice() else {
        anyhow::bail!("two volumes")
    };

    scene.attach(lost, "csinode-a")?;
    attacher.until_attached(&[lost])?;
    scene.api.delete(&format!("{STORAGE}/csinodes/csinode-a"))?;
    scene.detach(lost)?;
    attacher.until_gone(&[lost])?;
    exactly("calls for the lost node", scene.asked(lost)?, (1, 1))?;
    let calls = scene.calls()?.of(UNPUBLISH);
    let call = calls.iter().next().context("an unpublish call")?;
    ensure!(
        call.node == "id-of-csinode-a",
        "the node id that was saved is used: {}",
        call.node
    );

    scene.attach(late, "csinode-a")?;
    attacher.until("the attachment says what it waits for", || {
        let object = scene.api.get(&late.attachment())?;
        let message = text(&object, "/status/attachError/message");
        Ok(message.is_some_and(|it| it.contains("\"csinode-a\" not found")))
    })?;
    ensure!(scene.asked(late)? == (0, 0), "published without a node id");
    scene.register("csinode-a")?;
    let since = Instant::now();
    attacher.until_attached(&[late])?;
    say(&format!(
        "          attached {:.2} s after its CSINode appeared",
        since.elapsed().as_secs_f64()
    ));
    let object = scene.api.get(&late.attachment())?;
    let error = object.pointer("/status/attachError");
    ensure!(error.is_none(), "the error is withdrawn: {error:?}");
    scene.detach(late)?;
    attacher.until_gone(&[late])?;
    exactly("calls for the late node", scene.asked(late)?, (1, 1))?;
    scene.nothing_attached()?;
    scene.finish(&Options::default())
}
