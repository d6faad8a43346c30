//! Effects of signals on a process, observed from outside.
//!
//! The test binary starts itself again: a child runs the test `child`, which does nothing in the
//! parent.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use sidecar::rt::{self, Exit};
use sidecar::shutdown::{Shutdown, Signal};

const ROLE: &str = "SIDECAR_TEST_ROLE";

/// Kills the child however a test ends.
struct Process {
    child: Child,
    /// The process that gets the signals.
    target: u32,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    /// Starts a child and waits until it listens to signals.
    fn start(role: &str) -> Self {
        // A background test run ignores SIGINT, and children inherit that.
        let mut env = Command::new("env");
        env.arg("--default-signal=INT,HUP")
            .arg(std::env::current_exe().unwrap());
        Self::start_as(role, env)
    }

    /// Starts a child that is process 1, as in a container; `None` if this user may not.
    fn start_as_init(role: &str) -> Option<Self> {
        let unshare = |command: &Path| {
            let mut unshare = Command::new("unshare");
            unshare
                .args(["--pid", "--fork", "--kill-child", "--"])
                .arg(command);
            unshare
        };
        let allowed = unshare(Path::new("true")).stderr(Stdio::null()).status();
        if !allowed.is_ok_and(|status| status.success()) {
            return None;
        }
        let mut process = Self::start_as(role, unshare(&std::env::current_exe().unwrap()));
        let parent = process.target;
        let children = format!("/proc/{parent}/task/{parent}/children");
        let children = std::fs::read_to_string(children).unwrap();
        process.target = children.trim().parse().unwrap();
        Some(process)
    }

    fn start_as(role: &str, mut command: Command) -> Self {
        command.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
        command
            .env(ROLE, role)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let process = Self {
            target: child.id(),
            child,
        };
        assert!(output.lines().any(|line| line.unwrap().ends_with("ready")));
        process
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args(["-s", name, &self.target.to_string()])
            .status();
        assert!(status.unwrap().success());
    }

    fn end(&mut self) -> ExitStatus {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(60) {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            // Checked again after this time.
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the process goes on");
    }
}

#[test]
#[expect(
    clippy::exit,
    clippy::disallowed_methods,
    reason = "the child's code is what is looked at"
)]
fn child() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let signals: &[Signal] = match role.as_str() {
        "both" | "deaf" => &[Signal::Terminate, Signal::Interrupt],
        "term" => &[Signal::Terminate],
        _ => &[],
    };
    let code = rt::run(async {
        let shutdown = Shutdown::listen(signals)?;
        println!("ready");
        shutdown.requested().await;
        if role == "deaf" {
            // Receives the signal and never ends.
            std::future::pending::<()>().await;
        }
        Err(Exit::with_code(42))
    });
    let code = if format!("{code:?}").contains("42") {
        42
    } else {
        3
    };
    std::process::exit(code);
}

#[test]
fn a_signal_that_is_listened_to_lets_the_program_end() {
    for (role, signal) in [("both", "TERM"), ("both", "INT"), ("term", "TERM")] {
        let mut process = Process::start(role);
        process.signal(signal);
        assert_eq!(process.end().code(), Some(42), "{role} {signal}");
    }
}

#[test]
fn other_signals_kill_as_ever() {
    for (role, signal, number) in [("term", "INT", 2), ("none", "TERM", 15), ("both", "HUP", 1)] {
        let mut process = Process::start(role);
        process.signal(signal);
        assert_eq!(process.end().signal(), Some(number), "{role} {signal}");
    }
}

#[test]
fn a_second_signal_ends_a_program_that_hangs() {
    let mut process = Process::start("deaf");
    process.signal("TERM");
    // It must not end meanwhile.
    std::thread::sleep(Duration::from_millis(300));
    assert!(process.child.try_wait().unwrap().is_none());
    process.signal("INT");
    assert_eq!(process.end().code(), Some(1));
}

/// The kernel does not deliver signals without a handler to process 1.
#[test]
fn process_1_ends_as_a_go_program_does() {
    for (role, signal, code) in [
        ("none", "TERM", 2),
        ("none", "INT", 2),
        ("none", "HUP", 2),
        ("term", "INT", 2),
        ("term", "TERM", 42),
    ] {
        let Some(mut process) = Process::start_as_init(role) else {
            return;
        };
        process.signal(signal);
        assert_eq!(process.end().code(), Some(code), "{role} {signal}");
    }
}
