//! A large cluster: 50,000 PersistentVolumes, 5,000 CSINodes, 2,000 attached VolumeAttachments.

use std::time::Instant;

use anyhow::Result;
use e2e::suite::say;
use serde_json::json;

use super::objects::{self, ATTACHMENTS, NODES};
use crate::bound::{Drivers, VOLUMES};
use crate::contender::Contender;
use crate::figure::Figure;
use crate::memory::{self, Limits};
use crate::world::{Controllers, World};

const LIMITS: Limits = Limits {
    resident_mb: 40.0,
    cpu_seconds: 3.7,
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
    let (volumes, nodes, attached) = (count(50_000.0), count(5_000.0), count(2_000.0));
    let world = World::up(Controllers::Stopped)?;
    fill(&world, drivers, volumes, nodes, attached)?;
    let driver = world.driver()?;
    let all = memory::measure(&world, &driver, contenders)?;
    drop(driver);
    world.down()?;
    let what = format!("{volumes} PVs{} and {nodes} CSINodes", drivers.say());
    memory::figures(volumes, &what, &all, drivers.limits(LIMITS))
}

fn fill(
    world: &World,
    drivers: Drivers,
    volumes: usize,
    nodes: usize,
    attached: usize,
) -> Result<()> {
    let start = Instant::now();
    let load = &world.load;
    load.create(
        VOLUMES,
        (0..volumes).map(|index| {
            let object = objects::volume(&volume(index), &format!("vol-{index:08x}"));
            drivers.share(index, object)
        }),
    )?;
    let nodes_at = start.elapsed();
    load.create(NODES, (0..nodes).map(|index| objects::node(&node(index))))?;
    let names = || (0..attached).map(|index| format!("csi-{index:064x}"));
    let node_of = |index: usize| node(index % nodes.max(1));
    let attachments = names().enumerate().map(|(index, name)| {
        let object = objects::attached(&name, &volume(index), &node_of(index));
        drivers.share(index, object)
    });
    load.create(ATTACHMENTS, attachments)?;
    let status = json!({"status": {"attached": true}});
    let path = |name: String| format!("{ATTACHMENTS}/{name}/status");
    load.merge(names().map(|name| (path(name), status.clone())))?;
    say(&format!(
        "{volumes} PVs written in {:.0} s, {nodes} CSINodes and {attached} VolumeAttachments in {:.0} s",
        nodes_at.as_secs_f64(),
        (start.elapsed() - nodes_at).as_secs_f64()
    ));
    Ok(())
}

fn volume(index: usize) -> String {
    format!("pvc-{index:08x}-6f0e-4a63-9f9e-0d8a3c3c0001")
}

fn node(index: usize) -> String {
    format!("ip-10-{}-{}-0.ec2.internal", index / 250, index % 250)
}
