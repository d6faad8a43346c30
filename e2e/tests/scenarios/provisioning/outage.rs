//! Many claims, with and without outages of the programs that handle them.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::object::{self, Binding};
use e2e::process::Process;
use e2e::suite::{Verdict, say};
use e2e::{deployment::Deployment, wait};
use serde_json::Value;

use super::scene::{CLAIMS, LONG, Scene, at_most, skipped, writes};

const FLAGS: [&str; 2] = ["--enable-topology=false", "--sync=false"];

const FAST: [&str; 3] = [
    "--kube-api-qps=2000",
    "--kube-api-burst=4000",
    "--worker-threads=50",
];

/// Short enough to wait for its end, long enough for a leader on a machine that stalls.
const ELECTION: [&str; 3] = [
    "--leader-election-lease-duration=25s",
    "--leader-election-renew-deadline=22s",
    "--leader-election-retry-period=500ms",
];

/// Claims of the scene.
struct Crowd {
    names: Vec<String>,
}

impl Crowd {
    fn create(scene: &Scene<'_>, number: usize) -> Result<Self> {
        let class = scene.deployment.driver();
        let names: Vec<_> = (0..number).map(|it| format!("{class}-{it}")).collect();
        let claims = names.iter().map(|name| object::claim(name, class, "1Mi"));
        scene.api.create_all(CLAIMS, &claims.collect::<Vec<_>>())?;
        Ok(Self { names })
    }

    /// Creates claims, every third a clone of one of `sources`.
    fn create_with_clones(scene: &Scene<'_>, number: usize, sources: &Self) -> Result<Self> {
        let class = scene.deployment.driver();
        let names: Vec<_> = (0..number).map(|it| format!("{class}-new-{it}")).collect();
        let sources = sources.names.iter().cycle();
        let claims = names.iter().zip(sources).enumerate();
        let claims = claims.map(|(number, (name, source))| {
            if number % 3 == 0 {
                object::claim_from(name, class, "1Mi", "PersistentVolumeClaim", source)
            } else {
                object::claim(name, class, "1Mi")
            }
        });
        scene.api.create_all(CLAIMS, &claims.collect::<Vec<_>>())?;
        Ok(Self { names })
    }

    fn delete(&self, scene: &Scene<'_>) -> Result<()> {
        let paths = self.names.iter().map(|name| format!("{CLAIMS}/{name}"));
        scene.api.delete_all(&paths.collect::<Vec<_>>())
    }

    fn until_bound(&self, scene: &Scene<'_>, provisioner: &mut Process) -> Result<()> {
        Self::until_so_many_are_bound(self.names.len(), scene, provisioner)
    }

    fn until_so_many_are_bound(
        number: usize,
        scene: &Scene<'_>,
        provisioner: &mut Process,
    ) -> Result<()> {
        let bound = wait::until_true(LONG, "all claims are bound", || {
            // Long lists cost the API server more than the requests that are counted.
            std::thread::sleep(std::time::Duration::from_millis(300));
            provisioner.must_run()?;
            let list = scene.api.get(&format!("{CLAIMS}?resourceVersion=0"))?;
            let items = list.pointer("/items").and_then(Value::as_array);
            let ours = items.into_iter().flatten().filter(|it| {
                let class = text(it, "/spec/storageClassName");
                class == Some(scene.deployment.driver())
                    && text(it, "/status/phase") == Some("Bound")
            });
            Ok(ours.count() == number)
        });
        bound.with_context(|| provisioner.tail())
    }
}

/// Number of claims at once, unless `CLAIMS` sets it.
const MANY: usize = 200;

/// Number of claims that others are cloned from.
const SOURCES: usize = 10;

/// A number that the environment may set.
fn setting(name: &str, default: usize) -> Result<usize> {
    match std::env::var(name) {
        Ok(number) => number.parse().with_context(|| name.to_owned()),
        Err(_unset) => Ok(default),
    }
}

