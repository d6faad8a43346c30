//! The figures of a program: file size, memory and CPU time while idle, time to start.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use std::{fmt, fs};

use figures::record::{self, OURS, Provenance};

const STARTS: usize = 30;
/// Pause before memory is read.
const REST: Duration = Duration::from_secs(3);
/// Default number of seconds for which CPU time is measured.
const WATCH: u64 = 10;

/// A started program with its environment; dropping it ends both.
pub trait Started {
    /// Process id.
    fn id(&self) -> u32;
    /// Time from exec until it was ready to work.
    fn took(&self) -> Duration;
    /// Makes it do one piece of its usual work before it is left idle.
    fn serve(&self);
}

/// Prints the figures of `program`, which `make build` has put into `bin`, and those of the binary that the environment
/// variable `other` names, if any; `make figures` finds them afterwards. `start` starts either; `of_use` names the
/// moment at which a start is over. The environment variable `IDLE_SECONDS` sets how long each is left idle while its
/// CPU time is measured, 10 by default; a program that wakes up once a minute needs several minutes.
///
/// # Panics
///
/// If a program is missing or does not start.
#[expect(clippy::print_stdout, reason = "the table is the result")]
pub fn figures<S: Started>(program: &str, other: &str, of_use: &str, start: impl Fn(&Path) -> S) {
    let bin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bin");
    let provenance = Provenance::now().expect("git");
    let mut programs = vec![(OURS, bin.join(program))];
    let other = std::env::var_os(other).filter(|path| !path.is_empty());
    programs.extend(other.map(|path| ("upstream", PathBuf::from(path))));
    println!(
        "{:>9} {:>9} {:>9} {:>10} {of_use:>20}  program",
        "size MB", "RSS MB", "anon MB", "CPU ms/h"
    );
    let mut runs = Vec::new();
    for (of, path) in programs {
        let path = path
            .canonicalize()
            .unwrap_or_else(|error| panic!("{}: {error}; run `make build`", path.display()));
        let row = Row::of(&path, &start);
        println!("{row}  {}", path.display());
        if let Some(provenance) = &provenance {
            let version = record::version(&path).filter(|_| of != OURS);
            runs.push(provenance.run("startup", of, version, row.figures(of_use)));
        }
    }
    if provenance.is_some() {
        let folder = figures::folder().join("recorded");
        record::add(&folder, program, runs).expect("the results are kept");
    }
}

struct Row {
    size: f64,
    resident: f64,
    anonymous: f64,
    /// Milliseconds of CPU time in an idle hour.
    idle: f64,
    /// Milliseconds from the start until it was ready to work: median, shortest, longest.
    starts: [f64; 3],
}

impl Row {
    #[expect(clippy::cast_precision_loss, reason = "sizes of programs")]
    fn of<S: Started>(program: &Path, start: &impl Fn(&Path) -> S) -> Self {
        let size = fs::metadata(program).expect("the program exists").len();
        let mut starts: Vec<Duration> = (0..STARTS).map(|_| start(program).took()).collect();
        starts.sort();
        let idle = start(program);
        idle.serve();
        thread::sleep(REST);
        let (resident, anonymous) = (memory(idle.id(), "VmRSS"), memory(idle.id(), "RssAnon"));
        let before = processor_time(idle.id());
        let seconds = std::env::var("IDLE_SECONDS").map(|it| it.parse().expect("IDLE_SECONDS"));
        let watch = Duration::from_secs(seconds.unwrap_or(WATCH));
        thread::sleep(watch);
        let used = processor_time(idle.id()) - before;
        let milliseconds = |took: Duration| took.as_secs_f64() * 1e3;
        Self {
            size: size as f64 / 1e6,
            resident: resident as f64 / 1e6,
            anonymous: anonymous as f64 / 1e6,
            idle: milliseconds(used) * (3600.0 / watch.as_secs_f64()),
            starts: [STARTS / 2, 0, STARTS - 1].map(|index| milliseconds(starts[index])),
        }
    }

    fn figures(&self, of_use: &str) -> [(String, f64); 5] {
        [
            ("binary, MB".to_owned(), self.size),
            ("RSS, MB".to_owned(), self.resident),
            ("of it anonymous, MB".to_owned(), self.anonymous),
            ("CPU an idle hour, ms".to_owned(), self.idle),
            (of_use.to_owned(), self.starts[0]),
        ]
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, shortest, longest] = self.starts;
        write!(
            f,
            "{:9.2} {:9.2} {:9.2} {:10.1} {:>20}",
            self.size,
            self.resident,
            self.anonymous,
            self.idle,
            format!("{median:.2} ({shortest:.2}-{longest:.2})"),
        )
    }
}

