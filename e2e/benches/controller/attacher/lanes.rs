//! Whether attaches wait behind detaches: 100 attaches at once, alone and during a burst of 2,000
//! slow detaches, with the default number of worker threads.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use csi_test_driver::instrument::rules::Rule;
use e2e::process::Process;
use e2e::suite::say;
use serde_json::{Value, json};

use super::objects::{self, ATTACHMENTS, NODES};
use crate::bound::VOLUMES;
use crate::contender::Contender;
use crate::figure::{Figure, Target, quantile};
use crate::usage::at_rest;
use crate::watch::Watch;
use crate::world::{Controllers, Driver, Route, World};

const BURST: usize = 2_000;
const ATTACHES: usize = 100;
const ROUNDS: usize = 3;
const NODE_COUNT: usize = 50;
const LIMIT: Duration = Duration::from_secs(240);

/// How long the benchmark waits for attaches behind a burst.
const BURST_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn run(contenders: &[Contender]) -> Result<Vec<Figure>> {
    let world = World::up(Controllers::Stopped)?;
    let driver = world.driver()?;
    let handles = driver.volumes(BURST + ATTACHES)?;
    let numbered = handles.iter().enumerate();
    let volumes = numbered.map(|(index, handle)| objects::volume(&format!("pv-{index}"), handle));
    world.load.create(VOLUMES, volumes)?;
    let nodes = (0..NODE_COUNT).map(|index| objects::node(&format!("node-{index}")));
    world.load.create(NODES, nodes)?;
    let mut measured = Vec::new();
    for contender in contenders {
        measured.push(measure(&world, &driver, contender)?);
    }
    drop(driver);
    world.down()?;
    let of = |value: fn(&(f64, f64)) -> f64| measured.iter().map(value).collect::<Vec<_>>();
    let ratio = of(|(alone, loaded)| loaded / alone);
    Ok(vec![
        Figure::new(
            "p99 of 100 attaches alone, ms",
            &of(|(alone, _)| *alone),
            Target::None,
        ),
        Figure::new(
            "the same behind 2,000 detaches, ms",
            &of(|(_, loaded)| *loaded),
            Target::None,
        ),
        // `--worker-threads` caps both directions together: two of ten workers until the first
        // detaches end, then half.
        Figure::new("loaded / alone", &ratio, Target::AtMost(5.0)),
    ])
}

struct Stage<'a> {
    world: &'a World,
    watch: Watch,
    process: Process,
}

fn measure(world: &World, driver: &Driver, contender: &Contender) -> Result<(f64, f64)> {
    driver.control.clear_rules()?;
    let watch = Watch::open(&world.load, ATTACHMENTS, objects::is_attached)?;
    let mut flags = crate::world::UNLIMITED.to_vec();
    flags.push("--timeout=60s");
    let mut process = world.start(contender, driver, Route::Direct, &flags)?;
    at_rest(&mut process, LIMIT)?;
    let stage = Stage {
        world,
        watch,
        process,
    };
    let attachments = names("burst", BURST).enumerate().map(|(index, name)| {
        let index = index + ATTACHES;
        objects::attachment(
            &name,
            &format!("pv-{index}"),
            &format!("node-{}", index % NODE_COUNT),
        )
    });
    world.load.create(ATTACHMENTS, attachments)?;
    stage.until(BURST, "attached", |watch| watch.done("burst"))?;
    slow(driver, "ControllerPublishVolume", 100)?;

    let mut alone = Vec::new();
    for round in 0..ROUNDS {
        alone.extend(stage.attach(&format!("alone{round}"), LIMIT)?);
    }
    slow(driver, "ControllerUnpublishVolume", 2_000)?;
    world.load.delete(paths("burst", BURST))?;
    let loaded = stage.attach("loaded", BURST_TIMEOUT)?;
    let left = BURST - stage.watch.gone("burst").len();
    ensure!(
        left > BURST / 2,
        "the burst was over too soon: {left} detaches left"
    );
    driver.control.clear_rules()?;
    stage.until(BURST, "detached", |watch| watch.gone("burst"))?;
    let (alone, loaded) = (quantile(&alone, 0.99), quantile(&loaded, 0.99));
    say(&format!(
        "{:>5}: p99 {alone:.0} ms alone, {loaded:.0} ms with {left} detaches left",
        contender.name
    ));
    Ok((alone, loaded))
}

impl Stage<'_> {
    /// Attaches volumes at once, and detaches them. Returns the milliseconds from the request to
    /// attached.
    fn attach(&self, prefix: &str, timeout: Duration) -> Result<Vec<f64>> {
        let attachments = names(prefix, ATTACHES).enumerate().map(|(index, name)| {
            let node = format!("node-{}", index % NODE_COUNT);
            objects::attachment(&name, &format!("pv-{index}"), &node)
        });
        let start = Instant::now();
        self.world.load.create(ATTACHMENTS, attachments)?;
        let done = |watch: &Watch| watch.done(prefix);
        let all = self
            .watch
            .wait(timeout, ATTACHES, |watch| done(watch).len())?;
        let mut took: Vec<f64> = done(&self.watch)
            .into_values()
            .map(|at| (at - start).as_secs_f64() * 1e3)
            .collect();
        // An attachment that timed out counts with the time it was waited for.
        took.resize(ATTACHES, timeout.as_secs_f64() * 1e3);
        self.world.load.delete(paths(prefix, ATTACHES))?;
        if all && timeout == LIMIT {
            self.until(ATTACHES, "detached", |watch| watch.gone(prefix))?;
        }
        Ok(took)
    }

    fn until(
        &self,
        wanted: usize,
        what: &str,
        of: impl Fn(&Watch) -> HashMap<String, Instant>,
    ) -> Result<()> {
        let done = self.watch.wait(LIMIT, wanted, |watch| of(watch).len())?;
        let count = of(&self.watch).len();
        ensure!(
            done,
            "{count} of {wanted} {what} within {LIMIT:?}\n{}",
            self.process.tail()
        );
        Ok(())
    }
}

fn names(prefix: &str, count: usize) -> impl Iterator<Item = String> {
    let prefix = prefix.to_owned();
    (0..count).map(move |index| format!("{prefix}-{index}"))
}

fn paths(prefix: &str, count: usize) -> impl Iterator<Item = String> {
    names(prefix, count).map(|name| format!("{ATTACHMENTS}/{name}"))
}

fn slow(driver: &Driver, method: &str, ms: u64) -> Result<()> {
    let rule: Value = json!({"match": {"method": method}, "action": {"delay": {"ms": ms}}});
    let rule: Rule = serde_json::from_value(rule).context("the bench's own rule")?;
    driver.control.add_rule(&rule)?;
    Ok(())
}
