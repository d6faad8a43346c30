//! Requests for the lives of 1,000 volumes: provisioned, attached, expanded, detached and deleted.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::suite::say;
use serde_json::Value;

use super::side::{self, NODE, Side};
use crate::attacher::objects::{ATTACHMENTS, attachment, is_attached};
use crate::bound::{self, CLAIMS, VOLUMES};
use crate::contender::Contender;
use crate::figure::{Figure, Target};
use crate::load::Load;
use crate::provisioner::objects::is_bound;
use crate::resizer::objects::{is_grown, wish};
use crate::watch::Watch;
use crate::world::{Controllers, World};

const COUNT: usize = 1_000;

const LIMIT: Duration = Duration::from_secs(300);

pub(super) fn run(contenders: &[Contender]) -> Result<Vec<Figure>> {
    let world = World::with_snapshots(Controllers::Running)?;
    let driver = world.driver()?;
    side::equip(&driver)?;
    side::create_class_and_node(&world.load)?;
    let stage = Stage::new(&world.load)?;
    let (mut requests, mut cpu) = (Vec::new(), Vec::new());
    let singles = side::singles()?;
    for (round, all) in [contenders, &singles].into_iter().enumerate() {
        let mut side = Side::start(&world, &driver, all)?;
        side.at_rest(LIMIT)?;
        let asking = all.iter().filter(|one| side::asks(one));
        let audits = asking.map(|one| world.audit(one));
        let mut audits = audits.collect::<Result<Vec<_>>>()?;
        let before = side.usage()?.cpu;
        stage.live(round, &mut side)?;
        side.at_rest(LIMIT)?;
        side.must_run()?;
        cpu.push(side.usage()?.cpu - before);
        let mut count = 0;
        for audit in &mut audits {
            let phase = audit.phase()?;
            say(&format!("{:>2} programs: {phase}", all.len()));
            count += phase.count(|kind| kind.resource != "leases");
        }
        requests.push(count as f64 / COUNT as f64);
        drop(side);
        world.free_leases()?;
    }
    drop((stage, driver));
    world.down()?;
    let most = Target::RatioAtMost(1.0);
    Ok(vec![
        Figure::new("requests for a volume's life", &requests, most),
        Figure::new("CPU-s for 1,000", &cpu, Target::None),
    ])
}

struct Stage<'a> {
    load: &'a Load,
    bound: Watch,
    grown: Watch,
    attached: Watch,
    volumes: Watch,
}

impl<'a> Stage<'a> {
    fn new(load: &'a Load) -> Result<Self> {
        Ok(Self {
            bound: Watch::open(load, CLAIMS, is_bound)?,
            grown: Watch::open(load, CLAIMS, is_grown)?,
            attached: Watch::open(load, ATTACHMENTS, is_attached)?,
            volumes: Watch::open(load, VOLUMES, |_| true)?,
            load,
        })
    }

    /// Each phase begins once the one before has left nothing to do: a program that removes its finalizer
    /// while the volume is being deleted has its patch refused now and then, and repeats it.
    fn live(&self, round: usize, side: &mut Side) -> Result<()> {
        let load = self.load;
        let names: Vec<String> = (0..COUNT).map(|at| format!("life-{round}-{at}")).collect();
        let paths = |collection: &'static str| {
            let names = names.iter();
            names.map(move |name| format!("{collection}/{name}"))
        };
        let done = |watch: &Watch| watch.done(&format!("life-{round}-")).len();
        let gone = |watch: &Watch| watch.gone(&format!("life-{round}-")).len();
        self.volumes.clear();

        load.create(CLAIMS, names.iter().map(|name| bound::claim(name)))?;
        until("bound", &self.bound, done)?;
        side.at_rest(LIMIT)?;

        let volumes = self.volumes_of()?;
        let attachments = names.iter().map(|name| {
            let volume = volumes.get(name).map(String::as_str).unwrap_or_default();
            attachment(name, volume, NODE)
        });
        load.create(ATTACHMENTS, attachments)?;
        until("attached", &self.attached, done)?;
        side.at_rest(LIMIT)?;

        // The claims had their requested size before.
        self.grown.clear();
        load.merge(paths(CLAIMS).map(|path| (path, wish("2Mi"))))?;
        until("grown", &self.grown, done)?;
        side.at_rest(LIMIT)?;

        load.delete(paths(ATTACHMENTS))?;
        until("detached", &self.attached, gone)?;
        side.at_rest(LIMIT)?;

        load.delete(paths(CLAIMS))?;
        until("deleted", &self.volumes, |watch| watch.gone("pvc-").len())
    }

    /// Volume names by claim name.
    fn volumes_of(&self) -> Result<HashMap<String, String>> {
        let list = self.load.get(CLAIMS)?;
        let claims = list.get("items").and_then(Value::as_array);
        let claims = claims.context("a list of claims")?;
        let text = |claim: &Value, pointer| text(claim, pointer).unwrap_or_default().to_owned();
        let both = |claim| {
            (
                text(claim, "/metadata/name"),
                text(claim, "/spec/volumeName"),
            )
        };
        Ok(claims.iter().map(both).collect())
    }
}

fn until(what: &str, watch: &Watch, count: impl Fn(&Watch) -> usize) -> Result<()> {
    let there = watch.wait(LIMIT, COUNT, &count)?;
    ensure!(there, "{} of {COUNT} {what} after {LIMIT:?}", count(watch));
    Ok(())
}