/// A line of `/proc/ID/status`, in bytes.
///
/// # Panics
///
/// If the program does not run, or the line is missing.
#[must_use]
pub fn memory(id: u32, key: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).expect("the program runs");
    let line = status.lines().find(|line| line.starts_with(key));
    let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    number.expect("a number of kilobytes") * 1024
}

/// Interval at which this process checks whether it gets CPU time.
const LOOK: Duration = Duration::from_millis(50);

/// For how long this process, and so all others on the machine, stood still between `from` and `to`. Covers only the
/// time after the first call: call it once before the measurement.
#[must_use]
pub fn stood_still(from: Instant, to: Instant) -> Duration {
    static STANDSTILLS: OnceLock<Mutex<Vec<(Instant, Instant)>>> = OnceLock::new();
    let mut first = false;
    let standstills = STANDSTILLS.get_or_init(|| {
        first = true;
        Mutex::default()
    });
    if first {
        thread::spawn(|| {
            let mut last = Instant::now();
            loop {
                thread::sleep(LOOK);
                let now = Instant::now();
                if now - last > 4 * LOOK {
                    let mut known = standstills.lock().unwrap_or_else(PoisonError::into_inner);
                    known.push((last + LOOK, now));
                }
                last = now;
            }
        });
    }
    // A standstill that has just ended is not recorded yet.
    thread::sleep(2 * LOOK);
    let known = standstills.lock().unwrap_or_else(PoisonError::into_inner);
    let within =
        |&(begin, end): &(Instant, Instant)| end.min(to).saturating_duration_since(begin.max(from));
    known.iter().map(within).sum()
}

/// The median of the pauses between these moments, in any order: a machine that stands still makes some pauses longer,
/// but never most of them.
///
/// # Panics
///
/// If there are fewer than two moments.
#[must_use]
pub fn usual_pause(moments: &[tokio::time::Instant]) -> Duration {
    let mut moments = moments.to_vec();
    moments.sort_unstable();
    let pauses = moments.windows(2).map(|pair| pair[1] - pair[0]);
    let mut pauses: Vec<Duration> = pauses.collect();
    pauses.sort_unstable();
    pauses[pauses.len() / 2]
}

/// CPU time of all threads.
fn processor_time(id: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{id}/task")).expect("the program runs");
    let of = |thread: std::io::Result<fs::DirEntry>| {
        let path = thread.expect("a thread").path().join("schedstat");
        let text = fs::read_to_string(path).expect("the thread runs");
        let number = text.split_whitespace().next();
        let number = number.and_then(|number| number.parse::<u64>().ok());
        number.expect("a number of nanoseconds")
    };
    Duration::from_nanos(threads.map(of).sum())
}

/// Waits until a program is idle: for a while it was asleep at nearly every check, and hardly ran in between. A program
/// that waits for a processor does not sleep.
///
/// # Panics
///
/// If it does not run, or does not become idle.
pub async fn at_rest(id: u32) {
    const LOOKS: usize = 30;
    const LOOK: Duration = Duration::from_millis(20);
    const ASLEEP: usize = 25;
    /// Timers of a debug build take some two milliseconds of this.
    const HARDLY: Duration = Duration::from_millis(10);
    const SAMPLING_TIMEOUT: Duration = Duration::from_secs(180);
    crate::process::within(SAMPLING_TIMEOUT, "rest", async || {
        let (before, mut asleep) = (processor_time(id), 0);
        for _ in 0..LOOKS {
            asleep += usize::from(sleeps(id));
            tokio::time::sleep(LOOK).await;
        }
        asleep >= ASLEEP && processor_time(id) - before < HARDLY
    })
    .await;
}

/// Whether no thread of it runs or waits for a processor.
fn sleeps(id: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{id}/task")).expect("the program runs");
    threads.flatten().all(|thread| {
        // A thread that has just ended does not run either.
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The name in parentheses may have spaces; the state comes after it.
        !stat
            .rsplit(") ")
            .next()
            .unwrap_or_default()
            .starts_with('R')
    })
}

/// How long its first thread was runnable without a processor.
///
/// # Panics
///
/// If the program does not run.
#[must_use]
pub fn kept_waiting(id: u32) -> Duration {
    waited(&format!("/proc/{id}/schedstat"))
}

/// How long the calling thread was runnable without a processor.
///
/// # Panics
///
/// If there is no `/proc`.
#[must_use]
pub fn kept_waiting_here() -> Duration {
    waited("/proc/thread-self/schedstat")
}

fn waited(schedstat: &str) -> Duration {
    let text = fs::read_to_string(schedstat).expect("the program runs");
    let number = text.split_whitespace().nth(1);
    let number = number.and_then(|number| number.parse::<u64>().ok());
    Duration::from_nanos(number.expect("a number of nanoseconds"))
}
