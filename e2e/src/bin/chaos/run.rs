//! One run: users and faults, then quiet, then the audits.

mod ending;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use csi_test_driver::control::client::Client;
use csi_test_driver::invariants;
use e2e::api::Api;
use e2e::calls::Calls;
use e2e::cluster::Cluster;
use e2e::interrupt;
use e2e::suite::say;

use crate::acts::administrator::{ADMINISTRATORS, Administrator};
use crate::acts::ledger::Ledger;
use crate::acts::{Done, USERS, Users};
use crate::audit::{Expected, Finding, State, audit};
use crate::cast::Cast;
use crate::faults::Faults;
use crate::leases::Leases;
use crate::observe;
use crate::report::{Report, programs, story};
use crate::schedule::{METHODS, SNAPSHOT_METHODS, Schedule, Who};
use crate::stage::{Preexisting, Stage};
use crate::stale::stale_calls;
use crate::takeover::takeover;
use crate::users::lifetimes::lifetimes;
use crate::users::{Step, leaving, steps};

/// Interval at which processes and faults are checked.
const TICK: Duration = Duration::from_millis(50);

/// Interval between lines of progress.
const PROGRESS: Duration = Duration::from_secs(15);

/// Time that a state without damage must last: a call in progress may end later.
const LASTS: Duration = Duration::from_secs(12);

/// Deliberate damage, to test that the audit finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
    /// The driver creates a volume.
    Volume,
    /// The driver forgets its volumes.
    Forget,
    /// The driver attaches a volume.
    Attachment,
    /// The driver takes a snapshot.
    Snapshot,
}

/// Options outside the schedule.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The deliberate damage.
    pub(crate) broken: Option<Break>,
    /// Time limit for everything to settle, and for everything to be deleted.
    pub(crate) quiet: Duration,
    /// Folder for logs and the driver's record.
    pub(crate) logs: PathBuf,
}

/// The state of a run in progress.
struct Run<'s, 'a> {
    stage: &'s Stage<'a>,
    cast: Cast<'s, 'a>,
    driver: Client,
    preexisting: Preexisting,
    ledger: Arc<Ledger>,
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
    let preexisting = stage.create_namespaces()?;
    let ledger = Arc::new(Ledger::default());
    ledger.keep(&preexisting.snapshot);
    let mut run = Run {
        stage: &stage,
        cast: Cast::start(&stage, driver)?,
        driver: stage.deployment.controller.control(),
        preexisting,
        ledger,
        options: options.clone(),
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
    keep_logs(&stage.deployment.controller.dir, &options.logs)?;
    Ok(report)
}

/// Copies the logs of the programs and the driver, in place of those of an earlier run.
fn keep_logs(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let kept = { path.extension() }.is_some_and(|it| it == "log" || it == "jsonl");
        if let Some(name) = path.file_name().filter(|_| kept) {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
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
        let mut faults = Faults::new(self.stage, leases, &schedule.faults, began, &self.ledger)?;
        self.disturb(&mut faults, schedule, &done)?;
        say(&format!("{}  no more faults", faults.clock()));
        faults.end(&mut self.cast)?;
        report.users = done.told();
        let given_up = self.ledger.known().given_up.len();
        report
            .users
            .push(("calls open in journals that were deleted", given_up as u64));
        report.faults.clone_from(&faults.counts);
        report.missed = faults.missed;

        if let Some(broken) = self.options.broken {
            self.damage(broken)?;
        }
        self.detach_for_the_gone()?;
        let (found, took) = self.until_clean(Expected::Settled)?;
        (report.after_faults, report.settled) = (found, took);
        report
            .after_faults
            .extend(takeover(&mut self.cast, leases)?);
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
        report.calls = { METHODS.into_iter().chain(SNAPSHOT_METHODS) }
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

    /// Lets users work and injects faults until both have finished.
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
        let (seed, seconds) = (schedule.seed, schedule.seconds);
        let lifetimes = lifetimes(seed, seconds, schedule.claims, schedule.lifetimes);
        let theirs: Vec<Api> = (0..ADMINISTRATORS)
            .map(|_| self.stage.cluster.api())
            .collect::<Result<_>>()?;
        let (ledger, preexisting) = (&*self.ledger, self.preexisting.volume.as_str());
        let leaving = leaving(schedule.seconds);
        thread::scope(|scope| {
            let mut at_work = Vec::new();
            for (user, api) in (0..USERS).zip(&apis) {
                let users = &users;
                at_work.push(scope.spawn(move || users.work(api, steps, user)));
            }
            for (number, api) in (0..ADMINISTRATORS).zip(&theirs) {
                let administrator = Administrator {
                    users: &users,
                    api,
                    driver: self.stage.deployment.controller.control(),
                    ledger,
                    preexisting,
                };
                let lifetimes = &lifetimes;
                at_work.push(scope.spawn(move || administrator.work(lifetimes, number)));
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
                    // A driver that is down reports nothing.
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

    /// Keeps the processes running until a condition holds.
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
        observe::state(
            &self.stage.api,
            &self.driver,
            &self.preexisting.volume,
            &self.ledger,
        )
    }

    /// The damage that remains after waiting, and the seconds until there was none.
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
