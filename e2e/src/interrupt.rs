//! The user's request to stop: Ctrl-C, SIGTERM, SIGHUP.
//!
//! A signal does not end the program: it has to take down first what it started. So the signal is
//! recorded, and whoever waits or begins a step finds it and fails as for any other reason. Programs
//! that never call [`listen`] die of signals as usual.

use std::fmt;
use std::future::poll_fn;
use std::process::exit;
use std::sync::atomic::{AtomicI32, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::process;
use crate::suite::say;

/// The signal that no code has reacted to yet; 0 for none.
static PENDING: AtomicI32 = AtomicI32::new(0);

/// Time within which a second signal belongs to the same key press: it may come from the terminal
/// and from `make`, which forwards it.
const SAME_WISH: Duration = Duration::from_secs(1);

/// The user has stopped the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted {
    signal: i32,
}

impl Interrupted {
    /// The exit code that shells expect after this signal.
    pub fn exit_code(self) -> u8 {
        u8::try_from(128 + self.signal).unwrap_or(u8::MAX)
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.signal {
            1 => "SIGHUP",
            2 => "SIGINT",
            15 => "SIGTERM",
            _ => "a signal",
        };
        write!(f, "interrupted by {name}")
    }
}

impl std::error::Error for Interrupted {}

/// Records signals from now on, and prints each. A further one, at least a second later, kills the
/// process and everything that it started: the user insists.
pub fn listen() -> Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let entered = runtime.enter();
    let mut signals = Vec::new();
    for (kind, number) in [
        (SignalKind::hangup(), 1),
        (SignalKind::interrupt(), 2),
        (SignalKind::terminate(), 15),
    ] {
        signals.push((signal(kind)?, number));
    }
    drop(entered);
    let thread = thread::Builder::new().name("signals".to_owned());
    thread.spawn(move || {
        let interrupted = runtime.block_on(next(&mut signals));
        PENDING.store(interrupted.signal, Ordering::SeqCst);
        say(&format!(
            "\n  {interrupted}: taking everything down (once more: end at once)"
        ));
        let began = Instant::now();
        loop {
            let again = runtime.block_on(next(&mut signals));
            if began.elapsed() > SAME_WISH {
                end_now(again);
            }
        }
    })?;
    Ok(())
}

async fn next(signals: &mut [(Signal, i32)]) -> Interrupted {
    poll_fn(|context| {
        for (signal, number) in &mut *signals {
            if signal.poll_recv(context).is_ready() {
                return Poll::Ready(Interrupted { signal: *number });
            }
        }
        Poll::Pending
    })
    .await
}

#[expect(
    clippy::disallowed_methods,
    clippy::exit,
    reason = "the user insists, and whatever hangs must not stop it; the cluster ends with us"
)]
fn end_now(interrupted: Interrupted) -> ! {
    process::kill_all();
    exit(i32::from(interrupted.exit_code()))
}

/// Returns a recorded signal once: taking everything down afterwards has to wait as well.
pub fn take() -> Option<Interrupted> {
    match PENDING.swap(0, Ordering::SeqCst) {
        0 => None,
        signal => Some(Interrupted { signal }),
    }
}

/// The signal that an error comes from, or one that arrived during another failure: a program that
/// the same key press ended may fail before anything checks for a signal.
pub fn behind(error: &anyhow::Error) -> Option<Interrupted> {
    { error.chain() }
        .find_map(|cause| cause.downcast_ref().copied())
        .or_else(take)
}

/// Fails if a signal was recorded.
pub fn check() -> Result<()> {
    match take() {
        None => Ok(()),
        Some(interrupted) => Err(interrupted.into()),
    }
}
