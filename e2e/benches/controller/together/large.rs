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
use crate::usage::Usage;
use crate::world::{Controllers, Driver, World};

const LIMIT: Duration = Duration::from_secs(180);

/// Limits of one process for memory; its processor time is judged against the sum.
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
    let (singles, upstreams) = (side::singles()?, side::upstreams()?);
    let sides = [Some(contenders), Some(&singles), upstreams.as_deref()];
    // Upstream's livenessprobe is never idle if it is probed as often as ours.
    for (all, every) in sides.into_iter().zip([EVERY, EVERY, SELDOM]) {
        let Some(all) = all else { continue };
        filled.push(fill_caches(&world, &driver, all, every)?);
        world.free_leases()?;
    }
    let relisted = if memory::has_relists() {
        memory::measure(&world, &driver, contenders)?
    } else {
        Vec::new()
    };
    drop(driver);
    world.down()?;
    let what = format!("{volumes} PVs and claims, {nodes} nodes");
    let of = |value: fn(&Filled) -> f64| filled.iter().map(value).collect::<Vec<_>>();
    let mut figures = vec![
        Figure::new(
            memory::OBJECTS,
            &vec![volumes as f64; filled.len()],
            Target::None,
        ),
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
    figures.extend(of_each(&what, &filled));
    if !relisted.is_empty() {
        let mut of_one = memory::figures(volumes, &what, &relisted, LIMITS)?;
        of_one.retain(|it| it.what != memory::OBJECTS);
        figures.extend(of_one);
    }
    Ok(figures)
}

/// Usage of programs whose caches are full.
struct Filled {
    resident_mb: f64,
    cpu: f64,
    read_mb: f64,
    seconds: f64,
    health_ms: f64,
    each: Vec<(&'static str, Usage)>,
}

/// Memory and processor time of each single program; the one process has no such parts.
fn of_each(what: &str, filled: &[Filled]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let names = { filled.get(1) }.into_iter().flat_map(|it| &it.each);
    for (name, _) in names {
        let of = |value: fn(&Usage) -> f64| -> Vec<f64> {
            let usage = |it: &Filled| it.each.iter().find(|(of, _)| of == name).map(|it| it.1);
            let each = filled.iter();
            each.map(|it| usage(it).map_or(f64::NAN, |usage| value(&usage)))
                .collect()
        };
        figures.push(Figure::new(
            format!("{name}: RSS with {what}, MB"),
            &of(|it| it.resident / 1e6),
            Target::None,
        ));
        figures.push(Figure::new(
            format!("{name}: CPU-s until caches are full"),
            &of(|it| it.cpu),
            Target::None,
        ));
    }
    figures
}

fn fill_caches(
    world: &World,
    driver: &Driver,
    all: &[Contender],
    every: Duration,
) -> Result<Filled> {
    let mut side = Side::start(world, driver, all)?;
    let address = side.health.clone();
    let is_full = AtomicBool::new(false);
    let (busy, times) = thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&address, every, &is_full));
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
        each: side.each()?,
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

/// Interval of the probes, such that the program counts as idle in between.
const EVERY: Duration = Duration::from_millis(100);
const SELDOM: Duration = Duration::from_secs(1);

/// Probes the driver's health until `is_full`. Returns how long each answer took, in ms. Skips probes while the program
/// does not listen yet.
fn ask(address: &str, every: Duration, is_full: &AtomicBool) -> Vec<f64> {
    let mut times = Vec::new();
    while !is_full.load(Ordering::Relaxed) {
        let began = Instant::now();
        if http_get(address, "/healthz").is_ok() {
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
        thread::sleep(every);
    }
    times
}
