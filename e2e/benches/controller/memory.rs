//! Memory and processor time in a large cluster, and after ten relists.
//!
//! The program runs as leader behind the fault proxy, which ends each of its watches with 410 after a while:
//! the program lists everything again, ten times.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::interrupt;
use e2e::process::Process;
use e2e::proxy::FaultProxy;
use e2e::suite::say;
use serde_json::{Value, json};

use crate::contender::Contender;
use crate::figure::{Figure, Target};
use crate::usage::{Usage, at_rest};
use crate::world::{Driver, Route, World};

const RELISTS: u64 = 10;

const LIMIT: Duration = Duration::from_secs(180);

/// The first list must be received and processed before the first relist.
const FIRST_WATCH: Duration = Duration::from_secs(60);

/// The fraction of the full size to measure, from `SCALE`.
pub(crate) fn scale() -> Result<f64> {
    Ok(std::env::var("SCALE").map_or(Ok(1.0), |scale| scale.parse())?)
}

/// Whether to measure ten relists, which take as long as everything else together; `RELISTS=0` skips them.
pub(crate) fn has_relists() -> bool {
    std::env::var("RELISTS").as_deref() != Ok("0")
}

/// Name of the figure with the number of objects of the most frequent kind.
pub(crate) const OBJECTS: &str = "volumes or snapshots";

/// Limits for a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) resident_mb: f64,
    pub(crate) cpu_seconds: f64,
}

/// Measurements of one program.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    filled: f64,
    anonymous: f64,
    cpu: f64,
    seconds: f64,
    peak: f64,
    relisted: Vec<f64>,
    relists_peak: f64,
    relists_cpu: f64,
}

/// The figures of all programs; `what` describes the cluster, `objects` is the number of objects of the most
/// frequent kind.
pub(crate) fn figures(
    objects: usize,
    what: &str,
    all: &[Measured],
    limits: Limits,
) -> Result<Vec<Figure>> {
    let of = |value: fn(&Measured) -> f64| all.iter().map(value).collect::<Vec<_>>();
    let full_size = scale()? == 1.0;
    let at_most = |most: f64| {
        if full_size {
            Target::AtMost(most)
        } else {
            Target::None
        }
    };
    let rss = of(|one| one.filled / 1e6);
    let mut figures = vec![
        Figure::new(OBJECTS, &vec![objects as f64; all.len()], Target::None),
        Figure::new(
            format!("RSS with {what}, MB"),
            &rss,
            at_most(limits.resident_mb),
        ),
        Figure::new(
            "of it anonymous, MB",
            &of(|one| one.anonymous / 1e6),
            Target::None,
        ),
        Figure::new(
            "peak RSS until then, MB",
            &of(|one| one.peak / 1e6),
            Target::None,
        ),
        Figure::new(
            "CPU-s until caches are full",
            &of(|one| one.cpu),
            at_most(limits.cpu_seconds),
        ),
        Figure::new(
            "seconds until caches are full",
            &of(|one| one.seconds),
            Target::None,
        ),
    ];
    if has_relists() {
        figures.extend(relisted(all));
    }
    Ok(figures)
}

fn relisted(all: &[Measured]) -> [Figure; 3] {
    let of = |value: fn(&Measured) -> f64| all.iter().map(value).collect::<Vec<_>>();
    let last = |one: &Measured| one.relisted.last().copied().unwrap_or(f64::NAN);
    let growth: Vec<f64> = all.iter().map(|one| last(one) / one.filled).collect();
    let excess = of(|one| one.relists_peak / one.filled);
    let per_relist = of(|one| one.relists_cpu / RELISTS as f64);
    [
        Figure::new(
            "RSS after ten relists / before",
            &growth,
            Target::AtMost(1.05),
        ),
        Figure::new(
            "peak RSS during ten relists / before",
            &excess,
            Target::AtMost(1.15),
        ),
        Figure::new("CPU-s per relist", &per_relist, Target::None),
    ]
}

/// Rules that end watches with 410 after this time, and count those of `watched`.
fn gone_after(time: Duration, watched: &str) -> [Value; 2] {
    let ms = time.as_millis() as u64;
    // One rule per kind, so that relists of `watched` can be counted.
    [
        json!({"name": "counted", "uri": watched, "action": "gone", "afterMs": ms}),
        json!({"action": "gone", "afterMs": ms}),
    ]
}

