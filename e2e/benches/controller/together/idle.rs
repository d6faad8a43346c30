//! Leaders of an empty cluster, and a standby beside one.

use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use e2e::suite::say;

use super::side::{self, Side};
use crate::contender::Contender;
use crate::figure::{Figure, Target};
use crate::usage::{Usage, at_rest};
use crate::world::{Controllers, Route, World};

/// Until the programs have returned the memory of their start.
const SETTLE: Duration = Duration::from_secs(20);

/// How long the benchmark observes idle programs.
const WATCHED: Duration = Duration::from_secs(120);

const SOON: Duration = Duration::from_secs(60);

pub(super) fn run(contenders: &[Contender]) -> Result<Vec<Figure>> {
    let world = World::with_snapshots(Controllers::Stopped)?;
    let driver = world.driver()?;
    side::equip(&driver)?;
    let (mut resident, mut anonymous, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
    let mut standby = Vec::new();
    let singles = side::singles()?;
    for all in [contenders, &singles] {
        let mut side = Side::start(&world, &driver, all)?;
        side.at_rest(SOON)?;
        sleep(SETTLE);
        let before = side.usage()?;
        sleep(WATCHED);
        side.must_run()?;
        let usage = side.usage()?;
        let seconds = usage.cpu - before.cpu;
        say(&format!(
            "{:>2} programs: {:.1} MB, anonymous {:.1} MB, {seconds:.2} CPU-s in {WATCHED:?}",
            all.len(),
            usage.resident / 1e6,
            usage.anonymous / 1e6
        ));
        resident.push(usage.resident / 1e6);
        anonymous.push(usage.anonymous / 1e6);
        cpu.push(seconds * 3600.0 / WATCHED.as_secs_f64());
        if let [together] = all {
            let mut second = world.start_elsewhere(together, &driver, Route::Direct)?;
            at_rest(&mut second, SOON)?;
            sleep(SETTLE);
            standby.push(Usage::of(&second)?.resident / 1e6);
        }
        drop(side);
        world.free_leases()?;
    }
    drop(driver);
    world.down()?;
    Ok(vec![
        Figure::new("RSS as idle leader, MB", &resident, Target::AtMost(12.0)),
        Figure::new("of it anonymous, MB", &anonymous, Target::AtMost(2.0)),
        Figure::new("RSS as standby, MB", &standby, Target::AtMost(11.0)),
        Figure::new("CPU-s an hour", &cpu, Target::RatioAtMost(0.5)),
    ])
}
