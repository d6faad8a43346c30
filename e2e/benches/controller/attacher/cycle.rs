//! The cost of attaching and detaching: many VolumeAttachments created and deleted, a driver that
//! answers at once, enough workers, no rate limit.
//!
//! Our program and the other one take turns, each time in a new process that has warmed up. The
//! volumes have the attacher's finalizer already, as in all but the first attach of a volume.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::process::Process;
use e2e::suite::say;

use super::objects::{self, ATTACHMENTS, NODES};
use crate::bound::VOLUMES;
use crate::contender::Contender;
use crate::figure::{Figure, Target, median};
use crate::usage::{Usage, at_rest};
use crate::watch::Watch;
use crate::world::{Controllers, Driver, Route, World};

const CYCLES: usize = 500;
const WARM_UP: usize = 50;
const ROUNDS: usize = 3;
const NODE_COUNT: usize = 50;
const LIMIT: Duration = Duration::from_secs(120);

/// One round of one program.
struct Round {
    /// CPU milliseconds for one attach and detach.
    cpu: f64,
    attach: f64,
    detach: f64,
    requests: f64,
}

pub(super) fn run(contenders: &[Contender]) -> Result<Vec<Figure>> {
    let world = World::up(Controllers::Stopped)?;
    let driver = world.driver()?;
    let handles = driver.volumes(CYCLES)?;
    let numbered = handles.iter().enumerate();
    let volumes = numbered.map(|(index, handle)| objects::volume(&name(index), handle));
    world.load.create(VOLUMES, volumes)?;
    let nodes = (0..NODE_COUNT).map(|index| objects::node(&format!("node-{index}")));
    world.load.create(NODES, nodes)?;
    let watch = Watch::open(&world.load, ATTACHMENTS, objects::is_attached)?;
    let mut rounds: Vec<Vec<Round>> = contenders.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for (contender, rounds) in contenders.iter().zip(&mut rounds) {
            rounds.push(round(&world, &driver, &watch, contender)?);
        }
    }
    drop((watch, driver));
    world.down()?;
    let of = |value: fn(&Round) -> f64| -> Vec<f64> {
        let each = rounds.iter();
        each.map(|rounds| median(&rounds.iter().map(value).collect::<Vec<_>>()))
            .collect()
    };
    let (cpu, third) = (of(|round| round.cpu), Target::RatioAtMost(1.0 / 3.0));
    let (attach, detach) = (of(|round| round.attach), of(|round| round.detach));
    let requests = of(|round| round.requests);
    Ok(vec![
        Figure::new("CPU per attach and detach, ms", &cpu, third),
        Figure::new(format!("{CYCLES} attaches, s"), &attach, Target::None),
        Figure::new(format!("{CYCLES} detaches, s"), &detach, Target::None),
        Figure::new("requests per attach and detach", &requests, Target::None),
    ])
}

fn name(index: usize) -> String {
    format!("pv-{index}")
}

fn round(world: &World, driver: &Driver, watch: &Watch, contender: &Contender) -> Result<Round> {
    let mut flags = vec!["--worker-threads=100", "--timeout=60s"];
    // `CYCLE_FLAGS` replaces the usual flags, to try other rate limits.
    let own = std::env::var("CYCLE_FLAGS").unwrap_or(crate::world::UNLIMITED.join(" "));
    flags.extend(own.split_whitespace());
    let mut process = world.start(contender, driver, Route::Direct, &flags)?;
    at_rest(&mut process, LIMIT)?;
    cycle(world, watch, &process, WARM_UP)?;
    let mut audit = world.audit(contender)?;
    let before = Usage::of(&process)?;
    let (attach, detach) = cycle(world, watch, &process, CYCLES)?;
    let (after, _) = at_rest(&mut process, LIMIT)?;
    let kinds = audit.phase()?;
    let requests = kinds.count(|kind| kind.resource != "leases") as f64;
    let cpu = (after.cpu - before.cpu) * 1e3 / CYCLES as f64;
    say(&format!(
        "{:>5}: {cpu:.2} ms CPU per cycle, attach {attach:.2} s, detach {detach:.2} s, peak {:.1} MB; {kinds}",
        contender.name,
        after.peak / 1e6,
    ));
    Ok(Round {
        cpu,
        attach,
        detach,
        requests: requests / CYCLES as f64,
    })
}

/// Attaches and detaches `count` volumes. Returns the seconds of each.
fn cycle(world: &World, watch: &Watch, process: &Process, count: usize) -> Result<(f64, f64)> {
    watch.clear();
    let names = || (0..count).map(|index| format!("csi-{index}"));
    let wanted = names().enumerate().map(|(index, attachment)| {
        objects::attachment(
            &attachment,
            &name(index),
            &format!("node-{}", index % NODE_COUNT),
        )
    });
    let start = Instant::now();
    world.load.create(ATTACHMENTS, wanted)?;
    let done = watch.wait(LIMIT, count, |watch| watch.done("").len())?;
    ensure!(done, "not attached within {LIMIT:?}\n{}", process.tail());
    let attach = last(watch.done("").into_values(), start)?;
    let start = Instant::now();
    let paths = names().map(|name| format!("{ATTACHMENTS}/{name}"));
    world.load.delete(paths)?;
    let gone = watch.wait(LIMIT, count, |watch| watch.gone("").len())?;
    ensure!(gone, "not detached within {LIMIT:?}\n{}", process.tail());
    Ok((attach, last(watch.gone("").into_values(), start)?))
}

fn last(times: impl Iterator<Item = Instant>, start: Instant) -> Result<f64> {
    let last = times.max().context("nothing happened")?;
    Ok((last - start).as_secs_f64())
}
