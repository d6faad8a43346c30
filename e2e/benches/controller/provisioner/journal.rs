//! The cost of the provisioning journal: the same program with the journal, and with
//! `--provisioning-protection=off` in the column of the other program.
//!
//! A burst: 1,000 claims as in `provision`. A steady load: a claim a second, from the claim's creation
//! to its PersistentVolume.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::suite::say;

use super::provision::{COUNT, LIMIT, ROUNDS, Round, Stage, names};
use crate::bound::{self, CLAIMS};
use crate::contender::Contender;
use crate::figure::{Figure, Target, median};
use crate::usage::at_rest;
use crate::world::{Controllers, Driver, Route, UNLIMITED, World};

const OFF: &str = "--provisioning-protection=off";

/// Claims of a steady round.
const STEADY: usize = 20;

pub(super) fn run(contenders: &[Contender]) -> Result<Vec<Figure>> {
    let ours = contenders.first().context("nothing to measure")?;
    let modes = [("ours", &[][..]), ("off", &[OFF][..])].map(|(name, flags)| {
        let path = ours.path.clone();
        (
            Contender {
                name,
                path,
                flags: &[],
            },
            flags,
        )
    });
    let world = World::up(Controllers::Running)?;
    let driver = world.driver()?;
    let stage = Stage::new(&world)?;
    let mut rounds = modes.each_ref().map(|_| Vec::new());
    let mut latencies = modes.each_ref().map(|_| Vec::new());
    for number in 0..ROUNDS {
        // The modes alternate in who is first.
        for index in [number % 2, (number + 1) % 2] {
            let Some((mode, flags)) = modes.get(index) else {
                continue;
            };
            if let Some(rounds) = rounds.get_mut(index) {
                rounds.push(stage.round(&driver, mode, number, flags)?);
            }
            if let Some(latencies) = latencies.get_mut(index) {
                latencies.extend(steadily(&stage, &driver, mode, number, flags)?);
            }
        }
    }
    drop((stage, driver));
    world.down()?;
    let of = |value: fn(&Round) -> f64| {
        let each = rounds.each_ref();
        each.map(|rounds| median(&rounds.iter().map(value).collect::<Vec<_>>()))
    };
    let rate = of(|round| COUNT as f64 / round.provision);
    let [with, without] = latencies.each_ref().map(|all| median(all));
    Ok(vec![
        Figure::new("claims provisioned per second", &rate, Target::None),
        Figure::new(
            "seconds to provision 1,000",
            &of(|round| round.provision),
            Target::RatioAtMost(1.0 / 0.95),
        ),
        Figure::new(
            "CPU-s to provision 1,000",
            &of(|round| round.provision_cpu),
            Target::RatioAtMost(1.1),
        ),
        Figure::new(
            "writes of Leases for 1,000 claims",
            &of(|round| round.leases),
            Target::AtMost(60.0),
        ),
        Figure::new(
            "ms from claim to PersistentVolume, one a second",
            &[with, without],
            Target::None,
        ),
        Figure::new(
            "ms that the journal adds",
            &[with - without],
            Target::AtMost(15.0),
        ),
    ])
}

/// Creates a claim a second. Returns the milliseconds that each waited for its PersistentVolume.
fn steadily(
    stage: &Stage<'_>,
    driver: &Driver,
    mode: &Contender,
    number: usize,
    more: &[&str],
) -> Result<Vec<f64>> {
    let mut flags = UNLIMITED.to_vec();
    flags.extend(more);
    let world = stage.world;
    let mut process = world.start(mode, driver, Route::Direct, &flags)?;
    at_rest(&mut process, LIMIT)?;
    let claims = names(&format!("steady-{}-{number}", mode.name), STEADY);
    let mut latencies = Vec::new();
    for name in &claims {
        stage.clear();
        let begun = Instant::now();
        let object = std::iter::once(bound::claim(name));
        world.load.create(CLAIMS, object)?;
        let there = |watch: &crate::watch::Watch| watch.done("").len();
        ensure!(
            stage.volumes.wait(LIMIT, 1, there)?,
            "no volume: {}",
            process.tail()
        );
        let seen = stage.volumes.done("").into_values().min();
        let seen = seen.context("no volume")?;
        latencies.push((seen - begun).as_secs_f64() * 1e3);
        sleep(Duration::from_secs(1).saturating_sub(begun.elapsed()));
    }
    stage.delete(&claims)?;
    let name = mode.name;
    say(&format!(
        "{name:>5}: {:.1} ms from claim to PersistentVolume",
        median(&latencies)
    ));
    Ok(latencies)
}
