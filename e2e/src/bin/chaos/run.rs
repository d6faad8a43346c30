//! One run: users and faults, then quiet, then the audits.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use csi_test_driver::control::client::Client;
use csi_test_driver::invariants;
use e2e::api::Api;
use e2e::calls::Calls;
use e2e::cluster::Cluster;
use e2e::interrupt;
use e2e::suite::say;
use serde_json::json;

use crate::acts::{Done, USERS, Users, count};
use crate::audit::{Expected, Finding, State, Volume, audit};
use crate::cast::Cast;
use crate::faults::Faults;
use crate::leases::Leases;
use crate::observe;
use crate::report::{Report, programs, story};
use crate::schedule::{METHODS, Schedule, Who};
use crate::stage::{DRIVER, Stage, node, node_id};
use crate::stale::stale_calls;
use crate::users::{Step, leaving, steps};

/// How often processes are looked after and faults are looked for.
const TICK: Duration = Duration::from_millis(50);

/// How often a line of progress is printed.
const PROGRESS: Duration = Duration::from_secs(15);

/// A state without damage must last: a call that is still under way may end after it.
const LASTS: Duration = Duration::from_secs(12);

/// Damage that is done on purpose, to see that it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
    /// A volume is made at the driver.
    Volume,
    /// The driver forgets its volumes.
    Forget,
    /// A volume is attached at the driver.
    Attachment,
}

/// What is not part of the schedule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// Damage to be found.
    pub(crate) broken: Option<Break>,
    /// How long everything may take to settle, and to go.
    pub(crate) quiet: Duration,
}

/// Everything that a run needs while it lasts.
struct Run<'s, 'a> {
    stage: &'s Stage<'a>,
    cast: Cast<'s, 'a>,
    driver: Client,
    /// The volume that belongs to no claim.
    aside: String,
    options: Options,
}

/// Runs a schedule on a cluster of its own.
pub(crate) fn run(schedule: &Schedule, options: &Options) -> Result<Report> {
    let flags = ["--proxy=on", "--controllers=storage", "--audit=off"];
    let cluster = Cluster::up(&e2e::cluster::Options {
        nodes: 1,
        flags: flags.map(str::to_owned).to_vec(),
    })?;
    let report = on(&cluster, schedule, options)?;
    cluster.down()?;
    Ok(report)
}

fn on(cluster: &Cluster, schedule: &Schedule, options: &Options) -> Result<Report> {
    let stage = Stage::build(cluster)?;
    let driver = stage.start_driver()?;
    let aside = stage.furnish()?;
    let mut run = Run {
        stage: &stage,
        cast: Cast::start(&stage, driver)?,
        driver: stage.deployment.controller.control(),
        aside,
        options: *options,
    };
    let mut report = Report {
        programs: programs()?,
        ..Report::default()
    };
    let leases = Leases::default();
    let stop = AtomicBool::new(false);
    let watcher = cluster.api()?;
    thread::scope(|scope| {
        scope.spawn(|| leases.watch(&watcher, &stage.namespace(), &stop));
        let done = run.all(&leases, schedule, &mut report);
        stop.store(true, Ordering::Relaxed);
        done
    })?;
    Ok(report)
}

