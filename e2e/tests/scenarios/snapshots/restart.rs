//! SIGKILL before each write and around each call of the driver: the next process must be able to
//! finish from the state it finds, and nothing may be taken twice or left behind. Rows C-93, C-94 and
//! S-107 to S-112.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::controller::Route;
use e2e::process::{Process, Programs};
use e2e::proxy::FaultProxy;
use e2e::suite::{Verdict, say};
use e2e::wait;
use serde_json::json;

use super::scene::{SNAPSHOTS, SOON, Scene, is_free, is_ready, skipped};

/// A program with more writes for one snapshot does not come to an end.
const MOST: u64 = 40;

/// The step in which a process is killed.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Its write of this number, which never arrives.
    Write(u64),
    /// Its call to the driver, which has or has not begun, as the second field says.
    Call(&'static str, &'static str),
}

/// The program to kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Controller,
    Snapshotter,
}

impl Victim {
    fn agent(self) -> &'static str {
        match self {
            Self::Controller => "^snapshot-controller",
            Self::Snapshotter => "^csi-snapshotter",
        }
    }

    fn start(self, scene: &Scene<'_>, route: Route) -> Result<Process> {
        match self {
            Self::Controller => scene.start_controller(route, &[]),
            Self::Snapshotter => scene.start_snapshotter(route, &[]),
        }
    }

    fn start_other(self, scene: &Scene<'_>) -> Result<Process> {
        match self {
            Self::Controller => Self::Snapshotter.start(scene, Route::Direct),
            Self::Snapshotter => Self::Controller.start(scene, Route::Direct),
        }
    }
}

struct Stage<'a, 's> {
    scene: &'s Scene<'a>,
    proxy: FaultProxy,
    victim: Victim,
    other: Programs,
}

impl Stage<'_, '_> {
    /// Starts the victim so that it stops in this step, triggers its work, and kills it there; false
    /// if `done` comes true before. Runs `meanwhile` before it starts the successor.
    fn kill(
        &mut self,
        step: Step,
        ask: impl FnOnce() -> Result<()>,
        done: impl Fn() -> Result<bool>,
        meanwhile: impl FnOnce() -> Result<()>,
    ) -> Result<(bool, Programs)> {
        let control = self.scene.deployment.controller.control();
        match step {
            Step::Write(number) => self.proxy.replace(&[json!({
                "name": "step", "userAgent": self.victim.agent(), "method": "POST|PUT|PATCH|DELETE",
                "uri": "/(volumesnapshots|volumesnapshotcontents|persistentvolumeclaims)",
                "skip": number, "action": "freeze",
            })])?,
            Step::Call(method, at) => {
                let rule = json!({
                    "id": "step", "match": { "method": method, "times": 1 },
                    "action": { "hold": true, "at": at },
                });
                control.add_rule(&serde_json::from_value(rule)?)?;
            }
        }
        let mut first = self.victim.start(self.scene, Route::Proxy)?;
        ask()?;
        let reached = wait::until(SOON, &format!("{step:?} or the end"), || {
            first.must_run()?;
            self.other.must_run()?;
            let held = || anyhow::Ok(control.rules()?.iter().any(|it| it.applied > 0));
            if self.proxy.hits("step")? > 0 || held()? {
                return Ok(Some(true));
            }
            if !done()? {
                return Ok(None);
            }
            // The last write may come after the state that users see.
            sleep(Duration::from_millis(500));
            Ok(Some(self.proxy.hits("step")? > 0))
        });
        let reached = reached
            .with_context(|| first.tail())
            .with_context(|| self.other.tails())?;
        // Dropping it sends SIGKILL.
        drop(first);
        meanwhile()?;
        self.proxy.replace(&[])?;
        control.clear_rules()?;
        let second = self.victim.start(self.scene, Route::Direct)?;
        Ok((reached, Programs::of(vec![second])))
    }

    /// Creates a snapshot, interrupted in `step`. Returns whether there was that step.
    fn create(&mut self, name: &str, claim: &str, step: Step) -> Result<bool> {
        let scene = self.scene;
        let path = format!("{SNAPSHOTS}/{name}");
        let ask = || scene.snapshot(name, &scene.deleting(), claim).map(drop);
        let done = || Ok(is_ready(&scene.api.get(&path)?) && is_free(scene, claim)?);
        let (reached, mut second) = self.kill(step, ask, done, || Ok(()))?;
        let (snapshot, _) = scene.until_ready(&mut second, name)?;
        let uid = text(&snapshot, "/metadata/uid").context("a UID")?;
        let taken = scene.handles_for(uid)?;
        ensure!(taken.len() == 1, "in the storage: {taken:?}");
        scene.until(&mut second, "the claim is free", || {
            Ok(is_free(scene, claim)?.then_some(()))
        })?;
        Ok(reached)
    }

    /// Creates a VolumeSnapshot, interrupted in `step`, and deletes it before the next process begins.
    /// Returns whether there was that step.
    fn abandon(&mut self, name: &str, claim: &str, step: Step) -> Result<bool> {
        let scene = self.scene;
        let path = format!("{SNAPSHOTS}/{name}");
        let ask = || scene.snapshot(name, &scene.deleting(), claim).map(drop);
        let done = || Ok(is_ready(&scene.api.get(&path)?) && is_free(scene, claim)?);
        let (reached, mut second) = self.kill(step, ask, done, || scene.api.delete(&path))?;
        self.until_gone(&mut second, name)?;
        scene.until(&mut second, "the claim is free", || {
            Ok(is_free(scene, claim)?.then_some(()))
        })?;
        Ok(reached)
    }

