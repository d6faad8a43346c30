//! A program under test as a process: its output, its end, and a guarantee that it never outlives the test.

use std::fs;
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
pub use rustix::process::Signal;
use rustix::process::{Pid, Resource, Rlimit, kill_process, prlimit};

use crate::controller::PATIENCE as START;

/// Time limit of what takes a moment: shorter than the thirty seconds for which programs wait for their driver.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until `condition` holds.
///
/// # Panics
///
/// If it does not hold within [`PATIENCE`].
pub async fn until(what: &str, condition: impl AsyncFnMut() -> bool) {
    within(PATIENCE, what, condition).await;
}

/// Waits until `condition` holds, for `limit` at most.
///
/// # Panics
///
/// If it does not hold within `limit`.
pub async fn within(limit: Duration, what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < limit, "waited {limit:?} for: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Prolongs an outage by as many minutes as the variable `AWAY_MINUTES` says, by default not at all:
/// `make long-outages`.
pub async fn stay_away() {
    let minutes = std::env::var("AWAY_MINUTES").ok();
    let minutes: u64 = minutes.map_or(0, |text| text.parse().expect("AWAY_MINUTES"));
    tokio::time::sleep(Duration::from_secs(60 * minutes)).await;
}

/// A running program, killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    started: Instant,
    stderr: Arc<Mutex<Stderr>>,
}

/// The stderr of a program so far, and the pipe with the rest.
#[derive(Debug, Default)]
struct Stderr {
    lines: Vec<(Duration, String)>,
    /// The start of an incomplete line.
    rest: Vec<u8>,
    pipe: Option<PipeReader>,
}

impl Stderr {
    /// Reads all bytes in the pipe.
    fn drain(&mut self, started: Instant) {
        let Some(pipe) = &mut self.pipe else {
            return;
        };
        let mut piece = [0; 4096];
        loop {
            match pipe.read(&mut piece) {
                Ok(0) => break,
                Ok(size) => self.rest.extend_from_slice(&piece[..size]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.split(started);
                    return;
                }
                Err(error) => panic!("the program's stderr: {error}"),
            }
        }
        self.pipe = None;
        self.split(started);
        if !self.rest.is_empty() {
            self.rest.push(b'\n');
            self.split(started);
        }
    }

    fn split(&mut self, started: Instant) {
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line[..end]).into_owned();
            self.lines.push((started.elapsed(), line));
        }
    }
}

impl Process {
    /// Starts the program.
    pub fn start(command: Command) -> Self {
        let (reader, writer) = pipe().expect("a pipe");
        let process = Self::spawn(command, writer);
        process.read(reader);
        process
    }

    /// Starts the program with a full stderr pipe that nobody reads, until the returned reader goes to
    /// [`Process::read`].
    pub fn start_unread(command: Command) -> (Self, PipeReader) {
        let (reader, writer) = pipe().expect("a pipe");
        let mut filler = writer.try_clone().expect("another handle");
        rustix::fs::fcntl_setfl(&filler, OFlags::NONBLOCK).expect("set a flag");
        let line = [&[b'x'; 4095][..], b"\n"].concat();
        while filler.write(&line).is_ok() {}
        rustix::fs::fcntl_setfl(&filler, OFlags::empty()).expect("clear a flag");
        (Self::spawn(command, writer), reader)
    }

