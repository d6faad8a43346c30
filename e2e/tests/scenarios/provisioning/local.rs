//! A provisioner on each node, for storage that exists only there.

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::controller::Route;
use e2e::deployment::Pod;
use e2e::object::{self, Binding};
use e2e::process::Process;
use e2e::suite::Verdict;
use serde_json::{Value, json};

use super::scene::{CLAIMS, CLASSES, Scene, at_most, skipped, writes};
use super::zones::Zones;

const NAMES: [&str; 3] = ["one", "two", "three"];

const FLAGS: [&str; 6] = [
    "--node-deployment",
    "--strict-topology",
    "--immediate-topology=false",
    "--node-deployment-base-delay=150ms",
    "--node-deployment-max-delay=600ms",
    "-v=2",
];

/// Number of volumes that fit on each node.
const ROOM: usize = 2;

/// One provisioner on each node.
struct Everywhere {
    processes: Vec<Process>,
}

impl Everywhere {
    fn start(scene: &Scene<'_>, zones: &Zones<'_>) -> Result<Self> {
        let processes = zones.iter().map(|(name, pod)| {
            let provisioner = scene.provisioner.beside(&pod.seat);
            provisioner.start(name, Route::Direct, &FLAGS)
        });
        Ok(Self {
            processes: processes.collect::<Result<_>>()?,
        })
    }

    /// One of the provisioners, after a check that all run.
    fn one(&mut self) -> Result<&mut Process> {
        for process in &mut self.processes {
            process.must_run()?;
        }
        self.processes.first_mut().context("a provisioner")
    }
}

/// Fails unless all calls about a volume were made on its node.
fn stayed(scene: &Scene<'_>, zones: &Zones<'_>, volume: &Value) -> Result<&'static str> {
    let zone = zones.of(volume)?;
    let node = zones.node(zone)?;
    let handle = text(volume, "/spec/csi/volumeHandle").context("handle")?;
    for call in scene.calls()?.about(handle).iter() {
        let (method, instance) = (&call.method, &call.instance);
        let there = instance.starts_with(&format!("{node}/"));
        ensure!(there, "{method} of a volume of {node} by {instance}");
    }
    Ok(zone)
}

pub(super) fn three_nodes(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let capacity = format!("--capacity=disk={ROOM}Mi");
    let driver = ["--sync=false", &capacity];
    let scene = Scene::new(cluster, "local", Binding::Immediate, &driver)?;
    let zones = Zones::start(cluster, &scene, &NAMES, &["--role=all"])?;
    // No sidecar talks to this one: the test reads the storage's state from it.
    let _witness = scene.deployment.start_controller(&[])?;
    let mut provisioners = Everywhere::start(&scene, &zones)?;

    let mut volumes = selected(&scene, &zones, &mut provisioners)?;
    scene.until_nothing_is_left(provisioners.one()?)?;
    volumes.extend(contended(&scene, &zones, &mut provisioners)?);
    scene.until_nothing_is_left(provisioners.one()?)?;

    for volume in &volumes {
        stayed(&scene, &zones, volume)?;
    }
    let requests = scene.phase()?;
    let deleted = scene.calls()?.of("DeleteVolume").count();
    at_most(
        "DeleteVolume",
        deleted as u64,
        volumes.len() as u64,
        &requests,
    )?;
    let mut created = scene.calls()?.of("CreateVolume").answered().handles();
    let answers = created.len() as u64;
    at_most("CreateVolume", answers, volumes.len() as u64, &requests)?;
    created.sort();
    created.dedup();
    ensure!(created.len() == volumes.len(), "volumes: {created:?}");
    // A provisioner takes a claim without a selected node with a write, and every later one is
    // refused.
    let lost = requests.count(|it| it.code == 409);
    let taken = requests.on("update", "persistentvolumeclaims");
    ensure!(taken > 0, "nobody took a claim: {requests}");
    let all = writes(&requests);
    at_most("writes", all - taken, 3 * volumes.len() as u64, &requests)?;
    let losers = (NAMES.len() - 1) * names().count();
    at_most("refused", lost, losers as u64, &requests)?;
    scene.finish()
}

/// The scheduler selects the node: one volume on each.
fn selected(
    scene: &Scene<'_>,
    zones: &Zones<'_>,
    provisioners: &mut Everywhere,
) -> Result<Vec<Value>> {
    let driver = scene.deployment.driver();
    let late = format!("{driver}-late");
    let class = object::storage_class(&late, driver, Binding::WaitForFirstConsumer);
    scene.api.create(CLASSES, &class)?;
    let mut pods = Vec::new();
    for zone in NAMES {
        let claim = format!("local-{zone}");
        scene.create_claim(&object::claim(&claim, &late, "1Mi"))?;
        pods.push(Pod::create(
            &scene.api,
            &claim,
            Some(zones.node(zone)?),
            &claim,
        )?);
    }
    let mut volumes = Vec::new();
    for (zone, pod) in NAMES.into_iter().zip(&mut pods) {
        let claim = format!("local-{zone}");
        let volume = scene.until_bound(provisioners.one()?, &claim)?;
        zones.must_hold(zone, &volume)?;
        pod.until_running(&scene.api)?;
        volumes.push(volume);
    }
    for pod in &pods {
        scene.api.delete(&pod.path)?;
    }
    scene.until_unstaged()?;
    for zone in NAMES {
        scene.release(&format!("local-{zone}"))?;
    }
    Ok(volumes)
}

/// The claims that fill all nodes.
fn names() -> impl Iterator<Item = String> {
    (0..ROOM * NAMES.len()).map(|index| format!("local-{index}"))
}

/// No node is selected, and each node has capacity for so many.
fn contended(
    scene: &Scene<'_>,
    zones: &Zones<'_>,
    provisioners: &mut Everywhere,
) -> Result<Vec<Value>> {
    let names: Vec<_> = names().collect();
    let claims = names
        .iter()
        .map(|name| object::claim(name, scene.deployment.driver(), "1Mi"));
    scene.api.create_all(CLAIMS, &claims.collect::<Vec<_>>())?;
    let mut volumes = Vec::new();
    for name in &names {
        volumes.push(scene.until_bound(provisioners.one()?, name)?);
    }
    for zone in NAMES {
        let here = volumes.iter().filter(|it| zones.of(it).ok() == Some(zone));
        let here = here.count();
        ensure!(here == ROOM, "{here} of {ROOM} volumes in {zone}");
    }
    let full = scene.stored("/left_over/volumes")?;
    ensure!(full == json!(names.len()), "{full} volumes");
    for name in &names {
        scene.release(name)?;
    }
    Ok(volumes)
}
