//! The program under test, in a directory of its own.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

pub(crate) use sidecar_testkit::process::{End, Process, as_init, must_not_skip, signal_to, until};

use crate::driver::{Driver, NAME};

use crate::program;
pub(crate) use crate::program::PROGRAM;
pub(crate) const ENDPOINT: &str = "/p/csi.sock";

/// A directory with the paths of the driver's socket and of the registrar's.
pub(crate) struct Seat {
    root: tempfile::TempDir,
}

impl Seat {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("reg")).unwrap();
        Self { root }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Socket of the driver.
    pub(crate) fn csi(&self) -> PathBuf {
        self.path("csi.sock")
    }

    /// Directory of the registration socket.
    pub(crate) fn directory(&self) -> PathBuf {
        self.path("reg")
    }

    /// Registration socket of the driver with the usual name.
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory().join(format!("{NAME}-reg.sock"))
    }

    /// The flags that every start needs.
    pub(crate) fn flags(&self) -> Vec<String> {
        let mut flags: Vec<_> = program::FIRST.iter().map(|it| (*it).to_owned()).collect();
        flags.extend([
            format!("--csi-address={}", self.csi().display()),
            format!("--kubelet-registration-path={ENDPOINT}"),
            format!("--plugin-registration-path={}", self.directory().display()),
            // The driver answers in the test's own thread, which may have to wait for a processor longer than the
            // default second. The last of equal flags counts.
            "--timeout=1m".to_owned(),
        ]);
        flags
    }

    pub(crate) fn command(&self, flags: &[&str]) -> Command {
        // A shell that runs the tests in the background ignores SIGINT and SIGHUP, children inherit that, and then the
        // default that some rows are about would not apply.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT,HUP", PROGRAM]);
        command.args(self.flags());
        command.args(flags.iter().map(|flag| program::flag(flag)));
        command
    }

    pub(crate) fn start(&self, flags: &[&str]) -> Process {
        Process::start(self.command(flags))
    }

    /// A driver and a registrar that has its socket.
    pub(crate) async fn running(&self, flags: &[&str]) -> (Driver, Process) {
        let driver = Driver::start(&self.csi());
        let mut process = self.start(flags);
        process.listening(&self.socket()).await;
        (driver, process)
    }

    /// Moves this file into the place of the registration socket in one step: a socket that is away is created again.
    pub(crate) fn take_place(&self, name: &str) {
        std::fs::rename(self.path(name), self.socket()).unwrap();
    }

    /// Whether the directory of the registration socket is empty.
    pub(crate) fn is_clean(&self) -> bool {
        std::fs::read_dir(self.directory())
            .unwrap()
            .next()
            .is_none()
    }
}

/// At least one of a few attempts takes no more than a second. Behind a timer each of them would take longer; a busy
/// machine only delays some.
pub(crate) async fn within_a_second(mut attempt: impl AsyncFnMut() -> Duration) {
    let mut took = Vec::new();
    for _ in 0..5 {
        took.push(attempt().await);
        if took.iter().any(|it| *it <= Duration::from_secs(1)) {
            return;
        }
    }
    panic!("{took:?}");
}
