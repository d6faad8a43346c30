//! A controller under test: the built program with the model API server and the model driver.
//!
//! [`Program`] describes it to tests. [`Stage`] is a cluster and a driver on which it is started,
//! [`Running`] the running program. [`contract!`](crate::contract) tests the behaviour of all
//! controllers, with the work that [`Work`] describes.

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

/// Time limit of anything that works, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// The namespace of leases in tests.
pub const NAMESPACE: &str = "ns";

/// Flags that enable leader election, with a lease that no busy machine loses.
pub const ELECTION: [&str; 4] = [
    "--leader-election",
    "--leader-election-namespace=ns",
    "--leader-election-lease-duration=60s",
    "--leader-election-renew-deadline=45s",
];

/// The Go package whose rules a command line follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Go's package `flag`.
    Go,
    /// pflag.
    Pflag,
}

/// The program that runs any controllers, chosen by a flag.
const ALL_IN_ONE: &str = "csi-sidecars";

/// A program under test.
#[derive(Debug)]
pub struct Program {
    /// Path of its file in this build: `env!("CARGO_BIN_EXE_…")`.
    pub built: &'static str,
    /// An environment variable that may name another build, or `csi-sidecars`.
    pub variable: &'static str,
    /// The log message with which it begins to work.
    pub ready: &'static str,
    /// The rules of its command line.
    pub dialect: Dialect,
    /// The exit code of a failed start.
    pub fatal: i32,
    /// Name of the driver in tests; empty for a program without driver.
    pub driver: &'static str,
    /// Name of its lease with that driver.
    pub lease: &'static str,
    /// The flag for the number of workers.
    pub workers: &'static str,
    /// Flags on every stage, which shorten intervals of minutes.
    pub arguments: &'static [&'static str],
    /// Its complete environment.
    pub environment: &'static [(&'static str, &'static str)],
    /// The usual work of the program.
    pub work: Work,
    /// Its permissions: API group, resources and verbs, separated by commas.
    pub permissions: &'static [(&'static str, &'static str, &'static str)],
    /// One of these permissions without which it cannot work: group, resource and verb.
    pub withheld: (&'static str, &'static str, &'static str),
}

/// A kind of work, of which the contract needs many similar pieces, numbered from 0.
#[derive(Debug)]
pub struct Work {
    /// Prepares the stage for this many pieces, before the program starts.
    pub prepare: fn(&Stage, usize),
    /// Requests a piece.
    pub ask: fn(&Stage, usize),
    /// Whether the piece is done.
    pub is_done: fn(&Stage, usize) -> bool,
    /// The one call or request that the program makes for a piece.
    pub effect: Effect,
    /// Path of a piece's object below `/why/`, without the number at its end.
    pub subject: &'static str,
}

/// The externally visible step of a piece of work.
#[derive(Clone, Copy, Debug)]
pub enum Effect {
    /// A call to the driver.
    Call(&'static str),
    /// A request to the API server: method and pattern of the path.
    Request(&'static str, &'static str),
}

impl Program {
    /// The path of the program's file.
    #[must_use]
    pub fn path(&self) -> String {
        std::env::var(self.variable).unwrap_or_else(|_| self.built.to_owned())
    }

    /// The flag that makes a program of several controllers run this one alone.
    fn chosen(&self, path: &str) -> Option<String> {
        let name = |path: &str| Path::new(path).file_name()?.to_str().map(str::to_owned);
        let own = name(self.built)?;
        let is_one_of_many = own != ALL_IN_ONE && name(path)? == ALL_IN_ONE;
        is_one_of_many.then(|| format!("--controllers={own}"))
    }

    /// The command with these arguments, in the program's environment.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let path = self.path();
        let mut command = Command::new(&path);
        command.args(self.chosen(&path)).args(arguments);
        command.env_clear();
        command.envs(self.environment.iter().copied());
        command
    }

    /// Starts the program with exactly these arguments.
    #[must_use]
    pub fn start(&self, arguments: &[&str]) -> Running {
        Running::start(self, arguments, &[])
    }

    /// Runs the program to its end.
    pub async fn run(&self, arguments: &[&str]) -> Ended {
        self.start(arguments).end().await
    }

    /// Namespace and name of the program's lease.
    #[must_use]
    pub fn lease(&self) -> String {
        format!("{NAMESPACE}/{}", self.lease)
    }

    /// Whether the program has a driver.
    #[must_use]
    pub fn has_driver(&self) -> bool {
        !self.driver.is_empty()
    }
}

/// Status and body of a GET, once the address accepts connections.
pub async fn get(address: &str, path: &str) -> (u16, String) {
    crate::process::within(PATIENCE, address, async || {
        tokio::net::TcpStream::connect(address).await.is_ok()
    })
    .await;
    let answer = crate::http::get(address, path).await;
    (answer.status, answer.body)
}

/// Waits until a GET returns this status, and a body that contains this text.
///
/// # Panics
/// If it does not in time.
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

/// Waits for metrics that contain this text, and returns them.
///
/// # Panics
/// If they do not appear in time.
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

/// Waits long enough for an unwanted effect to show.
pub async fn settle() {
    sleep(Duration::from_millis(700)).await;
}
