//! A controller under test: the built program beside the model API server and the model driver.
//!
//! [`Program`] says what tests have to know of it, as a value. [`Stage`] is a cluster and a driver on
//! which it is started, [`Running`] the program while it runs. What all controllers have to do is
//! tested by [`contract!`](crate::contract), with the work that [`Work`] describes.

pub mod contract;
mod running;
mod stage;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tokio::time::sleep;

pub use crate::address::free_address;
pub use running::{Ended, Running};
pub use stage::Stage;

/// Longer than anything takes that works, also on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// The namespace of leases in tests.
pub const NAMESPACE: &str = "ns";

/// Flags that turn the election on.
pub const ELECTION: [&str; 2] = ["--leader-election", "--leader-election-namespace=ns"];

/// The rules by which a command line is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Go's package `flag`.
    Go,
    /// pflag.
    Pflag,
}

/// A program that does the work of any controller, when it is told of which.
const ALL_IN_ONE: &str = "csi-sidecars";

/// A program under test.
#[derive(Debug)]
pub struct Program {
    /// Its file, of this build: `env!("CARGO_BIN_EXE_…")`.
    pub built: &'static str,
    /// A variable of the environment that may name another build, or `csi-sidecars`.
    pub variable: &'static str,
    /// What it logs when it begins to work.
    pub ready: &'static str,
    /// How it reads its command line.
    pub dialect: Dialect,
    /// The exit code of a start that fails.
    pub fatal: i32,
    /// Name of the driver in tests; empty for a program that knows none.
    pub driver: &'static str,
    /// Name of its lease, with that driver.
    pub lease: &'static str,
    /// The flag for how much it does at the same time.
    pub workers: &'static str,
    /// Flags that it has on every stage, so that it does not wait for minutes between two looks.
    pub arguments: &'static [&'static str],
    /// Variables of its environment, which has no others.
    pub environment: &'static [(&'static str, &'static str)],
    /// A piece of work of the usual sort.
    pub work: Work,
    /// What it must be allowed: API group, resources and verbs, separated by commas.
    pub permissions: &'static [(&'static str, &'static str, &'static str)],
    /// Of these, group, resource and a verb without which no work gets done.
    pub withheld: (&'static str, &'static str, &'static str),
}

/// A piece of work, of which the contract needs many that are alike and numbered from 0.
#[derive(Debug)]
pub struct Work {
    /// Gives the stage what so many pieces need, before the program is started.
    pub prepare: fn(&Stage, usize),
    /// Asks for one.
    pub ask: fn(&Stage, usize),
    /// Whether it is done.
    pub is_done: fn(&Stage, usize) -> bool,
    /// What the program does for it, once.
    pub effect: Effect,
}

/// The outward step of a piece of work.
#[derive(Clone, Copy, Debug)]
pub enum Effect {
    /// A call to the driver.
    Call(&'static str),
    /// A request to the API server: method and pattern of the path.
    Request(&'static str, &'static str),
}

impl Program {
    /// The file that is run.
    #[must_use]
    pub fn path(&self) -> String {
        std::env::var(self.variable).unwrap_or_else(|_| self.built.to_owned())
    }

    /// What a file of several controllers is told, to be this one alone.
    fn chosen(&self, path: &str) -> Option<String> {
        let name = |path: &str| Path::new(path).file_name()?.to_str().map(str::to_owned);
        let own = name(self.built)?;
        let is_one_of_many = own != ALL_IN_ONE && name(path)? == ALL_IN_ONE;
        is_one_of_many.then(|| format!("--controllers={own}"))
    }

    /// The command with these arguments, in the environment that the program names.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let path = self.path();
        let mut command = Command::new(&path);
        command.args(self.chosen(&path)).args(arguments);
        command.env_clear();
        command.envs(self.environment.iter().copied());
        command
    }

    /// Starts it with these arguments alone.
    #[must_use]
    pub fn start(&self, arguments: &[&str]) -> Running {
        Running::start(self, arguments, &[])
    }

    /// Runs it to its end.
    pub async fn run(&self, arguments: &[&str]) -> Ended {
        self.start(arguments).end().await
    }

    /// Namespace and name of its lease.
    #[must_use]
    pub fn lease(&self) -> String {
        format!("{NAMESPACE}/{}", self.lease)
    }

    /// Whether it knows a driver.
    #[must_use]
    pub fn has_driver(&self) -> bool {
        !self.driver.is_empty()
    }
}

/// Status and body of a GET, as soon as somebody listens.
pub async fn get(address: &str, path: &str) -> (u16, String) {
    crate::process::within(PATIENCE, address, async || {
        tokio::net::TcpStream::connect(address).await.is_ok()
    })
    .await;
    let answer = crate::http::get(address, path).await;
    (answer.status, answer.body)
}

/// Waits for a GET to be answered like this.
///
/// # Panics
/// It is not.
pub async fn until_answer(address: &str, path: &str, status: u16, text: &str) -> String {
    let mut last = (0, String::new());
    let answers = async {
        while last.0 != status || !last.1.contains(text) {
            last = get(address, path).await;
            sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, answers).await;
    assert!(waited.is_ok(), "{path}: no {status} {text:?}: {last:?}");
    last.1
}

/// Waits for metrics with this text, and returns them.
///
/// # Panics
/// They do not come.
pub async fn until_metrics(address: &str, text: &str) -> String {
    let mut metrics = String::new();
    let has = async {
        while !metrics.contains(text) {
            metrics = get(address, "/metrics").await.1;
            sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, has).await;
    assert!(waited.is_ok(), "no {text:?} in:\n{metrics}");
    metrics
}

/// Long enough for whatever should not happen.
pub async fn settle() {
    sleep(Duration::from_millis(700)).await;
}
