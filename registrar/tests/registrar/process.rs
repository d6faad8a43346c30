//! The program under test, in a directory of its own.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::driver::{Driver, NAME};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_csi-node-driver-registrar");
pub(crate) const ENDPOINT: &str = "/p/csi.sock";

/// More than anything here should ever take, on a machine that is busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until `condition` holds.
pub(crate) async fn until(what: &str, condition: impl AsyncFnMut() -> bool) {
    within(PATIENCE, what, condition).await;
}

pub(crate) async fn within(limit: Duration, what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < limit, "waited {limit:?} for: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A directory with a place for the driver's socket and one for the registrar's.
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
        vec![
            format!("--csi-address={}", self.csi().display()),
            format!("--kubelet-registration-path={ENDPOINT}"),
            format!("--plugin-registration-path={}", self.directory().display()),
        ]
    }

    pub(crate) fn command(&self, flags: &[&str]) -> Command {
        // Whoever runs the tests in the background ignores SIGINT and SIGHUP, children inherit that,
        // and then the default that some rows are about would not apply.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT,HUP", PROGRAM]);
        command.args(self.flags()).args(flags);
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

    /// Whether the directory of the registration socket is empty.
    pub(crate) fn is_clean(&self) -> bool {
        std::fs::read_dir(self.directory())
            .unwrap()
            .next()
            .is_none()
    }
}

/// A running program, killed when the test is over.
pub(crate) struct Process {
    child: Child,
    started: Instant,
    stderr: Arc<Mutex<Vec<(Duration, String)>>>,
}

impl Process {
    pub(crate) fn start(mut command: Command) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let started = Instant::now();
        let mut child = command.spawn().unwrap();
        let stderr: Arc<Mutex<Vec<_>>> = Arc::default();
        let (lines, pipe) = (Arc::clone(&stderr), child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                lines.lock().unwrap().push((started.elapsed(), line));
            }
        });
        Self {
            child,
            started,
            stderr,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        signal_to(self.id(), signal);
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Lines on stderr so far, with the time since the start.
    pub(crate) fn lines(&self) -> Vec<(Duration, String)> {
        self.stderr.lock().unwrap().clone()
    }

    pub(crate) fn log(&self) -> String {
        self.lines()
            .into_iter()
            .map(|(_, line)| line + "\n")
            .collect()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Fails with the log if the process has ended.
    pub(crate) fn must_run(&mut self) {
        assert!(self.is_running(), "ended: {}", self.log());
    }

    /// Waits until it accepts connections at `socket`.
    pub(crate) async fn listening(&mut self, socket: &Path) {
        until("the registration socket", async || {
            self.must_run();
            std::os::unix::net::UnixStream::connect(socket).is_ok()
        })
        .await;
    }

    /// Waits until the log contains `text`.
    pub(crate) async fn says(&self, text: &str) {
        until(&format!("{text:?} in the log"), async || {
            self.log().contains(text)
        })
        .await;
    }

    pub(crate) async fn ended(&mut self) -> End {
        self.ended_within(PATIENCE).await
    }

    /// Waits for the end of the process.
    pub(crate) async fn ended_within(&mut self, limit: Duration) -> End {
        let mut status = None;
        within(limit, "the end of the process", async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        let took = self.elapsed();
        let mut stdout = String::new();
        self.child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut stdout)
            .unwrap();
        // The reader has everything when the pipe is at its end and its clone of the Arc is gone.
        until("the end of stderr", async || {
            Arc::strong_count(&self.stderr) == 1
        })
        .await;
        End {
            status: status.unwrap(),
            stdout,
            stderr: self.log(),
            took,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn signal_to(id: u32, signal: Signal) {
    let id = Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
    kill_process(id, signal).unwrap();
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Since the start.
    pub(crate) took: Duration,
}

impl End {
    /// Asserts the exit code and returns the last line of stderr.
    #[track_caller]
    pub(crate) fn with_code(&self, code: i32) -> &str {
        assert_eq!(
            self.status.code(),
            Some(code),
            "{:?}: {}",
            self.status.signal(),
            self.stderr
        );
        self.stderr.lines().last().unwrap_or_default()
    }

    /// Asserts exit code 1 and that the last line says `words`.
    #[track_caller]
    pub(crate) fn failed_naming(&self, words: &[&str]) {
        let last = self.with_code(1);
        for word in words {
            assert!(last.contains(word), "no {word:?} in: {last}");
        }
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
    }
}
