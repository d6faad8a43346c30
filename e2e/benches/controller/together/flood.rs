//! The duration of an attach while the same process provisions a thousand claims, beside an attacher of its own amid
//! the same claims: both lose what the API server loses to the claims.

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
use crate::world::{Controllers, Driver, World};

/// Number of timed attachments, one every 50 ms.
const COUNT: usize = 100;
const EVERY: Duration = Duration::from_millis(50);

const CLAIMS_AT_ONCE: usize = 1_000;

const LIMIT: Duration = Duration::from_secs(180);

/// Number of rounds; in every other one the single programs go first.
const ROUNDS: usize = 4;

/// Durations of attachments, in ms.
#[derive(Default)]
struct Times {
    alone: Vec<f64>,
    amid: Vec<f64>,
}

struct Stage<'a> {
    world: &'a World,
    driver: &'a Driver,
    attached: Watch,
    bound: Watch,
    /// Turns so far.
    turns: usize,
}

pub(super) fn run(contenders: &[Contender]) -> Result<Vec<Figure>> {
    let world = World::with_snapshots(Controllers::Running)?;
    let driver = world.driver()?;
    side::equip(&driver)?;
    let load = &world.load;
    side::create_class_and_node(load)?;
    let handles = driver.volumes(ROUNDS * 4 * COUNT)?;
    bound::create_bound(load, &handles, Drivers::One)?;
    let mut stage = Stage {
        attached: Watch::open(load, ATTACHMENTS, is_attached)?,
        bound: Watch::open(load, CLAIMS, is_bound)?,
        world: &world,
        driver: &driver,
        turns: 0,
    };
    let singles = side::singles()?;
    let mut sides = [contenders, &singles].map(|programs| (programs, Times::default()));
    for _ in 0..ROUNDS {
        for (programs, times) in &mut sides {
            stage.turn(programs, times)?;
        }
        sides.reverse();
    }
    drop(stage);
    drop(driver);
    world.down()?;
    sides.sort_by_key(|(programs, _)| programs.len());
    let of = |times: fn(&Times) -> &[f64], share| -> Vec<f64> {
        let each = sides.iter();
        each.map(|(_, all)| quantile(times(all), share)).collect()
    };
    let most = Target::RatioAtMost(1.5);
    Ok(vec![
        Figure::new(
            "p99 of attachments amid 1,000 claims, ms",
            &of(|times| &times.amid, 0.99),
            most,
        ),
        Figure::new(
            "median of attachments amid 1,000 claims, ms",
            &of(|times| &times.amid, 0.5),
            Target::None,
        ),
        Figure::new(
            "p99 of attachments without claims, ms",
            &of(|times| &times.alone, 0.99),
            Target::None,
        ),
    ])
}

impl Stage<'_> {
    fn turn(&mut self, programs: &[Contender], times: &mut Times) -> Result<()> {
        let (world, load) = (self.world, &self.world.load);
        let mut side = Side::start(world, self.driver, programs)?;
        side.at_rest(LIMIT)?;
        let first = 2 * self.turns * COUNT;
        let prefix = format!("flood-{}-", self.turns);
        self.turns += 1;
        let before = self.attach(first)?;
        side.at_rest(LIMIT)?;
        let amid = thread::scope(|scope| {
            let flood = scope.spawn(|| {
                let names = (0..CLAIMS_AT_ONCE).map(|at| format!("{prefix}{at}"));
                load.create(CLAIMS, names.map(|name| bound::claim(&name)))
            });
            let took = self.attach(first + COUNT);
            let created = flood.join().ok().context("a thread panicked")?;
            created.and(took)
        })?;
        let during = self.bound.done(&prefix).len();
        let all_bound = self
            .bound
            .wait(LIMIT, CLAIMS_AT_ONCE, |watch| watch.done(&prefix).len())?;
        ensure!(all_bound, "not all claims are bound after {LIMIT:?}");
        side.at_rest(LIMIT)?;
        say(&format!(
            "{:>2} programs: attach p99 alone {:.1} ms, while {during} of {CLAIMS_AT_ONCE} claims were provisioned {:.1} ms",
            programs.len(),
            quantile(&before, 0.99),
            quantile(&amid, 0.99),
        ));
        times.alone.extend(before);
        times.amid.extend(amid);
        drop(side);
        world.free_leases()
    }

    /// Attaches volumes one after the other. Returns the times from the request to the status, in ms.
    fn attach(&self, first: usize) -> Result<Vec<f64>> {
        let prefix = format!("from-{first}-");
        let mut created = Vec::new();
        for at in first..first + COUNT {
            let name = format!("{prefix}{at}");
            let wanted = attachment(&name, &bound::name(at), NODE);
            created.push((name, Instant::now()));
            self.world.load.create(ATTACHMENTS, once(wanted))?;
            thread::sleep(EVERY);
        }
        let count = |watch: &Watch| watch.done(&prefix).len();
        let there = self.attached.wait(LIMIT, COUNT, count)?;
        ensure!(there, "not all volumes are attached after {LIMIT:?}");
        let done = self.attached.done(&prefix);
        let times = created.into_iter().filter_map(|(name, began)| {
            let done = done.get(&name)?;
            Some(done.saturating_duration_since(began).as_secs_f64() * 1e3)
        });
        Ok(times.collect())
    }
}
