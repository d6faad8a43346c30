//! Restart after SIGKILL: the time until each controller has called the driver again, in a cluster of 10,000
//! volumes.

use std::time::Duration;

use anyhow::{Context, Result};
use csi_test_driver::clock;
use e2e::calls::Calls;
use e2e::suite::say;
use e2e::{object, wait};
use serde_json::json;

use super::side::{self, NODE, Side};
use crate::attacher::objects::{ATTACHMENTS, attachment};
use crate::bound::{self, CLAIMS, Drivers, name};
use crate::contender::Contender;
use crate::figure::{Figure, Target};
use crate::resizer::objects::wish;
use crate::snapshotter::objects::{self as snapshots, CONTENTS, content};
use crate::world::{Controllers, DRIVER, Driver, World};

const VOLUMES: usize = 10_000;

const LIMIT: Duration = Duration::from_secs(120);

/// The first call of each controller.
const FIRST: [&str; 4] = [
    "CreateVolume",
    "ControllerPublishVolume",
    "ControllerExpandVolume",
    "CreateSnapshot",
];

pub(super) fn run(contenders: &[Contender]) -> Result<Vec<Figure>> {
    let world = World::with_snapshots(Controllers::Stopped)?;
    let driver = world.driver()?;
    side::equip(&driver)?;
    side::create_class_and_node(&world.load)?;
    snapshots::create_class(&world.load)?;
    let handles = driver.volumes(VOLUMES)?;
    bound::create_bound(&world.load, &handles, Drivers::One)?;
    let mut seconds = Vec::new();
    let singles = side::singles()?;
    for (round, all) in [contenders, &singles].into_iter().enumerate() {
        let mut side = Side::start(&world, &driver, all)?;
        side.at_rest(LIMIT)?;
        // Dropping it sends SIGKILL.
        drop(side);
        let handle = handles.get(round).context("a volume")?;
        work_for_each(&world, round, handle)?;
        let killed = clock::now();
        let mut side = Side::start(&world, &driver, all)?;
        let back = wait::until(LIMIT, "each controller has called the driver", || {
            side.must_run()?;
            last_of_first_calls(&driver, killed)
        })?;
        say(&format!("{:>2} programs: {back:?}", all.len()));
        seconds.push(back.as_secs_f64());
        side.at_rest(LIMIT)?;
        drop(side);
        world.free_leases()?;
    }
    drop(driver);
    world.down()?;
    let what = format!("seconds from SIGKILL to the first call of each, {VOLUMES} volumes");
    Ok(vec![Figure::new(what, &seconds, Target::AtMost(3.0))])
}

/// Work for each controller: a claim, an attachment, a larger claim and a snapshot.
fn work_for_each(world: &World, round: usize, handle: &str) -> Result<()> {
    let (load, volume) = (&world.load, name(round));
    let new = format!("new-{round}");
    // The claim as the volume controller leaves it, which does not run here.
    let asked = json!({ "metadata": { "annotations": {
        "volume.kubernetes.io/storage-provisioner": DRIVER,
    } } });
    let claim = object::with(bound::claim(&new), &asked);
    load.create(CLAIMS, std::iter::once(claim))?;
    let attachment = attachment(&new, &volume, NODE);
    load.create(ATTACHMENTS, std::iter::once(attachment))?;
    load.merge(std::iter::once((format!("{CLAIMS}/{volume}"), wish("2Mi"))))?;
    let uid = format!("6d9b1f1c-6f0e-4a63-9f9e-0d8a3c3c000{round}");
    load.create(CONTENTS, std::iter::once(content(&new, &uid, handle)))?;
    Ok(())
}

/// Time from `killed` to the first call of the last controller.
fn last_of_first_calls(driver: &Driver, killed: u64) -> Result<Option<Duration>> {
    let calls = Calls::read(&driver.record)?;
    let mut last = 0;
    for method in FIRST {
        let after = calls
            .iter()
            .filter(|call| call.method == method && call.start_ns > killed);
        let Some(first) = after.map(|call| call.start_ns).min() else {
            return Ok(None);
        };
        last = last.max(first);
    }
    Ok(Some(Duration::from_nanos(last - killed)))
}