/// Runs each program until its caches are full, and through ten relists; volumes are the most frequent kind.
pub(crate) fn measure(
    world: &World,
    driver: &Driver,
    contenders: &[Contender],
) -> Result<Vec<Measured>> {
    measure_with(world, Some(driver), "/persistentvolumes", contenders)
}

/// Measures a program that may need no driver; `watched` is the path of the most frequent kind.
pub(crate) fn measure_with(
    world: &World,
    driver: Option<&Driver>,
    watched: &str,
    contenders: &[Contender],
) -> Result<Vec<Measured>> {
    let each = contenders.iter();
    each.map(|contender| measure_one(world, driver, watched, contender))
        .collect()
}

fn measure_one(
    world: &World,
    driver: Option<&Driver>,
    watched: &str,
    contender: &Contender,
) -> Result<Measured> {
    let proxy = FaultProxy::of(&world.cluster)?;
    proxy.replace(&gone_after(FIRST_WATCH, watched))?;
    let start = Instant::now();
    let mut flags = vec!["--leader-election=true"];
    flags.extend(driver.map(|_| "--timeout=60s"));
    let mut process = world.start(contender, driver, Route::Proxy, &flags)?;
    let (full, busy) = at_rest(&mut process, LIMIT)?;
    ensure!(
        start.elapsed() < FIRST_WATCH,
        "the machine is too busy: filling the caches took {:?}",
        start.elapsed()
    );
    let mut measured = Measured {
        filled: full.resident,
        anonymous: full.anonymous,
        cpu: full.cpu,
        seconds: busy.as_secs_f64(),
        peak: full.peak,
        ..Measured::default()
    };
    say(&format!(
        "{:>5}: full after {:.1} s with {:.2} CPU-s: {:.1} MB, anonymous {:.1} MB, peak {:.1} MB",
        contender.name,
        measured.seconds,
        full.cpu,
        full.resident / 1e6,
        full.anonymous / 1e6,
        full.peak / 1e6,
    ));
    if has_relists() {
        relists(&proxy, watched, &mut process, &mut measured)?;
    }
    drop(process);
    world.free_leases()?;
    if !has_relists() {
        return Ok(measured);
    }
    let each = measured.relisted.iter();
    say(&format!(
        "{:>5}: after relists {} MB; {:.2} CPU-s each, peak {:.1} MB",
        contender.name,
        each.map(|rss| format!("{:.1}", rss / 1e6))
            .collect::<Vec<_>>()
            .join(" "),
        measured.relists_cpu / RELISTS as f64,
        measured.relists_peak / 1e6,
    ));
    Ok(measured)
}

/// Waits for ten relists and records the memory after each.
fn relists(
    proxy: &FaultProxy,
    watched: &str,
    process: &mut Process,
    measured: &mut Measured,
) -> Result<()> {
    let before = Usage::of(process)?.cpu;
    // From now on at an interval that fits a relist and a rest.
    let every = Duration::from_secs_f64(measured.seconds * 1.5 + 5.0);
    proxy.replace(&gone_after(every, watched))?;
    let start = Instant::now();
    let mut relist = 0;
    // Where the program is also busy with other watches, not every rise of processor time is a relist.
    while relist < RELISTS || proxy.hits("counted")? < RELISTS - 1 {
        // The first watches were opened under the earlier rules, and end without being counted.
        let cpu = Usage::of(process)?.cpu;
        while Usage::of(process)?.cpu - cpu < measured.cpu / 10.0 {
            process.must_run()?;
            ensure!(start.elapsed() < LIMIT * 5, "relist {relist} did not begin");
            sample(process, measured)?;
        }
        let mut last = Usage::of(process)?.cpu;
        let mut since = Instant::now();
        while since.elapsed() < Duration::from_millis(1500) {
            let now = sample(process, measured)?;
            if now.cpu - last > 0.02 {
                (last, since) = (now.cpu, Instant::now());
            }
        }
        measured.relisted.push(Usage::of(process)?.resident);
        relist += 1;
    }
    measured.relists_cpu = Usage::of(process)?.cpu - before;
    Ok(())
}

fn sample(process: &Process, measured: &mut Measured) -> Result<Usage> {
    interrupt::check()?;
    sleep(Duration::from_millis(50));
    let usage = Usage::of(process)?;
    measured.relists_peak = measured.relists_peak.max(usage.resident);
    Ok(usage)
}
