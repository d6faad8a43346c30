//! The cost of snapshots for both programs: 500 VolumeSnapshots of as many claims created at once, and
//! deleted at once; a driver that answers at once, 100 workers, no rate limit.
//!
//! Our pair and the other one take turns, each time in new processes that have warmed up.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::process::Process;
use e2e::requests::{Request, Requests};
use e2e::suite::say;

use super::SNAPSHOT_CONTROLLER;
use super::objects::{self, CONTENTS, SNAPSHOTS};
use crate::bound::{self, Drivers};
use crate::contender::Contender;
use crate::figure::{Figure, Target, median};
use crate::told;
use crate::usage::{Usage, at_rest};
use crate::watch::Watch;
use crate::world::{Controllers, Driver, Route, UNLIMITED, World};

const COUNT: usize = 500;
const WARM_UP: usize = 50;
const ROUNDS: usize = 3;
const LIMIT: Duration = Duration::from_secs(180);

/// A snapshotter and its snapshot-controller.
struct Pair {
    name: &'static str,
    snapshotter: Contender,
    controller: Contender,
}

/// Work of one program in a round.
#[derive(Debug, Default)]
struct Work {
    cpu: f64,
    /// Writes of API objects.
    writes: f64,
    events: f64,
    reads: f64,
    /// Writes that the API server refused.
    refused: f64,
    peak: f64,
}

/// One round of a pair.
#[derive(Debug, Default)]
struct Round {
    snapshotter: Work,
    controller: Work,
    create: f64,
    delete: f64,
    /// Calls beyond one to take and one to delete each snapshot.
    repeated: f64,
    /// VolumeSnapshots without an event that they are ready once the programs are idle.
    untold: f64,
}

struct Stage<'a> {
    world: &'a World,
    driver: &'a Driver,
    snapshots: Watch,
    contents: Watch,
}

pub(super) fn run(contenders: &[Contender]) -> Result<Vec<Figure>> {
    let pairs = pairs(contenders)?;
    let world = World::with_snapshots(Controllers::Stopped)?;
    let driver = objects::driver(&world)?;
    objects::create_class(&world.load)?;
    bound::create_bound(&world.load, &driver.volumes(COUNT)?, Drivers::One)?;
    let stage = Stage {
        world: &world,
        driver: &driver,
        snapshots: Watch::open(&world.load, SNAPSHOTS, objects::is_ready)?,
        contents: Watch::open(&world.load, CONTENTS, |_| true)?,
    };
    let mut rounds: Vec<Vec<Round>> = pairs.iter().map(|_| Vec::new()).collect();
    for number in 0..ROUNDS {
        for (pair, rounds) in pairs.iter().zip(&mut rounds) {
            rounds.push(stage.round(pair, number)?);
        }
    }
    drop(stage);
    drop(driver);
    world.down()?;
    Ok(figures(&rounds))
}

/// Pairs the programs; a side without a program of its own gets ours.
fn pairs(snapshotters: &[Contender]) -> Result<Vec<Pair>> {
    let controllers = SNAPSHOT_CONTROLLER.contenders()?;
    let names = [("ours", "ours-controller"), ("other", "other-controller")];
    let all = names.into_iter().enumerate();
    all.take(snapshotters.len().max(controllers.len()))
        .map(|(index, (name, controllers_name))| {
            let of = |all: &[Contender], name| {
                let path = all
                    .get(index)
                    .or(all.first())
                    .context("nothing to measure")?;
                let path = path.path.clone();
                anyhow::Ok(Contender {
                    name,
                    path,
                    flags: &[],
                })
            };
            Ok(Pair {
                name,
                snapshotter: of(snapshotters, name)?,
                controller: of(&controllers, controllers_name)?,
            })
        })
        .collect()
}

fn figures(rounds: &[Vec<Round>]) -> Vec<Figure> {
    let of = |value: &dyn Fn(&Round) -> f64| medians(rounds, value);
    let no_more = Target::RatioAtMost(1.0);
    let mut figures = vec![
        Figure::new(
            "snapshots ready per second, 500 at once",
            &of(&|round| COUNT as f64 / round.create),
            Target::None,
        ),
        Figure::new("s until 500 are ready", &of(&|round| round.create), no_more),
        Figure::new(
            "s until 500 are gone",
            &of(&|round| round.delete),
            Target::None,
        ),
        Figure::new(
            "calls of the driver repeated",
            &of(&|round| round.repeated),
            Target::AtMost(0.0),
        ),
        Figure::new(
            "snapshots of 500 whose readiness is no event",
            &of(&|round| round.untold),
            Target::AtMost(0.0),
        ),
    ];
    figures.extend(of_program(rounds, "csi-snapshotter", |it| &it.snapshotter));
    figures.extend(of_program(rounds, "snapshot-controller", |it| {
        &it.controller
    }));
    figures
}

/// Figures of one program of each pair.
fn of_program(rounds: &[Vec<Round>], program: &str, work: fn(&Round) -> &Work) -> Vec<Figure> {
    let of = |value: fn(&Work) -> f64, per: f64| medians(rounds, &|round| value(work(round)) / per);
    let snapshots = COUNT as f64;
    let third = Target::RatioAtMost(1.0 / 3.0);
    let rows = [
        (
            "CPU per snapshot created and deleted, ms",
            of(|work| work.cpu * 1e3, snapshots),
            third,
        ),
        (
            "writes per snapshot",
            of(|work| work.writes, snapshots),
            Target::RatioAtMost(1.0),
        ),
        (
            "events written per snapshot",
            of(|work| work.events, snapshots),
            Target::None,
        ),
        (
            "reads per snapshot",
            of(|work| work.reads, snapshots),
            Target::None,
        ),
        (
            "writes refused per snapshot",
            of(|work| work.refused, snapshots),
            Target::None,
        ),
        ("peak RSS, MB", of(|work| work.peak, 1e6), Target::None),
    ];
    rows.into_iter()
        .map(|(what, values, target)| Figure::new(format!("{program}: {what}"), &values, target))
        .collect()
}

