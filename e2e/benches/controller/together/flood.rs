//! How long an attachment takes while a thousand claims are provisioned by the same process, beside a program of its own
//! amid the same claims: what the API server loses to them, both lose.

use std::iter::once;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::suite::say;

use super::side::{self, NODE, Side};
use crate::attacher::objects::{ATTACHMENTS, attachment, is_attached};
use crate::bound::{self, CLAIMS, Drivers};
use crate::contender::Contender;
use crate::figure::{Figure, Target, quantile};
use crate::provisioner::objects::is_bound;
use crate::watch::Watch;
use crate::world::{Controllers, World};

/// Attachments that are timed, one every 50 ms.
const COUNT: usize = 100;
const EVERY: Duration = Duration::from_millis(50);

const CLAIMS_AT_ONCE: usize = 1_000;

const LIMIT: Duration = Duration::from_secs(180);

pub(super) fn run(contenders: &[Contender]) -> Result<Vec<Figure>> {
    let world = World::with_snapshots(Controllers::Running)?;
    let driver = world.driver()?;
    side::equip(&driver)?;
    let load = &world.load;
    side::create_class_and_node(load)?;
    let handles = driver.volumes(4 * COUNT)?;
    bound::create_bound(load, &handles, Drivers::One)?;
    let attached = Watch::open(load, ATTACHMENTS, is_attached)?;
    let bound = Watch::open(load, CLAIMS, is_bound)?;
    let (mut alone, mut flooded) = (Vec::new(), Vec::new());
    let singles = side::singles()?;
    for (round, all) in [contenders, &singles].into_iter().enumerate() {
        let mut side = Side::start(&world, &driver, all)?;
        side.at_rest(LIMIT)?;
        let first = 2 * round * COUNT;
        let before = attach(&world, &attached, first)?;
        side.at_rest(LIMIT)?;
        let prefix = format!("flood-{round}-");
        let amid = thread::scope(|scope| {
            let flood = scope.spawn(|| {
                let names = (0..CLAIMS_AT_ONCE).map(|at| format!("{prefix}{at}"));
                load.create(CLAIMS, names.map(|name| bound::claim(&name)))
            });
            let took = attach(&world, &attached, first + COUNT);
            let created = flood.join().ok().context("a thread panicked")?;
            created.and(took)
        })?;
        let during = bound.done(&prefix).len();
        let all_bound = bound.wait(LIMIT, CLAIMS_AT_ONCE, |watch| watch.done(&prefix).len())?;
        ensure!(all_bound, "not all claims are bound after {LIMIT:?}");
        side.at_rest(LIMIT)?;
        say(&format!(
            "{:>2} programs: attach p99 alone {before:.1} ms, while {during} of {CLAIMS_AT_ONCE} claims were provisioned {amid:.1} ms",
            all.len()
        ));
        alone.push(before);
        flooded.push(amid);
        drop(side);
        world.free_leases()?;
    }
    drop((attached, bound, driver));
    world.down()?;
    let most = Target::RatioAtMost(1.5);
    Ok(vec![
        Figure::new("p99 of attachments amid 1,000 claims, ms", &flooded, most),
        Figure::new(
            "p99 of attachments without claims, ms",
            &alone,
            Target::None,
        ),
    ])
}

/// Attaches volumes one after the other; the p99 from the request to the status, in ms.
fn attach(world: &World, attached: &Watch, first: usize) -> Result<f64> {
    let prefix = format!("from-{first}-");
    let mut created = Vec::new();
    for at in first..first + COUNT {
        let name = format!("{prefix}{at}");
        let wanted = attachment(&name, &bound::name(at), NODE);
        created.push((name, Instant::now()));
        world.load.create(ATTACHMENTS, once(wanted))?;
        thread::sleep(EVERY);
    }
    let there = attached.wait(LIMIT, COUNT, |watch| watch.done(&prefix).len())?;
    ensure!(there, "not all volumes are attached after {LIMIT:?}");
    let done = attached.done(&prefix);
    let times = created.into_iter().filter_map(|(name, began)| {
        let done = done.get(&name)?;
        Some(done.saturating_duration_since(began).as_secs_f64() * 1e3)
    });
    Ok(quantile(&times.collect::<Vec<_>>(), 0.99))
}
