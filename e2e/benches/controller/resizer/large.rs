//! A large cluster: 50,000 claims with their PersistentVolumes.

use std::time::Instant;

use anyhow::Result;
use e2e::suite::say;

use super::objects;
use crate::bound::{self, Drivers};
use crate::contender::Contender;
use crate::figure::Figure;
use crate::memory::{self, Limits};
use crate::world::{Controllers, World};

const LIMITS: Limits = Limits {
    resident_mb: 40.0,
    // The provisioner's limit for as many claims and volumes.
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
    let count = (50_000.0 * memory::scale()?) as usize;
    let world = World::up(Controllers::Stopped)?;
    let start = Instant::now();
    objects::create_class(&world.load)?;
    // No call for these volumes ever reaches the driver.
    let handles: Vec<_> = (0..count).map(|index| format!("vol-{index:08x}")).collect();
    bound::create_bound(&world.load, &handles, drivers)?;
    say(&format!(
        "{count} PVs and claims written in {:.0} s",
        start.elapsed().as_secs_f64()
    ));
    let driver = world.driver()?;
    let all = memory::measure(&world, &driver, contenders)?;
    drop(driver);
    world.down()?;
    let what = format!("{count} PVs and claims{}", drivers.say());
    memory::figures(count, &what, &all, drivers.limits(LIMITS))
}