/// The median of each program's rounds.
fn medians(rounds: &[Vec<Round>], value: &dyn Fn(&Round) -> f64) -> Vec<f64> {
    let each = rounds.iter();
    each.map(|rounds| median(&rounds.iter().map(value).collect::<Vec<_>>()))
        .collect()
}

impl Stage<'_> {
    fn round(&self, pair: &Pair, number: usize) -> Result<Round> {
        let world = self.world;
        let mut flags = vec!["--worker-threads=100"];
        flags.extend(UNLIMITED);
        let mut controller = world.start(&pair.controller, None, Route::Direct, &flags)?;
        flags.push("--timeout=60s");
        let mut snapshotter = world.start(&pair.snapshotter, self.driver, Route::Direct, &flags)?;
        let at_rest = |controller: &mut Process, snapshotter: &mut Process| {
            at_rest(controller, LIMIT)?;
            at_rest(snapshotter, LIMIT)?;
            anyhow::Ok((Usage::of(controller)?, Usage::of(snapshotter)?))
        };
        let tails = |controller: &Process, snapshotter: &Process| {
            format!("{}\n{}", controller.tail(), snapshotter.tail())
        };
        at_rest(&mut controller, &mut snapshotter)?;
        self.cycle(&format!("warm-{}-{number}", pair.name), WARM_UP)
            .with_context(|| tails(&controller, &snapshotter))?;
        let begun = at_rest(&mut controller, &mut snapshotter)?;
        let mut audits = (
            world.audit(&pair.controller)?,
            world.audit(&pair.snapshotter)?,
        );
        let calls = self.calls()?;
        let prefix = format!("{}-{number}", pair.name);
        let (create, delete) = self
            .cycle(&prefix, COUNT)
            .with_context(|| tails(&controller, &snapshotter))?;
        let done = at_rest(&mut controller, &mut snapshotter)?;
        let requests = (audits.0.phase()?, audits.1.phase()?);
        let round = Round {
            controller: Work::of(begun.0, done.0, &requests.0),
            snapshotter: Work::of(begun.1, done.1, &requests.1),
            create,
            delete,
            untold: told::untold(&world.load, "SnapshotReady", &names(&prefix, COUNT))?,
            repeated: (self.calls()? - calls) - 2.0 * COUNT as f64,
        };
        say(&format!(
            "{:>5}: {create:.2} s until ready, {delete:.2} s until gone\n       snapshot-controller {:.2} CPU-s, peak {:.1} MB; {}\n       csi-snapshotter {:.2} CPU-s, peak {:.1} MB; {}",
            pair.name,
            round.controller.cpu,
            round.controller.peak / 1e6,
            requests.0,
            round.snapshotter.cpu,
            round.snapshotter.peak / 1e6,
            requests.1,
        ));
        Ok(round)
    }

    /// Number of calls so far that take or delete a snapshot.
    fn calls(&self) -> Result<f64> {
        let control = &self.driver.control;
        Ok((control.calls("CreateSnapshot")? + control.calls("DeleteSnapshot")?) as f64)
    }

    /// Creates a snapshot of each of the first claims, and deletes them when all are ready. Returns
    /// the seconds of each.
    fn cycle(&self, prefix: &str, count: usize) -> Result<(f64, f64)> {
        let (snapshots, contents, load) = (&self.snapshots, &self.contents, &self.world.load);
        snapshots.clear();
        contents.clear();
        let names = names(prefix, count);
        let start = Instant::now();
        let wanted = names.iter().enumerate();
        let wanted = wanted.map(|(index, name)| objects::snapshot(name, &bound::name(index)));
        load.create(SNAPSHOTS, wanted)?;
        let done = snapshots.wait(LIMIT, count, |watch| watch.done("").len())?;
        let ready = snapshots.done("");
        ensure!(done, "{} of {count} ready within {LIMIT:?}", ready.len());
        let create = last(ready.into_values(), start)?;
        let start = Instant::now();
        load.delete(names.iter().map(|name| format!("{SNAPSHOTS}/{name}")))?;
        for watch in [snapshots, contents] {
            let gone = |watch: &Watch| watch.gone("").len();
            let all = watch.wait(LIMIT, count, gone)?;
            ensure!(all, "{} of {count} gone within {LIMIT:?}", gone(watch));
        }
        let gone = { snapshots.gone("").into_values() }.chain(contents.gone("").into_values());
        Ok((create, last(gone, start)?))
    }
}

impl Work {
    fn of(begun: Usage, done: Usage, requests: &Requests) -> Self {
        let is_write = |kind: &Request| {
            matches!(kind.verb.as_str(), "create" | "update" | "patch" | "delete")
                && kind.resource != "leases"
        };
        let is_event = |kind: &Request| kind.resource == "events";
        let count = |chosen: &dyn Fn(&Request) -> bool| requests.count(chosen) as f64;
        Self {
            cpu: done.cpu - begun.cpu,
            writes: count(&|kind| is_write(kind) && !is_event(kind)),
            events: count(&|kind| is_write(kind) && is_event(kind)),
            reads: count(&|kind| matches!(kind.verb.as_str(), "get" | "list")),
            refused: count(&|kind| is_write(kind) && kind.code >= 400),
            peak: done.peak,
        }
    }
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|index| format!("{prefix}-{index}"))
        .collect()
}

fn last(times: impl Iterator<Item = Instant>, start: Instant) -> Result<f64> {
    let last = times.max().context("nothing happened")?;
    Ok((last - start).as_secs_f64())
}
