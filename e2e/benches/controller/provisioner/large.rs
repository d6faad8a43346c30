//! A large cluster: 50,000 PersistentVolumes with their claims, 5,000 nodes in three zones.

use std::time::Instant;

use anyhow::Result;
use e2e::suite::say;
use serde_json::json;

use super::objects::{self, CLASSES, CSI_NODES, NODES};
use crate::bound::{self, CLAIMS, Drivers, VOLUMES};
use crate::contender::Contender;
use crate::figure::Figure;
use crate::memory::{self, Limits};
use crate::world::{Controllers, World};

const LIMITS: Limits = Limits {
    resident_mb: 60.0,
    cpu_seconds: 6.5,
};

pub(super) fn run(contenders: &[Contender]) -> Result<Vec<Figure>> {
    run_with(contenders, Drivers::One)
}

/// Measures the same cluster with volumes of five drivers.
pub(super) fn shared(contenders: &[Contender]) -> Result<Vec<Figure>> {
    run_with(contenders, Drivers::Five)
}

fn run_with(contenders: &[Contender], drivers: Drivers) -> Result<Vec<Figure>> {
    let scale = memory::scale()?;
    let count = |full: f64| (full * scale) as usize;
    let (volumes, nodes) = (count(50_000.0), count(5_000.0));
    let world = World::up(Controllers::Stopped)?;
    fill(&world, drivers, volumes, nodes)?;
    let driver = world.driver()?;
    let places = json!({"capabilities": {"plugin": ["CONTROLLER_SERVICE", "VOLUME_ACCESSIBILITY_CONSTRAINTS"]}});
    driver.control.set(&places)?;
    let all = memory::measure(&world, &driver, contenders)?;
    drop(driver);
    world.down()?;
    let what = format!("{volumes} PVs and claims{}, {nodes} nodes", drivers.say());
    memory::figures(volumes, &what, &all, drivers.limits(LIMITS))
}

pub(crate) fn fill(world: &World, drivers: Drivers, volumes: usize, nodes: usize) -> Result<()> {
    let start = Instant::now();
    let load = &world.load;
    load.create(CLASSES, std::iter::once(objects::class()))?;
    let volume = |index: usize| format!("pvc-{index:08x}-6f0e-4a63-9f9e-0d8a3c3c0001");
    let claim = |index: usize| format!("data-database-{index}");
    let uid = "6d9b1f1c-6f0e-4a63-9f9e-0d8a3c3c0001";
    load.create(
        VOLUMES,
        (0..volumes).map(|index| {
            let name = volume(index);
            let object = bound::volume(&name, &format!("vol-{name}"), &claim(index), uid);
            drivers.share(index, object)
        }),
    )?;
    load.create(
        CLAIMS,
        (0..volumes).map(|index| {
            let object = bound::bound_claim(&claim(index), &volume(index));
            drivers.share(index, object)
        }),
    )?;
    let node = |index: usize| format!("ip-10-{}-{}-0.ec2.internal", index / 250, index % 250);
    load.create(
        NODES,
        (0..nodes).map(|index| objects::node(&node(index), index)),
    )?;
    load.create(
        CSI_NODES,
        (0..nodes).map(|index| objects::csi_node(&node(index))),
    )?;
    say(&format!(
        "{volumes} PVs and claims and {nodes} nodes written in {:.0} s",
        start.elapsed().as_secs_f64()
    ));
    Ok(())
}
