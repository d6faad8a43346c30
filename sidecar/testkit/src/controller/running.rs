//! The running program, and how it ended.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use super::{PATIENCE, Program};
use crate::process::{Process, Signal};

/// The program while it runs; killed when dropped.
#[derive(Debug)]
pub struct Running(Process);

/// How the program ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit code, unless a signal killed it.
    pub code: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// Everything on stdout.
    pub stdout: String,
    /// Everything on stderr.
    pub log: String,
    /// Time since the start.
    pub took: Duration,
}

impl Running {
    /// Starts the program with these arguments, in its own environment and `more`.
    #[must_use]
    pub fn start(program: &Program, arguments: &[&str], more: &[(&str, &str)]) -> Self {
        let mut command = program.command(arguments);
        command.envs(more.iter().copied());
        Self(Process::start(command))
    }

    /// Process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// The log so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.0.log()
    }

    /// Time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// CPU time used so far.
    ///
    /// # Panics
    /// If it does not run.
    #[must_use]
    pub fn busy(&self) -> Duration {
        let path = format!("/proc/{}/stat", self.id());
        let stat = std::fs::read_to_string(path).expect("it runs");
        // The name in parentheses may have spaces; user and system time are the 14th and 15th field,
        // in hundredths of a second.
        let rest = stat.rsplit(") ").next().unwrap_or_default();
        let fields = rest.split(' ').skip(11).take(2);
        let ticks = fields.map(|field| field.parse::<u64>().expect("a number"));
        Duration::from_millis(ticks.sum::<u64>() * 10)
    }

    /// Number of TCP ports on which it listens.
    ///
    /// # Panics
    /// If it does not run.
    #[must_use]
    pub fn listeners(&self) -> usize {
        let process = format!("/proc/{}", self.id());
        let entries = std::fs::read_dir(format!("{process}/fd")).expect("it runs");
        let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        let held: Vec<String> = links.map(|to| to.to_string_lossy().into_owned()).collect();
        let tables = ["tcp", "tcp6"].map(|table| {
            std::fs::read_to_string(format!("{process}/net/{table}")).unwrap_or_default()
        });
        let lines = tables.iter().flat_map(|table| table.lines().skip(1));
        let listens = |line: &&str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields[3] == "0A" && held.contains(&format!("socket:[{}]", fields[9]))
        };
        lines.filter(listens).count()
    }

    /// Whether it is still running.
    pub fn is_running(&mut self) -> bool {
        self.0.is_running()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        self.0.signal(signal);
    }

    /// Sends SIGTERM, as kubelet does.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills it at once.
    pub async fn kill(mut self) {
        self.signal(Signal::KILL);
        self.0.ended_within(PATIENCE).await;
    }

    /// Waits until the log contains this text.
    pub async fn logs(&self, text: &str) {
        self.logs_times(text, 1).await;
    }

    /// Waits until the log contains this text `times` times.
    ///
    /// # Panics
    /// If it does not in time.
    pub async fn logs_times(&self, text: &str, times: usize) {
        let has = async {
            while self.log().matches(text).count() < times {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, has).await.is_err() {
            panic!("no {times} times {text:?} in the log:\n{}", self.log());
        }
    }

    /// Waits for its end.
    pub async fn end(mut self) -> Ended {
        let end = self.0.ended_within(PATIENCE).await;
        Ended {
            code: end.status.code(),
            signal: end.status.signal(),
            stdout: end.stdout,
            log: end.stderr,
            took: end.took,
        }
    }

    /// Sends SIGTERM and waits for its end.
    pub async fn terminated(self) -> Ended {
        self.terminate();
        self.end().await
    }
}

impl Ended {
    /// Asserts the exit code and that the log contains `text`.
    #[track_caller]
    pub fn says(&self, row: &str, code: i32, text: &str) {
        assert_eq!(self.code, Some(code), "{row}: {}", self.log);
        assert!(self.log.contains(text), "{row}, {text}: {}", self.log);
        assert!(!self.log.contains("panicked"), "{row}: {}", self.log);
    }

    /// Asserts that it exited with code 0.
    #[track_caller]
    pub fn well(&self) {
        assert_eq!((self.code, self.signal), (Some(0), None), "{}", self.log);
    }
}
