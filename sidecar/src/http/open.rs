//! The open connections of a server, and which of them closes for a new one.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::admission::{Admission, Limits, Phase};

/// Minimum pause between two log lines about closed connections.
const QUIET: Duration = Duration::from_secs(60);

/// All open connections of a server; clones share them.
#[derive(Clone, Debug)]
pub struct OpenConnections(Arc<Mutex<Table>>);

#[derive(Debug)]
struct Table {
    admission: Admission<oneshot::Sender<Infallible>>,
    /// Number of connections closed for want of room since the last log line.
    closed: u64,
    reported: Option<Instant>,
    /// The log line about them.
    line: &'static str,
}

impl OpenConnections {
    /// No connection is open. `line` is logged, at most once a minute, when connections were closed for want of room.
    #[must_use]
    pub fn new(limits: Limits, line: &'static str) -> Self {
        Self(Arc::new(Mutex::new(Table {
            admission: Admission::new(limits),
            closed: 0,
            reported: None,
            line,
        })))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a connection, and closes another one if there is no room.
    pub fn admit(&self, peer: IpAddr) -> Admitted {
        let (close, closed) = oneshot::channel();
        let mut table = self.table();
        let (id, victim) = table.admission.admit(peer, now(), close);
        if victim.is_some() {
            table.closed += 1;
        }
        drop(table);
        self.report();
        Admitted {
            member: Arc::new(Member {
                open: self.clone(),
                id,
                sent: Notify::new(),
            }),
            closed,
        }
    }

    /// Closes the connections whose response has been unread for `patience`.
    pub(super) fn close_those_not_reading(&self, patience: Duration) {
        let mut table = self.table();
        let victims = table.admission.not_reading(patience, now());
        table.closed += victims.len() as u64;
        drop(table);
        drop(victims);
        self.report();
    }

    fn report(&self) {
        let mut table = self.table();
        let now = Instant::now();
        let is_quiet = table
            .reported
            .is_some_and(|last| now.duration_since(last) < QUIET);
        if table.closed == 0 || is_quiet {
            return;
        }
        let closed = std::mem::take(&mut table.closed);
        table.reported = Some(now);
        let line = table.line;
        drop(table);
        tracing::warn!(closed, "{line}");
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

/// An admitted connection, ready to be served.
#[derive(Debug)]
pub struct Admitted {
    /// Its entry, which it leaves when dropped.
    pub member: Arc<Member>,
    /// Resolves when the connection has to close.
    pub closed: oneshot::Receiver<Infallible>,
}

/// A connection's entry among the open ones.
#[derive(Debug)]
pub struct Member {
    pub(super) open: OpenConnections,
    id: u64,
    /// Notifies that a response has been sent completely.
    sent: Notify,
}

impl Member {
    /// Records the connection's new state.
    pub fn enter(&self, phase: Phase) {
        self.open.table().admission.enter(self.id, phase, now());
    }

    pub(super) fn is_sending(&self) -> bool {
        self.phase() == Some(Phase::Sending)
    }

    /// The connection's state, unless it has been closed.
    pub(super) fn phase(&self) -> Option<Phase> {
        self.open.table().admission.phase(self.id)
    }

    /// The response that was being sent has gone out.
    pub(super) fn has_sent(&self) {
        self.enter(Phase::Idle);
        self.sent.notify_one();
    }

    /// Waits until the last response is sent: without this, responses without a body pile up in hyper's buffer for a
    /// client that sends requests and reads nothing.
    pub(super) async fn sent(&self) {
        while self.is_sending() {
            self.sent.notified().await;
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.open.table().admission.leave(self.id);
    }
}