    /// Waits until nothing is left of a VolumeSnapshot that was deleted.
    fn until_gone(&mut self, programs: &mut Programs, name: &str) -> Result<()> {
        let scene = self.scene;
        let path = format!("{SNAPSHOTS}/{name}");
        let gone = scene.until(programs, "the VolumeSnapshot is gone", || {
            Ok(scene.api.find(&path)?.is_none().then_some(()))
        });
        gone.with_context(|| scene.api.events("default", name))
            .with_context(|| self.other.tails())?;
        scene.until(programs, "its content and its snapshot are gone", || {
            Ok(scene.has_no_snapshot()?.then_some(()))
        })
    }

    /// Deletes a snapshot, interrupted in `step`. Returns whether there was that step.
    fn delete(&mut self, name: &str, step: Step) -> Result<bool> {
        let scene = self.scene;
        let path = format!("{SNAPSHOTS}/{name}");
        let done = || Ok(scene.api.find(&path)?.is_none());
        let (reached, mut second) = self.kill(step, || scene.api.delete(&path), done, || Ok(()))?;
        self.until_gone(&mut second, name)?;
        Ok(reached)
    }
}

fn each_step(
    cluster: &Cluster,
    name: &'static str,
    victim: Victim,
    calls: &[Step],
) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, name)?;
    let _driver = scene.deployment.start_controller(&[])?;
    let claims = [name.to_owned()];
    scene.made_claims(&claims)?;
    let mut stage = Stage {
        scene: &scene,
        proxy: FaultProxy::of(cluster)?,
        victim,
        other: Programs::of(vec![victim.start_other(&scene)?]),
    };
    let (mut creating, mut deleting) = (None, None);
    let mut writes = 0;
    while creating.is_none() || deleting.is_none() {
        ensure!(writes < MOST, "{MOST} writes for one snapshot");
        let step = Step::Write(writes);
        let snapshot = format!("{name}-{writes}");
        let reached = stage.create(&snapshot, name, step);
        if !reached.with_context(|| format!("creation, killed in {step:?}"))? {
            creating.get_or_insert(writes);
        }
        let reached = stage.delete(&snapshot, step);
        if !reached.with_context(|| format!("deletion, killed in {step:?}"))? {
            deleting.get_or_insert(writes);
        }
        writes += 1;
    }
    for (number, step) in calls.iter().enumerate() {
        let snapshot = format!("{name}-call-{number}");
        let creates = matches!(step, Step::Call("CreateSnapshot", _));
        let nothing = Step::Write(MOST);
        let (first, second) = if creates {
            (*step, nothing)
        } else {
            (nothing, *step)
        };
        let created = stage.create(&snapshot, name, first);
        let created = created.with_context(|| format!("creation, killed in {step:?}"))?;
        let deleted = stage.delete(&snapshot, second);
        let deleted = deleted.with_context(|| format!("deletion, killed in {step:?}"))?;
        ensure!(
            (created, deleted) == (creates, !creates),
            "{step:?} was not reached"
        );
    }
    let number = |steps: Option<u64>| steps.unwrap_or_default();
    say(&format!(
        "          killed before each of {} writes of a creation and {} of a deletion, and in {} calls",
        number(creating),
        number(deleting),
        calls.len(),
    ));
    ensure!(
        number(creating) > 0 && number(deleting) > 0,
        "no write was seen"
    );
    let Stage { mut other, .. } = stage;
    scene.forget_claims(&claims)?;
    scene.until(&mut other, "nothing is left of snapshots", || {
        Ok(scene.has_no_snapshot()?.then_some(()))
    })?;
    scene.finish()
}

pub(super) fn deleted(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let name = "abandoned";
    let scene = Scene::new(cluster, name)?;
    let _driver = scene.deployment.start_controller(&[])?;
    let claims = [name.to_owned()];
    scene.made_claims(&claims)?;
    for victim in [Victim::Controller, Victim::Snapshotter] {
        let mut stage = Stage {
            scene: &scene,
            proxy: FaultProxy::of(cluster)?,
            victim,
            other: Programs::of(vec![victim.start_other(&scene)?]),
        };
        let abandon = |stage: &mut Stage<'_, '_>, number: u64, step| {
            let snapshot = format!("{name}-{victim:?}-{number}").to_lowercase();
            let reached = stage.abandon(&snapshot, name, step);
            reached.with_context(|| format!("{victim:?}, killed in {step:?}"))
        };
        let mut writes = 0;
        while abandon(&mut stage, writes, Step::Write(writes))? {
            writes += 1;
            ensure!(writes < MOST, "{MOST} writes for one snapshot");
        }
        ensure!(writes > 0, "no write was seen");
        if victim == Victim::Snapshotter {
            for (number, at) in (MOST..).zip(["before", "after"]) {
                let step = Step::Call("CreateSnapshot", at);
                ensure!(
                    abandon(&mut stage, number, step)?,
                    "{step:?} was not reached"
                );
            }
        }
    }
    scene.forget_claims(&claims)?;
    scene.finish()
}

pub(super) fn controller(cluster: &Cluster) -> Result<Verdict> {
    each_step(cluster, "kill-controller", Victim::Controller, &[])
}

pub(super) fn snapshotter(cluster: &Cluster) -> Result<Verdict> {
    let calls = [
        Step::Call("CreateSnapshot", "before"),
        Step::Call("CreateSnapshot", "after"),
        Step::Call("DeleteSnapshot", "before"),
        Step::Call("DeleteSnapshot", "after"),
    ];
    each_step(cluster, "kill-snapshotter", Victim::Snapshotter, &calls)
}
