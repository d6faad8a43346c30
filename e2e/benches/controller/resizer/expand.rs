//! The cost of expansions: 500 claims grow at once, a driver that answers at once and needs no
//! node, 100 workers, no rate limit. Our program and the other one take turns.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::suite::say;

use super::objects;
use crate::bound::{self, CLAIMS, Drivers};
use crate::contender::Contender;
use crate::figure::{Figure, Target, median};
use crate::told;
use crate::usage::{Usage, at_rest};
use crate::watch::Watch;
use crate::world::{Controllers, Driver, Route, World};

const COUNT: usize = 500;
const WARM_UP: usize = 50;
const ROUNDS: usize = 3;
const LIMIT: Duration = Duration::from_secs(180);

/// One round of one program.
#[derive(Debug, Default)]
struct Round {
    cpu: f64,
    took: f64,
    writes: f64,
    reads: f64,
    /// Claims without an event of their success once the program is idle.
    untold: f64,
    peak: f64,
}

struct Stage<'a> {
    world: &'a World,
    driver: Driver,
    claims: Watch,
    /// Requested size of all claims, in Mi.
    size: usize,
}

pub(super) fn run(contenders: &[Contender]) -> Result<Vec<Figure>> {
    let world = World::up(Controllers::Stopped)?;
    let driver = world.driver()?;
    objects::create_class(&world.load)?;
    bound::create_bound(&world.load, &driver.volumes(COUNT)?, Drivers::One)?;
    let mut stage = Stage {
        claims: Watch::open(&world.load, CLAIMS, objects::is_grown)?,
        world: &world,
        driver,
        size: 1,
    };
    let mut rounds: Vec<Vec<Round>> = contenders.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for (contender, rounds) in contenders.iter().zip(&mut rounds) {
            rounds.push(stage.round(contender)?);
        }
    }
    drop(stage);
    world.down()?;
    let of = |value: fn(&Round) -> f64| -> Vec<f64> {
        let each = rounds.iter();
        each.map(|rounds| median(&rounds.iter().map(value).collect::<Vec<_>>()))
            .collect()
    };
    let third = Target::RatioAtMost(1.0 / 3.0);
    Ok(vec![
        Figure::new(
            "expansions per second",
            &of(|round| COUNT as f64 / round.took),
            Target::None,
        ),
        Figure::new("seconds for 500", &of(|round| round.took), Target::None),
        Figure::new(
            "CPU per expansion, ms",
            &of(|round| round.cpu * 1e3 / COUNT as f64),
            third,
        ),
        Figure::new(
            "writes per expansion",
            &of(|round| round.writes),
            Target::AtMost(5.0),
        ),
        Figure::new(
            "reads per expansion",
            &of(|round| round.reads),
            Target::None,
        ),
        Figure::new(
            "claims of 500 whose success is no event",
            &of(|round| round.untold),
            Target::AtMost(0.0),
        ),
        Figure::new("peak RSS, MB", &of(|round| round.peak), Target::None),
    ])
}

impl Stage<'_> {
    fn round(&mut self, contender: &Contender) -> Result<Round> {
        let mut flags = vec!["--workers=100", "--timeout=60s"];
        flags.extend(crate::world::UNLIMITED);
        let world = self.world;
        let mut process = world.start(contender, &self.driver, Route::Direct, &flags)?;
        at_rest(&mut process, LIMIT)?;
        self.size += 1;
        self.grow(WARM_UP).with_context(|| process.tail())?;
        at_rest(&mut process, LIMIT)?;
        let mut audit = world.audit(contender)?;
        told::forget(&world.load)?;
        let begun = Usage::of(&process)?.cpu;
        self.size += 1;
        let took = self.grow(COUNT).with_context(|| process.tail())?;
        let done = at_rest(&mut process, LIMIT)?.0;
        let requests = audit.phase()?;
        let claims: Vec<String> = (0..COUNT).map(bound::name).collect();
        let untold = told::untold(&world.load, "VolumeResizeSuccessful", &claims)?;
        let write = |verb: &str| matches!(verb, "create" | "update" | "patch" | "delete");
        let of_work = |resource: &str| resource != "leases";
        let writes = requests.count(|kind| write(&kind.verb) && of_work(&kind.resource));
        let reads = requests.count(|kind| kind.verb == "get" && of_work(&kind.resource));
        let round = Round {
            cpu: done.cpu - begun,
            took,
            writes: writes as f64 / COUNT as f64,
            reads: reads as f64 / COUNT as f64,
            untold,
            peak: done.peak / 1e6,
        };
        say(&format!(
            "{:>5}: {took:.2} s and {:.2} CPU-s, peak {:.1} MB; {requests}",
            contender.name, round.cpu, round.peak,
        ));
        Ok(round)
    }

    /// Raises the requested size of the first `count` claims. Returns the seconds until all have
    /// it.
    fn grow(&self, count: usize) -> Result<f64> {
        self.claims.clear();
        let size = format!("{}Mi", self.size);
        let wish = objects::wish(&size);
        let path = |index| format!("{CLAIMS}/{}", bound::name(index));
        let start = Instant::now();
        let wishes = (0..count).map(|index| (path(index), wish.clone()));
        self.world.load.merge(wishes)?;
        let done = self
            .claims
            .wait(LIMIT, count, |watch| watch.done("").len())?;
        let grown = self.claims.done("");
        ensure!(done, "{} of {count} grown within {LIMIT:?}", grown.len());
        let last = grown.into_values().max().context("nothing has grown")?;
        Ok((last - start).as_secs_f64())
    }
}