    fn spawn(mut command: Command, stderr: PipeWriter) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr);
        let started = Instant::now();
        let child = command.spawn().expect("start the program");
        Self {
            child,
            started,
            stderr: Arc::default(),
        }
    }

    /// Reads the program's stderr from now on.
    pub fn read(&self, stderr: PipeReader) {
        rustix::fs::fcntl_setfl(&stderr, OFlags::NONBLOCK).expect("set a flag");
        let watched = stderr.try_clone().expect("another handle");
        self.stderr.lock().expect("no panic in the reader").pipe = Some(stderr);
        let (stderr, started) = (Arc::clone(&self.stderr), self.started);
        // A full pipe must never block the program.
        std::thread::spawn(move || {
            loop {
                let _ = poll(&mut [PollFd::new(&watched, PollFlags::IN)], None);
                let mut stderr = stderr.lock().expect("no panic in a test");
                stderr.drain(started);
                if stderr.pipe.is_none() {
                    return;
                }
            }
        });
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        signal_to(self.id(), signal);
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Lines on stderr so far, with the time since the start. A caller that has seen the effect after a
    /// line also sees the line: the pipe is read to its end here, not by a thread that may have to wait
    /// for a processor.
    pub fn lines(&self) -> Vec<(Duration, String)> {
        let mut stderr = self.stderr.lock().expect("no panic in the reader");
        stderr.drain(self.started);
        stderr.lines.clone()
    }

    /// Lines on stderr so far.
    pub fn log(&self) -> String {
        self.lines()
            .into_iter()
            .map(|(_, line)| line + "\n")
            .collect()
    }

    /// Whether it is still running.
    pub fn is_running(&mut self) -> bool {
        self.child
            .try_wait()
            .expect("ask about the program")
            .is_none()
    }

    /// Fails with the log if the process has ended.
    pub fn must_run(&mut self) {
        assert!(self.is_running(), "ended: {}", self.log());
    }

    /// Waits until it accepts connections at `socket`.
    pub async fn listening(&mut self, socket: &Path) {
        within(START, "the registration socket", async || {
            self.must_run();
            UnixStream::connect(socket).is_ok()
        })
        .await;
    }

    /// Waits until the log contains `text`.
    pub async fn says(&self, text: &str) {
        let start = Instant::now();
        while !self.log().contains(text) {
            assert!(
                start.elapsed() < START,
                "waited {START:?} for {text:?} in the log:\n{}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits for the end of the process.
    pub async fn ended(&mut self) -> End {
        self.ended_within(PATIENCE).await
    }

    /// Waits for the end of the process, for `limit` at most.
    pub async fn ended_within(&mut self, limit: Duration) -> End {
        let mut status = None;
        within(limit, "the end of the process", async || {
            status = self.child.try_wait().expect("ask about the program");
            status.is_some()
        })
        .await;
        let took = self.elapsed();
        let mut stdout = String::new();
        self.child
            .stdout
            .take()
            .expect("asked once")
            .read_to_string(&mut stdout)
            .expect("read what the program wrote");
        // The reader has everything once the pipe has ended and its clone of the Arc is dropped.
        until("the end of stderr", async || {
            Arc::strong_count(&self.stderr) == 1
        })
        .await;
        End {
            status: status.expect("it has ended"),
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

/// Asserts that a crash of the process would leave no core file.
///
/// # Panics
///
/// If it would, or the process does not run.
pub fn keeps_no_core(id: u32) {
    let expected = ["Max", "core", "file", "size", "0", "0", "bytes"];
    assert_eq!(limit(id, "Max core"), expected);
}

/// Asserts that the process may open as many files as the system lets it.
///
/// # Panics
/// It may not.
pub fn may_open_all_files(id: u32) {
    let words = limit(id, "Max open files");
    assert_eq!(words[3], words[4]);
}

/// The line of `/proc/ID/limits` that begins like this.
fn limit(id: u32, begin: &str) -> Vec<String> {
    let limits = fs::read_to_string(format!("/proc/{id}/limits")).expect("the program runs");
    let line = limits.lines().find(|line| line.starts_with(begin));
    let words = line.unwrap_or_default().split_whitespace();
    words.map(str::to_owned).collect()
}

/// Sends a signal to a process.
pub fn signal_to(id: u32, signal: Signal) {
    kill_process(pid(id), signal).expect("send a signal");
}

/// Limits the process to the memory that it has.
///
/// # Panics
///
/// If it does not run.
pub fn no_more_memory(id: u32) {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    prlimit(Some(pid(id)), Resource::As, none).expect("set a limit");
}

fn pid(id: u32) -> Pid {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    id.expect("a process id")
}

/// How a process ended.
#[derive(Debug)]
pub struct End {
    /// Exit code or signal.
    pub status: ExitStatus,
    /// Everything on stdout.
    pub stdout: String,
    /// Everything on stderr.
    pub stderr: String,
    /// Time since the start.
    pub took: Duration,
}

impl End {
    /// Asserts the exit code and returns the last line of stderr.
    #[track_caller]
    pub fn with_code(&self, code: i32) -> &str {
        assert_eq!(
            self.status.code(),
            Some(code),
            "{:?}: {}",
            self.status.signal(),
            self.stderr
        );
        self.stderr.lines().last().unwrap_or_default()
    }

    /// Asserts exit code 1 and that the last line contains `words`.
    #[track_caller]
    pub fn failed_naming(&self, words: &[&str]) {
        let last = self.with_code(1);
        for word in words {
            assert!(last.contains(word), "no {word:?} in: {last}");
        }
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
    }
}

/// Reports that a test is skipped because the machine refuses `what`. In continuous integration (`CI` is
/// `true`) root may do everything, so there the test fails instead.
///
/// # Panics
///
/// In continuous integration, as root.
#[allow(clippy::print_stderr, reason = "a test that shows nothing says so")]
pub fn must_not_skip(what: &str) {
    let is_integration = std::env::var("CI").is_ok_and(|it| it == "true");
    let is_root = rustix::process::geteuid().is_root();
    assert!(
        !(is_integration && is_root),
        "the machine refuses {what}, and CI=true: nothing may be skipped"
    );
    eprintln!("skipped: the machine refuses {what}");
}

/// Runs a program as process 1 of a new pid namespace; returns it with its id outside. `None` without
/// the permission to create one.
pub async fn as_init(program: &str, flags: &[String]) -> Option<(Process, u32)> {
    let allowed = Command::new("unshare")
        .args(["--pid", "--fork", "true"])
        .output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        must_not_skip("a pid namespace");
        return None;
    }
    let mut command = Command::new("unshare");
    command
        .args(["--pid", "--fork", "--kill-child", program])
        .args(flags);
    let process = Process::start(command);
    let children = format!("/proc/{0}/task/{0}/children", process.id());
    // Before exec it is still unshare, which reacts to signals differently.
    let image = fs::canonicalize(program).expect("the program exists");
    let mut child = None;
    until("process 1", async || {
        let ids = fs::read_to_string(&children).unwrap_or_default();
        child = ids.split_whitespace().next().and_then(|id| id.parse().ok());
        let image_of = |id: u32| fs::read_link(format!("/proc/{id}/exe"));
        child.is_some_and(|id| image_of(id).is_ok_and(|of| of == image))
    })
    .await;
    Some((process, child.expect("just seen")))
}
