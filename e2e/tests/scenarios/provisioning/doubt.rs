//! Claims that are deleted while the outcome of their CreateVolume call is unknown.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::cluster::Cluster;
use e2e::object::Binding;
use e2e::process::Process;
use e2e::suite::Verdict;
use e2e::{program, wait};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::scene::{CLAIMS, SOON, Scene, skipped};

const FLAGS: [&str; 2] = ["--enable-topology=false", "--sync=false"];

/// Calls time out after this; the driver's work goes on.
const BRIEF: &str = "--timeout=4s";

/// A driver that makes a volume and does not answer.
struct Held<'a> {
    scene: Scene<'a>,
    claim: &'static str,
    _driver: Process,
}

impl<'a> Held<'a> {
    fn new(cluster: &'a Cluster, name: &'static str) -> Result<Self> {
        let scene = Scene::new(cluster, name, Binding::Immediate, &FLAGS)?;
        let driver = scene.deployment.start_controller(&[])?;
        scene.rule(&json!({
            "id": "slow", "match": { "method": "CreateVolume" },
            "action": { "hold": true, "at": "after" },
        }))?;
        Ok(Self {
            scene,
            claim: name,
            _driver: driver,
        })
    }

    /// Starts a provisioner and waits until its call runs.
    fn asked(&self, flags: &[&str]) -> Result<Process> {
        let mut first = self.scene.start_provisioner(flags)?;
        self.scene.claim(self.claim)?;
        let control = self.scene.deployment.controller.control();
        let held = wait::until_true(SOON, "the driver holds a CreateVolume call", || {
            first.must_run()?;
            Ok(control.rules()?.iter().any(|it| it.applied > 0))
        });
        held.with_context(|| first.tail())?;
        // The rule counts a call before the driver does its work.
        wait::until_true(SOON, "the volume is made", || {
            Ok(self.volumes()? == json!(1))
        })?;
        Ok(first)
    }

    fn volumes(&self) -> Result<Value> {
        self.scene.stored("/left_over/volumes")
    }

    /// Asserts that the journal has an entry for the claim, and that the claim has nothing of ours.
    fn is_recorded(&self) -> Result<()> {
        let claim = self.scene.api.get(&format!("{CLAIMS}/{}", self.claim))?;
        let text = claim.to_string();
        ensure!(
            !text.contains("csi-sidecars.io"),
            "something of ours: {text}"
        );
        let uid = claim.pointer("/metadata/uid").and_then(Value::as_str);
        let intent = format!("intent.csi-sidecars.io/{}", uid.unwrap_or_default());
        let journal = self.scene.journal()?;
        ensure!(
            journal.to_string().contains(&intent),
            "no {intent}: {journal}"
        );
        Ok(())
    }

    /// Starts another process, which knows only the journal, and waits for its result.
    fn settle(self, flags: &[&str]) -> Result<Verdict> {
        let scene = &self.scene;
        scene.deployment.controller.control().clear_rules()?;
        let mut second = scene.start_provisioner(flags)?;
        scene.until_claim_gone(&mut second, self.claim)?;
        scene.until_nothing_is_left(&mut second)?;
        let made = scene.calls()?.of("CreateVolume").answered().handles();
        ensure!(made.len() == 1, "the volume was found again: {made:?}");
        scene.finish()
    }
}

/// Skips with upstream's provisioner, which forgets such calls.
fn unsuitable() -> Result<Option<Verdict>> {
    if let Some(skipped) = skipped() {
        return Ok(Some(skipped));
    }
    let foreign = program::is_foreign(&program::provisioner()?)?;
    Ok(foreign.then(|| Verdict::Skipped("only ours remembers".to_owned())))
}

/// Kills the process in the first call, with the claim deleted before or after.
fn killed(cluster: &Cluster, name: &'static str, before: bool) -> Result<Verdict> {
    if let Some(unsuitable) = unsuitable()? {
        return Ok(unsuitable);
    }
    let held = Held::new(cluster, name)?;
    let mut first = held.asked(&[])?;
    held.is_recorded()?;
    if before {
        held.scene.release(held.claim)?;
    }
    first.must_run()?;
    drop(first);
    if !before {
        held.scene.release(held.claim)?;
    }
    held.settle(&[])
}

pub(super) fn killed_then_deleted(cluster: &Cluster) -> Result<Verdict> {
    killed(cluster, "unclaimed", false)
}

pub(super) fn deleted_then_killed(cluster: &Cluster) -> Result<Verdict> {
    killed(cluster, "orphaned", true)
}

pub(super) fn killed_after_timeout(cluster: &Cluster) -> Result<Verdict> {
    if let Some(unsuitable) = unsuitable()? {
        return Ok(unsuitable);
    }
    let held = Held::new(cluster, "late-call")?;
    let first = held.asked(&[BRIEF])?;
    held.is_recorded().with_context(|| first.tail())?;
    held.scene.release(held.claim)?;
    drop(first);
    held.settle(&[])
}

pub(super) fn terminated(cluster: &Cluster) -> Result<Verdict> {
    if let Some(unsuitable) = unsuitable()? {
        return Ok(unsuitable);
    }
    let held = Held::new(cluster, "ended")?;
    let mut first = held.asked(&["--timeout=15s"])?;
    let since = Instant::now();
    first.signal(Signal::TERM)?;
    let code = first.exit_code(SOON)?;
    ensure!(code == 0, "exit code {code}: {}", first.tail());
    // The process waits for the call instead of cancelling it.
    let waited = since.elapsed();
    ensure!(
        waited > Duration::from_millis(300),
        "ended after {waited:?}"
    );
    held.is_recorded().with_context(|| first.tail())?;
    held.scene.release(held.claim)?;
    held.settle(&[])
}

pub(super) fn terminated_and_answered(cluster: &Cluster) -> Result<Verdict> {
    if let Some(unsuitable) = unsuitable()? {
        return Ok(unsuitable);
    }
    let held = Held::new(cluster, "drained")?;
    let mut first = held.asked(&["--timeout=60s"])?;
    held.scene.release(held.claim)?;
    held.scene
        .api
        .until_gone(SOON, &format!("{CLAIMS}/{}", held.claim))?;
    first.signal(Signal::TERM)?;
    wait::stays(Duration::from_millis(500), "the call is waited for", || {
        Ok(first.ended()?.is_none())
    })?;
    held.scene.deployment.controller.control().clear_rules()?;
    let code = first.exit_code(SOON)?;
    ensure!(code == 0, "exit code {code}: {}", first.tail());
    ensure!(held.volumes()? == json!(1), "the volume has its object");
    held.settle(&[])
}
