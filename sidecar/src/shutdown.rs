//! Signals that terminate the process.

use std::io;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// A signal a program can react to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM, which kubelet sends.
    Terminate,
    /// SIGINT, from a terminal.
    Interrupt,
}

impl Signal {
    fn kind(self) -> SignalKind {
        match self {
            Self::Terminate => SignalKind::terminate(),
            Self::Interrupt => SignalKind::interrupt(),
        }
    }
}

/// Whether a process, or a part of it, should end; clones share the state.
#[derive(Clone, Debug)]
pub struct Requested(watch::Receiver<bool>);

impl Requested {
    /// A channel whose sender requests the end.
    #[must_use]
    pub fn channel() -> (watch::Sender<bool>, Self) {
        let (sender, requested) = watch::channel(false);
        (sender, Self(requested))
    }

    /// Resolves once the end is requested, or the sender is gone.
    pub async fn requested(&self) {
        let mut requested = self.0.clone();
        let _ = requested.wait_for(|requested| *requested).await;
    }
}

/// Listens for signals until dropped.
#[derive(Debug)]
pub struct Shutdown {
    requested: Requested,
    since: Arc<OnceLock<Instant>>,
    task: JoinHandle<()>,
}

/// Exit code of a Go program that is killed by a signal as process 1.
const DIED_AS_INIT: i32 = 2;
/// Exit code after a second signal.
const ABORTED: i32 = 1;

impl Shutdown {
    /// Handles the `listened` signals: the first one resolves [`Shutdown::requested`], a second one
    /// ends the process at once with code 1.
    ///
    /// The others of SIGTERM, SIGINT and SIGHUP keep their default and kill the process. For
    /// process 1 of a container, though, the kernel ignores them, and kubelet would have to kill it
    /// after the grace period; there they end the process with code 2, as in Go.
    ///
    /// Dropping the result stops listening. A signal that was listened to once never kills by
    /// default again.
    ///
    /// # Errors
    /// The operating system refuses a handler.
    pub fn listen(listened: &[Signal]) -> io::Result<Self> {
        let mut wanted = Vec::new();
        for one in listened {
            wanted.push(signal(one.kind())?);
        }
        let mut deadly = Vec::new();
        if std::process::id() == 1 {
            for kind in [
                SignalKind::terminate(),
                SignalKind::interrupt(),
                SignalKind::hangup(),
            ] {
                if listened.iter().all(|one| one.kind() != kind) {
                    deadly.push(signal(kind)?);
                }
            }
        }
        let (sender, requested) = Requested::channel();
        let since: Arc<OnceLock<Instant>> = Arc::default();
        let begun = Arc::clone(&since);
        let task = tokio::spawn(async move {
            loop {
                let died = std::future::poll_fn(|cx| poll_any(&mut deadly, cx));
                tokio::select! {
                    () = died => end_now(DIED_AS_INIT),
                    () = std::future::poll_fn(|cx| poll_any(&mut wanted, cx)) => {}
                }
                if sender.send_replace(true) {
                    tracing::warn!("Second signal, ending at once");
                    end_now(ABORTED);
                }
                begun.get_or_init(Instant::now);
                tracing::info!("Signal received, shutting down");
            }
        });
        Ok(Self {
            requested,
            since,
            task,
        })
    }

    /// Resolves after the first signal.
    pub async fn requested(&self) {
        self.requested.requested().await;
    }

    /// Time since the first signal.
    pub fn since(&self) -> Option<Duration> {
        self.since.get().map(Instant::elapsed)
    }

    /// The same request, for a part of the process.
    #[must_use]
    pub fn request(&self) -> Requested {
        self.requested.clone()
    }

    /// The request as a watch channel, for tasks that poll it themselves.
    pub fn watch(&self) -> watch::Receiver<bool> {
        self.requested.0.clone()
    }
}

impl Drop for Shutdown {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn poll_any(signals: &mut [tokio::signal::unix::Signal], cx: &mut Context<'_>) -> Poll<()> {
    let mut arrived = Poll::Pending;
    for one in signals {
        if one.poll_recv(cx).is_ready() {
            arrived = Poll::Ready(());
        }
    }
    arrived
}

#[expect(
    clippy::disallowed_methods,
    clippy::exit,
    reason = "the user insists, and whatever hangs must not stop it"
)]
fn end_now(code: i32) -> ! {
    crate::log::flush();
    std::process::exit(code)
}
