//! What signals do to a process, seen from outside.
//!
//! The test binary starts itself again: a child runs `child`, which does nothing in the parent.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use sidecar::rt::{self, Exit};
use sidecar::shutdown::{Shutdown, Signal};

const ROLE: &str = "SIDECAR_TEST_ROLE";

/// Kills the child on every way out of a test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    /// Starts a child and waits until it listens to signals.
    fn start(role: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
        command
            .env(ROLE, role)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut process = Self(command.spawn().unwrap());
        let mut lines = BufReader::new(process.0.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().ends_with("ready")));
        process
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args(["-s", name, &self.0.id().to_string()])
            .status();
        assert!(status.unwrap().success());
    }

    fn end(&mut self) -> ExitStatus {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(10) {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
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
            // Looks at the signal and never ends.
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
    std::thread::sleep(Duration::from_millis(300));
    assert!(process.0.try_wait().unwrap().is_none());
    process.signal("INT");
    assert_eq!(process.end().code(), Some(1));
}
