//! `make chaos`: claims come and go on a real control plane under constant faults of everything around the controllers;
//! then an audit from outside finds lost, leaked or forgotten volumes.
//!
//! `schedule` and `users` decide beforehand, from a seed (`dice`), what happens when; `stage` holds the constant part,
//! `cast` the processes, each with its own [`link`](e2e::link) to the API server; `acts` performs the users' acts and
//! `faults` injects faults, `leases` records who leads; `observe` reads the cluster and the storage, `audit` and
//! `stale` judge them, `takeover` finds idle processes, `report` prints the result; `run` is the order of all that.
//!
//! `PROVISIONER`, `ATTACHER`, `RESIZER`, `SNAPSHOTTER` and `SNAPSHOT_CONTROLLER` name other programs to test; with
//! `SIDECARS=together` the run tests two replicas of one process that has all controllers of a driver.

mod acts;
mod audit;
mod cast;
mod dice;
mod faults;
mod leases;
#[cfg(test)]
mod links;
mod observe;
mod report;
mod run;
mod schedule;
mod stage;
mod stale;
mod takeover;
mod users;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use e2e::suite::{reasons, say};
use e2e::{interrupt, program};
use figures::record::{self, OURS, Provenance};

use crate::run::Break;
use crate::schedule::Schedule;

const USAGE: &str = "usage: chaos [--seed N] [--minutes N] [--claims N] [--schedule FILE] [--break volume|forget|attachment|snapshot] [--quiet SECONDS]";

/// The options of a run.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    seed: u64,
    minutes: u64,
    claims: u64,
    schedule: Option<PathBuf>,
    broken: Option<Break>,
    quiet: u64,
}

fn wanted(arguments: impl Iterator<Item = String>) -> Result<Wanted> {
    let mut wanted = Wanted {
        seed: 1,
        minutes: 8,
        claims: 1000,
        schedule: None,
        broken: None,
        quiet: 240,
    };
    let mut arguments = arguments.peekable();
    while let Some(flag) = arguments.next() {
        let value = arguments
            .next()
            .with_context(|| format!("{flag} needs a value\n{USAGE}"))?;
        let number = || {
            value
                .parse::<u64>()
                .with_context(|| format!("{flag} {value}"))
        };
        match flag.as_str() {
            "--seed" => wanted.seed = number()?,
            "--minutes" => wanted.minutes = number()?,
            "--claims" => wanted.claims = number()?,
            "--schedule" => wanted.schedule = Some(value.into()),
            "--quiet" => wanted.quiet = number()?,
            "--break" => {
                wanted.broken = Some(match value.as_str() {
                    "volume" => Break::Volume,
                    "forget" => Break::Forget,
                    "attachment" => Break::Attachment,
                    "snapshot" => Break::Snapshot,
                    _ => bail!("--break {value}: none of volume, forget, attachment and snapshot"),
                });
            }
            _ => bail!("{flag} is not known\n{USAGE}"),
        }
    }
    Ok(wanted)
}

fn main() -> ExitCode {
    let outcome = wanted(std::env::args().skip(1)).and_then(|wanted| chaos(&wanted));
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("{}\nchaos: FAILED", reasons(&error)));
            let stopped = interrupt::behind(&error);
            stopped.map_or(ExitCode::from(2), |signal| signal.exit_code().into())
        }
    }
}

fn chaos(wanted: &Wanted) -> Result<bool> {
    interrupt::listen()?;
    let schedule = match &wanted.schedule {
        Some(file) => read(file)?,
        None => Schedule::new(wanted.seed, wanted.minutes * 60, wanted.claims),
    };
    let file = keep(&schedule)?;
    say(&format!(
        "  seed {}, schedule {}",
        schedule.seed,
        file.display()
    ));
    let options = run::Options {
        broken: wanted.broken,
        quiet: Duration::from_secs(wanted.quiet),
        logs: file.with_extension("logs"),
    };
    let provenance = Provenance::now()?;
    let report = run::run(&schedule, &options)?;
    say(&report.text());
    if let Some(provenance) = provenance.filter(|_| options.broken.is_none()) {
        let of = if report.is_of_others() {
            "upstream"
        } else {
            OURS
        };
        let run = provenance.run(&profile(&schedule)?, of, None, report.figures());
        record::add(&figures::folder().join("recorded"), "chaos", vec![run])?;
    }
    say(&format!(
        "  logs and the driver's record: {}",
        options.logs.display()
    ));
    let verdict = if report.is_clean() {
        "nothing lost, nothing leaked, nothing left".to_owned()
    } else {
        format!(
            "FAILED, {} findings",
            report.after_faults.len() + report.at_the_end.len()
        )
    };
    say(&format!(
        "chaos: {verdict} (seed {}, again: make chaos SCHEDULE={})",
        schedule.seed,
        file.display()
    ));
    Ok(report.is_clean())
}

/// Name under which results are kept: the seed alone means a run of full length.
fn profile(schedule: &Schedule) -> Result<String> {
    let Schedule {
        seed,
        seconds,
        claims,
        ..
    } = schedule;
    let mut name = format!("seed {seed}");
    if (*seconds, *claims) != (480, 1000) {
        name = format!("{name}, {seconds} s, {claims} claims");
    }
    if program::are_together()? {
        name.push_str(", together");
    }
    Ok(name)
}

fn read(file: &PathBuf) -> Result<Schedule> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    serde_json::from_str(&text).with_context(|| format!("{} is no schedule", file.display()))
}

/// Writes the schedule to a file that outlives the run.
fn keep(schedule: &Schedule) -> Result<PathBuf> {
    let folder = program::root().join("build/chaos");
    fs::create_dir_all(&folder)?;
    let (seed, seconds, claims) = (schedule.seed, schedule.seconds, schedule.claims);
    let file = folder.join(format!("seed-{seed}-{seconds}s-{claims}.json"));
    fs::write(&file, serde_json::to_string_pretty(schedule)?)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Wanted> {
        wanted(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn the_command_line_is_read() {
        let all = parsed("--seed 3 --minutes 2 --claims 100 --break forget").unwrap();
        assert_eq!((all.seed, all.minutes, all.claims), (3, 2, 100));
        assert_eq!(all.broken, Some(Break::Forget));
        assert_eq!(parsed("").unwrap().claims, 1000);
        for wrong in ["--seed", "--seed x", "--break it", "--sed 1"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