impl Run<'_, '_> {
    fn all(&mut self, leases: &Leases, schedule: &Schedule, report: &mut Report) -> Result<()> {
        for who in Who::ALL {
            self.until(&format!("a {} leads", who.program()), || {
                leases.holder(who).is_some()
            })?;
        }
        say(&format!(
            "  {} claims and {} faults in {} s",
            schedule.claims,
            schedule.faults.len(),
            schedule.seconds
        ));
        let began = Instant::now();
        let done = Done::default();
        let mut faults = Faults::new(self.stage, leases, &schedule.faults, began)?;
        self.disturb(&mut faults, schedule, &done)?;
        say(&format!("{}  no more faults", faults.clock()));
        faults.end(&mut self.cast)?;
        report.users = told(&done);
        report.faults.clone_from(&faults.counts);
        report.missed = faults.missed;

        if let Some(broken) = self.options.broken {
            self.damage(broken)?;
        }
        self.detach_for_the_gone()?;
        let (found, took) = self.until_clean(Expected::Settled)?;
        (report.after_faults, report.settled) = (found, took);
        say(&format!(
            "{}  settled; everything is deleted",
            faults.clock()
        ));
        self.delete_all()?;
        let (found, took) = self.until_clean(Expected::Empty)?;
        (report.at_the_end, report.emptied) = (found, took);

        let calls = Calls::read(&self.stage.deployment.controller.record())?;
        let all: Vec<_> = calls.iter().cloned().collect();
        let stale = stale_calls(&all, &faults.silenced, &leases.all());
        report.after_faults.extend(stale);
        for violation in invariants::check(&all, &invariants::Options::default()) {
            let rule = format!("{:?}", violation.invariant);
            let story = story(&all, &violation);
            report.broken_rules.entry(rule).or_default().push(story);
        }
        report.calls = { METHODS.into_iter() }
            .map(|method| {
                let calls = calls.of(method);
                let ok = calls
                    .iter()
                    .filter(|call| call.code.as_deref() == Some("OK"));
                (method, calls.count(), ok.count())
            })
            .collect();
        report.starts = self.starts();
        Ok(())
    }

    /// Users work and things go wrong until both have come to their end.
    fn disturb(
        &mut self,
        faults: &mut Faults<'_, '_>,
        schedule: &Schedule,
        done: &Done,
    ) -> Result<()> {
        let steps = steps(schedule.seed, schedule.seconds, schedule.claims);
        let began = Instant::now();
        let stop = AtomicBool::new(false);
        let users = Users {
            began,
            stop: &stop,
            done,
        };
        let steps: &[Step] = &steps;
        let apis: Vec<Api> = (0..USERS)
            .map(|_| self.stage.cluster.api())
            .collect::<Result<_>>()?;
        let another = self.stage.cluster.api()?;
        let leaving = leaving(schedule.seconds);
        thread::scope(|scope| {
            let mut at_work = Vec::new();
            for (user, api) in (0..USERS).zip(&apis) {
                let users = &users;
                at_work.push(scope.spawn(move || users.work(api, steps, user)));
            }
            at_work.push(scope.spawn(|| users.leave(&another, &leaving)));
            let end = began + Duration::from_secs(schedule.seconds);
            let mut told = Instant::now();
            let mut go_on = || {
                interrupt::check()?;
                faults.proceed(&mut self.cast)?;
                self.cast.keep()?;
                if told.elapsed() > PROGRESS {
                    told = Instant::now();
                    // A driver that is away has told nothing.
                    let stored = observe::stored_now(&self.driver)
                        .map_or("?".to_owned(), |it| it.to_string());
                    say(&format!(
                        "{}  {}; {stored} volumes in the storage",
                        faults.clock(),
                        done.line()
                    ));
                }
                thread::sleep(TICK);
                anyhow::Ok(())
            };
            let mut went = Ok(());
            while went.is_ok()
                && (Instant::now() < end || at_work.iter().any(|it| !it.is_finished()))
            {
                went = go_on();
                if Instant::now() > end + self.options.quiet {
                    break;
                }
            }
            stop.store(true, Ordering::Relaxed);
            went
        })
    }

    /// Looks after processes until something is so.
    fn until(&mut self, what: &str, is: impl Fn() -> bool) -> Result<()> {
        let began = Instant::now();
        while !is() {
            interrupt::check()?;
            anyhow::ensure!(
                began.elapsed() < Duration::from_secs(60),
                "{what}: not within 60 s"
            );
            self.cast.keep()?;
            thread::sleep(TICK);
        }
        Ok(())
    }

    fn rest(&mut self, period: Duration) -> Result<()> {
        let end = Instant::now() + period;
        while Instant::now() < end {
            interrupt::check()?;
            self.cast.keep()?;
            thread::sleep(TICK);
        }
        Ok(())
    }

    fn look(&self) -> Result<State> {
        observe::state(&self.stage.api, &self.driver, &self.aside)
    }