/// Claims and clones of bound claims at once, `ROUNDS` times: while many clones add their finalizer
/// to the same sources, the watch lags behind the answers, and no claim may be missed.
pub(super) fn clones(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let (number, rounds) = (setting("CLAIMS", MANY)?, setting("ROUNDS", 1)?);
    let scene = Scene::new(cluster, "clones", Binding::Immediate, &FLAGS)?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut provisioner = scene.start_provisioner(&FAST)?;
    let sources = Crowd::create(&scene, SOURCES)?;
    sources.until_bound(&scene, &mut provisioner)?;
    for round in 1..=rounds {
        let since = Instant::now();
        let crowd = Crowd::create_with_clones(&scene, number, &sources)?;
        Crowd::until_so_many_are_bound(SOURCES + number, &scene, &mut provisioner)?;
        let took = since.elapsed().as_secs_f64();
        say(&format!(
            "          round {round}: {number} bound after {took:.1} s"
        ));
        crowd.delete(&scene)?;
        wait::until_true(LONG, "the round's claims are gone", || {
            let list = scene.api.get(CLAIMS)?;
            let items = list.pointer("/items").and_then(Value::as_array);
            let class = Some(scene.deployment.driver());
            let ours = |it: &&Value| text(it, "/spec/storageClassName") == class;
            Ok(items.into_iter().flatten().filter(ours).count() == SOURCES)
        })?;
    }
    sources.delete(&scene)?;
    scene.until_nothing_is_left(&mut provisioner)?;
    scene.finish()
}

pub(super) fn many(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let number = setting("CLAIMS", MANY)?;
    let scene = Scene::new(cluster, "many", Binding::Immediate, &FLAGS)?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut provisioner = scene.start_provisioner(&FAST)?;
    let since = Instant::now();
    let crowd = Crowd::create(&scene, number)?;
    crowd.until_bound(&scene, &mut provisioner)?;
    let bound = since.elapsed();
    let since = Instant::now();
    crowd.delete(&scene)?;
    scene.until_nothing_is_left(&mut provisioner)?;
    let gone = since.elapsed();
    say(&format!(
        "          {number} bound after {:.1} s, gone after {:.1} s",
        bound.as_secs_f64(),
        gone.as_secs_f64()
    ));
    let requests = scene.phase()?;
    at_most("writes", writes(&requests), 3 * number as u64, &requests)?;
    for method in ["CreateVolume", "DeleteVolume"] {
        let calls = scene.calls()?.of(method).count();
        at_most(method, calls as u64, number as u64, &requests)?;
    }
    scene.finish()
}

/// Number of claims in progress when a fault begins.
const SOME: usize = 60;

/// Delays each CreateVolume call, so that some are running.
fn slow(deployment: &Deployment<'_>) -> Result<()> {
    let rule = serde_json::json!({
        "id": "slow", "match": { "method": "CreateVolume" },
        "action": { "delay": { "ms": 300 }, "at": "after" },
    });
    let control = deployment.controller.control();
    control.add_rule(&serde_json::from_value(rule)?)?;
    Ok(())
}

fn until_some_are_made(scene: &Scene<'_>) -> Result<()> {
    wait::until_true(LONG, "some volumes are made", || {
        Ok(scene.calls()?.of("CreateVolume").answered().count() >= SOME / 4)
    })
}

pub(super) fn api_server(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let scene = Scene::new(cluster, "away", Binding::Immediate, &FLAGS)?;
    let _driver = scene.deployment.start_controller(&[])?;
    slow(&scene.deployment)?;
    let mut provisioner = scene.start_provisioner(&["--worker-threads=10"])?;
    let crowd = Crowd::create(&scene, SOME)?;
    until_some_are_made(&scene)?;
    cluster.run(&["ctl", "kill", "kube-apiserver"])?;
    cluster.run(&["ctl", "start", "kube-apiserver"])?;
    crowd.until_bound(&scene, &mut provisioner)?;
    wait::until_true(LONG, "claims can be deleted", || {
        crowd.delete(&scene).map(|()| true)
    })?;
    scene.until_nothing_is_left(&mut provisioner)?;
    scene.finish()
}

pub(super) fn leader_killed(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    if !rustix::process::geteuid().is_root() {
        let why = "host names of their own, by which replicas are told apart, need root";
        return Ok(Verdict::Skipped(why.to_owned()));
    }
    let scene = Scene::new(cluster, "heir", Binding::Immediate, &FLAGS)?;
    let _driver = scene.deployment.start_controller(&[])?;
    slow(&scene.deployment)?;
    let first = scene.start_replica("first", &ELECTION)?;
    scene.until_leader("csi-provisioner-first")?;
    let mut second = scene.start_replica("second", &ELECTION)?;
    let crowd = Crowd::create(&scene, SOME)?;
    until_some_are_made(&scene)?;
    drop(first);
    crowd.until_bound(&scene, &mut second)?;
    scene.until_leader("csi-provisioner-second")?;
    let mut made = scene.calls()?.of("CreateVolume").answered().handles();
    made.sort();
    made.dedup();
    ensure!(
        made.len() == SOME,
        "{} volumes for {SOME} claims",
        made.len()
    );
    crowd.delete(&scene)?;
    scene.until_nothing_is_left(&mut second)?;
    scene.finish()
}
