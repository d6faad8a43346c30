//! The cost of provisioning and deleting: 1,000 claims of a class that binds immediately, created,
//! bound by kube-controller-manager, and deleted; a driver that answers at once, 100 workers, no
//! rate limit. Our program, the other one and the reference client take turns.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use e2e::suite::say;
use tokio::sync::mpsc::unbounded_channel;

use super::objects::{self, CLASSES};
use super::reference;
use crate::bound::{self, CLAIMS, VOLUMES};
use crate::contender::Contender;
use crate::figure::{Figure, Target, median};
use crate::told;
use crate::usage::{Usage, at_rest};
use crate::watch::Watch;
use crate::world::{Controllers, Driver, Route, World};

pub(super) const COUNT: usize = 1_000;
const WARM_UP: usize = 50;
pub(super) const ROUNDS: usize = 3;
pub(super) const LIMIT: Duration = Duration::from_secs(180);

/// One round of one program.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) provision_cpu: f64,
    delete_cpu: f64,
    pub(super) provision: f64,
    delete: f64,
    writes: f64,
    /// Claims without an event of their success once the program is idle.
    untold: f64,
    /// Writes of Leases.
    pub(super) leases: f64,
}

pub(super) struct Stage<'a> {
    pub(super) world: &'a World,
    pub(super) claims: Watch,
    pub(super) volumes: Watch,
}

pub(super) fn run(contenders: &[Contender]) -> Result<Vec<Figure>> {
    let world = World::up(Controllers::Running)?;
    let driver = world.driver()?;
    let stage = Stage::new(&world)?;
    let mut rounds: Vec<Vec<Round>> = contenders.iter().map(|_| Vec::new()).collect();
    let mut references = Vec::new();
    for number in 0..ROUNDS {
        for (contender, rounds) in contenders.iter().zip(&mut rounds) {
            rounds.push(stage.round(&driver, contender, number, &[])?);
        }
        references.push(stage.reference(&driver, number)?);
    }
    drop((stage, driver));
    world.down()?;
    let of = |value: fn(&Round) -> f64| -> Vec<f64> {
        let each = rounds.iter();
        each.map(|rounds| median(&rounds.iter().map(value).collect::<Vec<_>>()))
            .collect()
    };
    let (provision, delete) = (of(|round| round.provision), of(|round| round.delete));
    let (provisioned, deleted): (Vec<f64>, Vec<f64>) = references.into_iter().unzip();
    let rate: Vec<f64> = provision.iter().map(|took| COUNT as f64 / took).collect();
    let whole = of(|round| round.provision_cpu + round.delete_cpu);
    let third = Target::RatioAtMost(1.0 / 3.0);
    // At least three quarters of the reference client's claims per second.
    let within_a_quarter = Target::AtMost(4.0 / 3.0);
    Ok(vec![
        Figure::new("claims provisioned per second", &rate, Target::None),
        Figure::new(
            "seconds to provision 1,000",
            &provision,
            Target::RatioAtMost(1.0),
        ),
        Figure::new(
            "provisioning / reference client's",
            &against(&provision, &provisioned),
            within_a_quarter,
        ),
        Figure::new("seconds to delete 1,000", &delete, Target::None),
        Figure::new(
            "deletion / reference client's",
            &against(&delete, &deleted),
            Target::AtMost(1.25),
        ),
        Figure::new(
            "CPU-s to provision 1,000",
            &of(|round| round.provision_cpu),
            Target::None,
        ),
        Figure::new(
            "CPU-s to delete 1,000",
            &of(|round| round.delete_cpu),
            Target::None,
        ),
        Figure::new("CPU-s for both", &whole, third),
        Figure::new(
            "writes per claim",
            &of(|round| round.writes),
            Target::AtMost(5.0),
        ),
        Figure::new(
            "claims of 1,000 whose success is no event",
            &of(|round| round.untold),
            Target::AtMost(0.0),
        ),
    ])
}

impl<'a> Stage<'a> {
    pub(super) fn new(world: &'a World) -> Result<Self> {
        let classes = std::iter::once(objects::class());
        world.load.create(CLASSES, classes)?;
        Ok(Self {
            claims: Watch::open(&world.load, CLAIMS, objects::is_bound)?,
            volumes: Watch::open(&world.load, VOLUMES, |_| true)?,
            world,
        })
    }