    /// What is still wrong when it has been given time, and when nothing was wrong any more.
    fn until_clean(&mut self, expected: Expected) -> Result<(Vec<Finding>, Option<f64>)> {
        let began = Instant::now();
        let mut clean_since: Option<Instant> = None;
        loop {
            let found = match self.look() {
                Ok(state) => audit(&state, expected),
                Err(_) if began.elapsed() < self.options.quiet => {
                    clean_since = None;
                    self.rest(Duration::from_secs(1))?;
                    continue;
                }
                Err(error) => return Err(error.context("the last look")),
            };
            if !found.is_empty() {
                clean_since = None;
                if began.elapsed() > self.options.quiet {
                    return Ok((found, None));
                }
            } else if { *clean_since.get_or_insert_with(Instant::now) }.elapsed() > LASTS {
                let took = clean_since.map(|since| since.duration_since(began));
                return Ok((found, took.map(|took| took.as_secs_f64())));
            }
            self.rest(Duration::from_secs(2))?;
        }
    }

    /// What the attach-detach controller does when there is no pod any more.
    fn detach_for_the_gone(&mut self) -> Result<()> {
        let state = self.look().context("a first look")?;
        for object in &state.attachments {
            let volume = state.volumes.iter().find(|it| it.name == object.volume);
            let used = volume.is_some_and(|volume| {
                let mut claims = state.claims.iter();
                claims.any(|it| it.uid == volume.claim && !it.terminating)
            });
            if !used {
                let path = format!("{}/{}", observe::ATTACHMENTS, object.name);
                self.stage.api.delete(&path)?;
            }
        }
        Ok(())
    }

    fn delete_all(&mut self) -> Result<()> {
        let state = self.look()?;
        let api = &self.stage.api;
        for object in &state.attachments {
            api.delete(&format!("{}/{}", observe::ATTACHMENTS, object.name))?;
        }
        for namespace in &state.namespaces {
            api.delete(&format!("{}/{}", observe::NAMESPACES, namespace.name))?;
        }
        Ok(())
    }

    /// Damage on purpose.
    fn damage(&self, broken: Break) -> Result<()> {
        let state = self.look()?;
        // One that is in use: what is deleted anyway, nobody misses.
        let used = |volume: &&Volume| {
            let mut claims = state.claims.iter();
            claims.any(|it| it.uid == volume.claim && it.bound && !it.terminating)
        };
        let handle = state.volumes.iter().find(used).map(|it| it.handle.clone());
        let handle = handle.context("a volume to do damage to")?;
        match broken {
            Break::Volume => {
                let name = "pvc-00000000-made-by-hand".to_owned();
                self.driver.make_volumes(&[name], 1 << 20)?;
            }
            Break::Forget => {
                let body = json!({ "volumes": [handle] });
                self.driver.ask("POST", "/forget", Some(&body))?;
            }
            Break::Attachment => {
                let node = node_id(&node(0));
                let body = json!({ "volume": handle, "node": node, "attached": true });
                self.driver.ask("POST", "/attachment", Some(&body))?;
            }
        }
        say(&format!(
            "  damage is done on purpose: {broken:?}, {DRIVER}"
        ));
        Ok(())
    }

    fn starts(&self) -> Vec<(String, u64, u64)> {
        let mut all: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for replica in &self.cast.replicas {
            let entry = all.entry(replica.program()).or_default();
            entry.0 += replica.starts;
            entry.1 += replica.ended_itself;
        }
        let all = all.into_iter();
        all.map(|(program, (starts, itself))| (program.to_owned(), starts, itself))
            .collect()
    }
}

/// What users did, for the table.
fn told(done: &Done) -> Vec<(&'static str, u64)> {
    vec![
        ("claims created", count(&done.created)),
        ("of them clones of claims", count(&done.clones)),
        ("of them restored from snapshots", count(&done.restores)),
        ("claims deleted by their owners", count(&done.deleted)),
        (
            "namespaces deleted with all their claims",
            count(&done.namespaces),
        ),
        ("claims made larger", count(&done.grown)),
        ("volumes attached", count(&done.attached)),
        ("volumes detached", count(&done.detached)),
        (
            "left out, their claim being gone or without volume",
            count(&done.left_out),
        ),
    ]
}
