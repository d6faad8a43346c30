//! Memory and processor time of a process, from /proc.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use e2e::interrupt;
use e2e::process::Process;

/// Resources that a process has used so far, and holds now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    /// Resident set in bytes.
    pub(crate) resident: f64,
    /// The part of it that is not backed by a file.
    pub(crate) anonymous: f64,
    /// The largest resident set so far.
    pub(crate) peak: f64,
    /// User and system time of all threads, in seconds.
    pub(crate) cpu: f64,
}

impl Usage {
    pub(crate) fn of(process: &Process) -> Result<Self> {
        let read = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", process.id()));
        let status = read("status").with_context(|| process.tail())?;
        let bytes = |key: &str| -> Result<f64> {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            let line =
                line.with_context(|| format!("no {key} in the status\n{}", process.tail()))?;
            let number = line.trim().trim_end_matches(" kB").trim();
            Ok(number.parse::<f64>()? * 1024.0)
        };
        let stat = read("stat")?;
        // The program's name may contain any characters, even blanks.
        let (_, fields) = stat.rsplit_once(')').context("no name in stat")?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let ticks = |index: usize| -> Result<f64> {
            Ok(fields.get(index).context("a short stat")?.parse()?)
        };
        let per_second = rustix::param::clock_ticks_per_second() as f64;
        Ok(Self {
            resident: bytes("VmRSS:")?,
            anonymous: bytes("RssAnon:")?,
            peak: bytes("VmHWM:")?,
            cpu: (ticks(11)? + ticks(12)?) / per_second,
        })
    }
}

/// Time without work after which a process counts as idle.
const REST: Duration = Duration::from_secs(3);

/// Processor seconds in that time that count as no work: more than renewing a lease takes on any
/// machine.
const NEXT_TO_NOTHING: f64 = 0.035;

/// Waits until the process has been idle for a while. Returns its usage then, and how long it was
/// busy.
pub(crate) fn at_rest(process: &mut Process, limit: Duration) -> Result<(Usage, Duration)> {
    let start = Instant::now();
    let (mut since, mut spent) = (start, Usage::of(process)?.cpu);
    loop {
        sleep(Duration::from_millis(100));
        interrupt::check()?;
        process.must_run()?;
        let usage = Usage::of(process)?;
        if usage.cpu - spent > NEXT_TO_NOTHING {
            (since, spent) = (Instant::now(), usage.cpu);
        } else if since.elapsed() >= REST {
            return Ok((usage, since - start));
        }
        if start.elapsed() > limit {
            bail!("still busy after {limit:?}\n{}", process.tail());
        }
    }
}