    pub(super) fn round(
        &self,
        driver: &Driver,
        contender: &Contender,
        number: usize,
        more: &[&str],
    ) -> Result<Round> {
        let mut flags = vec!["--worker-threads=100", "--timeout=60s"];
        flags.extend(crate::world::UNLIMITED);
        flags.extend(more);
        let world = self.world;
        let mut process = world.start(contender, driver, Route::Direct, &flags)?;
        at_rest(&mut process, LIMIT)?;
        let warm = names(&format!("warm-{}-{number}", contender.name), WARM_UP);
        self.create(&warm)?;
        self.delete(&warm)?;
        at_rest(&mut process, LIMIT)?;
        let mut audit = world.audit(contender)?;
        let begun = Usage::of(&process)?.cpu;
        let claims = names(&format!("{}-{number}", contender.name), COUNT);
        let provision = self.create(&claims).with_context(|| process.tail())?;
        let provisioned = at_rest(&mut process, LIMIT)?.0.cpu;
        let untold = told::untold(&world.load, "ProvisioningSucceeded", &claims)?;
        let delete = self.delete(&claims).with_context(|| process.tail())?;
        let deleted = at_rest(&mut process, LIMIT)?.0;
        let requests = audit.phase()?;
        let write = |verb: &str| matches!(verb, "create" | "update" | "patch" | "delete");
        let writes = requests.count(|kind| write(&kind.verb) && kind.resource != "leases");
        let leases = requests.count(|kind| write(&kind.verb) && kind.resource == "leases");
        let round = Round {
            provision_cpu: provisioned - begun,
            delete_cpu: deleted.cpu - provisioned,
            provision,
            delete,
            writes: writes as f64 / COUNT as f64,
            untold,
            leases: leases as f64,
        };
        say(&format!(
            "{:>5}: {provision:.2} s and {:.2} CPU-s to provision, {delete:.2} s and {:.2} CPU-s to delete, peak {:.1} MB; {requests}",
            contender.name,
            round.provision_cpu,
            round.delete_cpu,
            deleted.peak / 1e6,
        ));
        Ok(round)
    }

    /// Seconds that the reference client needs to provision and to delete.
    fn reference(&self, driver: &Driver, number: usize) -> Result<(f64, f64)> {
        let load = &self.world.load;
        let claims = names(&format!("reference-{number}"), COUNT);
        let handles = driver.control.make_volumes(&claims, 1 << 20)?;
        self.clear();
        let start = Instant::now();
        reference::provision(load, &claims, &handles)?;
        let provision = self.bound(&claims, start)?;
        let (tell, released) = unbounded_channel();
        let watch = Watch::telling(load, VOLUMES, objects::is_released, tell)?;
        let volumes = claims.iter().map(|claim| reference::volume(claim));
        let handles: HashMap<String, String> = volumes.zip(handles).collect();
        let delete = std::thread::scope(|scope| {
            let client = scope.spawn(|| reference::delete(load, driver, released, &handles));
            let took = self.delete(&claims);
            // Ends the client's wait: no more volumes will be released.
            drop(watch);
            match client.join() {
                Ok(done) => done.and(took),
                Err(_) => bail!("the reference client panicked"),
            }
        })?;
        say(&format!(
            "reference client: {provision:.2} s to provision, {delete:.2} s to delete"
        ));
        Ok((provision, delete))
    }

    pub(super) fn clear(&self) {
        self.claims.clear();
        self.volumes.clear();
    }

    /// Creates claims and waits until all are bound. Returns the seconds.
    fn create(&self, claims: &[String]) -> Result<f64> {
        self.clear();
        let start = Instant::now();
        let objects = claims.iter().map(|name| bound::claim(name));
        self.world.load.create(CLAIMS, objects)?;
        self.bound(claims, start)
    }

    fn bound(&self, claims: &[String], start: Instant) -> Result<f64> {
        let done = |watch: &Watch| watch.done("").len();
        let all = self.claims.wait(LIMIT, claims.len(), done)?;
        ensure!(all, "{} claims bound within {LIMIT:?}", done(&self.claims));
        last(self.claims.done(""), start)
    }

    /// Deletes claims and waits until their volumes are gone. Returns the seconds.
    pub(super) fn delete(&self, claims: &[String]) -> Result<f64> {
        let start = Instant::now();
        let paths = claims.iter().map(|name| format!("{CLAIMS}/{name}"));
        self.world.load.delete(paths)?;
        let gone = |watch: &Watch| watch.gone("").len();
        let all = self.claims.wait(LIMIT, claims.len(), gone)?;
        ensure!(all, "{} claims gone within {LIMIT:?}", gone(&self.claims));
        let all = self.volumes.wait(LIMIT, claims.len(), gone)?;
        ensure!(all, "{} volumes gone within {LIMIT:?}", gone(&self.volumes));
        last(self.volumes.gone(""), start)
    }
}

/// The times as multiples of the reference client's.
fn against(took: &[f64], reference: &[f64]) -> Vec<f64> {
    let reference = median(reference);
    took.iter().map(|took| took / reference).collect()
}

pub(super) fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|index| format!("{prefix}-{index}"))
        .collect()
}

fn last(times: HashMap<String, Instant>, start: Instant) -> Result<f64> {
    let last = times.into_values().max().context("nothing happened")?;
    Ok((last - start).as_secs_f64())
}
