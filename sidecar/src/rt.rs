//! The runtime of a program, from `main` to the exit code.
//!
//! One thread: all work of a sidecar waits on sockets, and a single-threaded runtime costs neither
//! threads nor allocator arenas. This is also the only place that prints to stdout and stderr
//! outside the log.

use std::fmt::Display;
use std::future::Future;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::build::VERSION;
use crate::csi::loss::TERMINATION_LOG;
use crate::error::Chain;

use wakeups::WakeUps;

mod wakeups;

/// How a program exits: its output and its exit code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    /// Exit code.
    pub code: u8,
    /// Printed to stdout as it is.
    pub stdout: String,
    /// Printed to stderr as it is.
    pub stderr: String,
    /// The final error: logged if the log is up, else printed to stderr as one line.
    pub error: Option<String>,
}

impl Exit {
    /// Exits without output.
    pub fn with_code(code: u8) -> Self {
        Self {
            code,
            ..Self::default()
        }
    }

    /// Exits with an error line.
    pub fn failure(code: u8, error: impl Display) -> Self {
        Self {
            error: Some(error.to_string()),
            ..Self::with_code(code)
        }
    }

    /// The output of `--version` on stdout: the program's name as started, and the version.
    pub fn version(program: &str) -> Self {
        Self {
            stdout: format!("{program} {VERSION}\n"),
            ..Self::with_code(0)
        }
    }
}

/// An error exits with code 1 and prints its causes on one line.
impl<E: std::error::Error + 'static> From<E> for Exit {
    fn from(error: E) -> Self {
        Self::failure(1, Chain(&error))
    }
}

/// Runs a program's asynchronous main function and turns its result into an exit code.
///
/// Drops tasks that still run, and does not wait for blocking ones.
pub fn run(main: impl Future<Output = Result<(), Exit>>) -> ExitCode {
    keep_no_core();
    allow_all_files();
    #[cfg(all(panic = "unwind", not(test)))]
    abort_at_a_panic();
    let wakeups = Mutex::new(WakeUps::new(Instant::now()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_park(move || rest(&wakeups))
        .build();
    let exit = match runtime {
        Ok(runtime) => {
            let end = runtime.block_on(main);
            runtime.shutdown_background();
            end.err().unwrap_or_default()
        }
        Err(error) => Exit::failure(1, format_args!("cannot start the runtime: {error}")),
    };
    finish(&exit)
}

/// Called before the thread waits. Sleeps blocking, so that nothing wakes it meanwhile.
fn rest(wakeups: &Mutex<WakeUps>) {
    let mut wakeups = wakeups.lock().unwrap_or_else(PoisonError::into_inner);
    let rest = wakeups.rest(Instant::now());
    if !rest.is_zero() {
        std::thread::sleep(rest);
    }
}

/// Disables core files: one would contain tokens and Secrets, and a panic aborts.
fn keep_no_core() {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    // Every process may lower a limit.
    let _ = setrlimit(Resource::Core, none);
}

/// Raises the number of files that this process may open to the highest allowed, as every Go program does. Container runtimes
/// start with 1,024, which is less than the connections that a program with limits of its own accepts.
fn allow_all_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: maximum,
        maximum,
    };
    // Every process may raise it that far.
    let _ = setrlimit(Resource::Nofile, all);
}

/// Aborts at a panic by a hook. Released programs abort anyway (`panic = "abort"`). Programs compiled for tests unwind,
/// as the test harness must, and the runtime would swallow the panic of a task.
#[cfg(all(panic = "unwind", not(test)))]
fn abort_at_a_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}

/// Prints the output of an [`Exit`] and returns its code.
pub fn finish(exit: &Exit) -> ExitCode {
    // A closed stdout or stderr does not change the exit code.
    let _ = std::io::stdout().write_all(exit.stdout.as_bytes());
    let _ = std::io::stdout().flush();
    let _ = std::io::stderr().write_all(exit.stderr.as_bytes());
    match &exit.error {
        Some(error) if crate::log::is_up() => tracing::error!("{error}"),
        Some(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
        }
        None => {}
    }
    if is_container(std::process::id()) {
        leave_note(exit, Path::new(TERMINATION_LOG));
    }
    crate::log::flush();
    ExitCode::from(exit.code)
}

/// Whether the process is its container's main process. A program started beside it (`kubectl exec`, a probe) must not
/// overwrite the container's own termination message.
fn is_container(process: u32) -> bool {
    process == 1
}

/// Writes the final error to the file from which kubelet takes the container's termination message. Outside a pod there
/// is no such file.
fn leave_note(exit: &Exit, termination_log: &Path) {
    let mut options = std::fs::OpenOptions::new();
    let options = options.write(true).truncate(true);
    if let Some(error) = &exit.error
        && let Ok(mut file) = options.open(termination_log)
    {
        let _ = file.write_all(error.as_bytes());
    }
}

/// A number in `[0, 1)` for jitter. Not for secrets.
pub fn unit_random() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    // The standard library seeds its hash maps from the operating system; no crate is needed.
    let bits = RandomState::new().hash_one(0_u8) >> 40;
    f64::from(u32::try_from(bits).unwrap_or(0)) / f64::from(1_u32 << 24)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_ends_with_code_1_and_its_causes() {
        fn fails() -> Result<(), Exit> {
            Err(std::io::Error::other("boom"))?;
            Ok(())
        }
        let exit = fails().unwrap_err();
        assert_eq!(exit, Exit::failure(1, "boom"));
    }

    #[test]
    fn random_numbers_differ_and_stay_in_the_unit_interval() {
        let numbers: Vec<_> = (0..100).map(|_| unit_random()).collect();
        assert!(numbers.iter().all(|n| (0.0..1.0).contains(n)));
        assert!(numbers.iter().any(|n| *n < 0.5) && numbers.iter().any(|n| *n >= 0.5));
    }

    #[test]
    fn o_74_the_final_error_is_left_for_kubelet() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("termination-log");
        leave_note(&Exit::failure(1, "--flag=x: no"), &log);
        assert!(!log.exists(), "outside a pod nothing is made");
        for (exit, left) in [
            (Exit::with_code(1), "earlier words"),
            (Exit::failure(1, "--flag=x: no"), "--flag=x: no"),
            (Exit::failure(255, "no"), "no"),
        ] {
            std::fs::write(&log, "earlier words").unwrap();
            leave_note(&exit, &log);
            assert_eq!(std::fs::read_to_string(&log).unwrap(), left);
        }
    }

    #[test]
    fn o_74_a_program_started_beside_the_container_s_own_leaves_no_note() {
        assert!(is_container(1));
        assert!(!is_container(std::process::id()), "a test is no container");
    }

    #[test]
    fn version_goes_to_stdout() {
        let exit = Exit::version("/x/csi-attacher");
        assert_eq!(
            (exit.code, exit.stdout.as_str()),
            (0, format!("/x/csi-attacher {VERSION}\n").as_str())
        );
    }

    #[test]
    fn the_runtime_drives_timers_and_returns_the_code() {
        let code = run(async {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            Err(Exit::with_code(7))
        });
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::from(7)));
    }
}
