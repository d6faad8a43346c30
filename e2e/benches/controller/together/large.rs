//! A large cluster: 50,000 PersistentVolumes with their claims, 5,000 nodes in three zones.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::node::http_get;
use e2e::suite::say;

use super::side::{self, Side};
use crate::bound::Drivers;
use crate::contender::Contender;
use crate::figure::{Figure, Target, quantile};
use crate::memory::{self, Limits};
use crate::provisioner::large::fill;
use crate::world::{Controllers, Driver, World};

const LIMIT: Duration = Duration::from_secs(180);

/// Memory of one process; its processor time is judged beside the sum.
const LIMITS: Limits = Limits {
    resident_mb: 60.0,
    cpu_seconds: f64::INFINITY,
};

pub(super) fn run(contenders: &[Contender]) -> Result<Vec<Figure>> {
    let scale = memory::scale()?;
    let count = |full: f64| (full * scale) as usize;
    let (volumes, nodes) = (count(50_000.0), count(5_000.0));
    let world = World::with_snapshots(Controllers::Stopped)?;
    fill(&world, Drivers::One, volumes, nodes)?;
    let driver = world.driver()?;
    side::equip(&driver)?;
    let mut filled = Vec::new();
    for all in [contenders, &side::singles()?] {
        filled.push(fill_caches(&world, &driver, all)?);
        world.free_leases()?;
    }
    let relisted = memory::measure(&world, &driver, contenders)?;
    drop(driver);
    world.down()?;
    let what = format!("{volumes} PVs and claims, {nodes} nodes");
    let of = |value: fn(&Filled) -> f64| filled.iter().map(value).collect::<Vec<_>>();
    let mut figures = vec![
        Figure::new(
            format!("RSS with {what}, beside the sum, MB"),
            &of(|it| it.resident_mb),
            Target::None,
        ),
        Figure::new(
            "CPU-s until caches are full, beside the sum",
            &of(|it| it.cpu),
            Target::RatioAtMost(2.0 / 3.0),
        ),
        Figure::new(
            "MB from the API server until then",
            &of(|it| it.read_mb),
            Target::RatioAtMost(0.45),
        ),
        Figure::new(
            "seconds until then, beside the slowest",
            &of(|it| it.seconds),
            Target::None,
        ),
        Figure::new(
            "/healthz meanwhile, p99, ms",
            &of(|it| it.health_ms),
            Target::AtMost(100.0),
        ),
    ];
    figures.extend(memory::figures(volumes, &what, &relisted, LIMITS)?);
    Ok(figures)
}

/// Programs whose caches are full.
struct Filled {
    resident_mb: f64,
    cpu: f64,
    read_mb: f64,
    seconds: f64,
    health_ms: f64,
}

fn fill_caches(world: &World, driver: &Driver, all: &[Contender]) -> Result<Filled> {
    let mut side = Side::start(world, driver, all)?;
    let address = side.health.clone();
    let is_full = AtomicBool::new(false);
    let (busy, times) = thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&address, &is_full));
        let busy = side.at_rest(LIMIT);
        is_full.store(true, Ordering::Relaxed);
        (busy, asked.join())
    });
    let seconds = busy?.as_secs_f64();
    let times = times.ok().context("a thread panicked")?;
    ensure!(!times.is_empty(), "no answer about the driver's health");
    let usage = side.usage()?;
    let filled = Filled {
        resident_mb: usage.resident / 1e6,
        cpu: usage.cpu,
        read_mb: side.bytes() as f64 / 1e6,
        seconds,
        health_ms: quantile(&times, 0.99),
    };
    say(&format!(
        "{:>2} programs: full after {seconds:.1} s with {:.2} CPU-s and {:.1} MB read: {:.1} MB; /healthz {} times, p99 {:.1} ms",
        all.len(),
        filled.cpu,
        filled.read_mb,
        filled.resident_mb,
        times.len(),
        filled.health_ms,
    ));
    Ok(filled)
}

/// How often: so that the program counts as at rest in between.
const EVERY: Duration = Duration::from_millis(100);

/// Asks for the driver's health until all is read; how long each answer took, in ms. Who does not listen yet is not asked.
fn ask(address: &str, is_full: &AtomicBool) -> Vec<f64> {
    let mut times = Vec::new();
    while !is_full.load(Ordering::Relaxed) {
        let began = Instant::now();
        if http_get(address, "/healthz").is_ok() {
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
        thread::sleep(EVERY);
    }
    times
}
