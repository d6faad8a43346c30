//! Queues requests: first come, first served.
//!
//! One waiter at a time asks the pure state; the others queue for their turn. A caller that gives up
//! drops its future, and with it its queue slot.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as Turn, Notify};
use tokio::time::{Instant, sleep, sleep_until};

use super::adaptive::{Adaptive, Object, Ticket, Verdict, Wait};
use super::bucket::Bucket;
use super::metrics::RateMetrics;
use crate::rt::unit_random;

/// One budget.
#[derive(Debug)]
pub(super) struct Gate {
    kind: Kind,
    /// Held by the next request in line.
    turn: Turn<()>,
}

#[derive(Debug)]
enum Kind {
    Open,
    Fixed(Mutex<Bucket>),
    Adaptive {
        state: Mutex<Adaptive>,
        /// Notifies that a request ended. One waiter listens, the one whose turn it is.
        ended: Notify,
        metrics: Option<RateMetrics>,
    },
}

impl Gate {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            turn: Turn::new(()),
        }
    }

    /// A gate without a limit.
    pub(super) fn open() -> Self {
        Self::new(Kind::Open)
    }

    pub(super) fn fixed(qps: f64, burst: u32) -> Self {
        Self::new(Kind::Fixed(Mutex::new(Bucket::new(qps, burst))))
    }

    /// A gate with the adaptive limit, which `metrics` exposes.
    pub(super) fn adaptive(metrics: Option<RateMetrics>) -> Self {
        let state = Adaptive::new();
        if let Some(metrics) = &metrics {
            metrics.limit(state.limit());
        }
        Self::new(Kind::Adaptive {
            state: Mutex::new(state),
            ended: Notify::new(),
            metrics,
        })
    }

    /// Waits until a request about this object may start.
    pub(super) async fn enter(self: &Arc<Self>, object: Object) -> Entered {
        let ticket = match &self.kind {
            Kind::Open => None,
            Kind::Fixed(bucket) => {
                let _turn = self.turn.lock().await;
                while let Err(wait) = take(bucket) {
                    sleep(wait).await;
                }
                None
            }
            Kind::Adaptive { state, ended, .. } => {
                while let Some(until) = bound(state, object) {
                    sleep_until(until).await;
                }
                let _turn = self.turn.lock().await;
                Some(admitted(state, ended).await)
            }
        };
        Entered {
            gate: self.clone(),
            ticket: ticket.map(|ticket| (ticket, object)),
        }
    }
}

fn take(bucket: &Mutex<Bucket>) -> Result<(), std::time::Duration> {
    let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
    bucket.take(Instant::now().into_std())
}

fn bound(state: &Mutex<Adaptive>, object: Object) -> Option<Instant> {
    let state = state.lock().unwrap_or_else(PoisonError::into_inner);
    { state.bound(object, Instant::now().into_std()) }.map(Instant::from_std)
}

async fn admitted(state: &Mutex<Adaptive>, ended: &Notify) -> Ticket {
    loop {
        let answer = {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            state.start(Instant::now().into_std())
        };
        match answer {
            Ok(ticket) => return ticket,
            Err(Wait::Slot) => ended.notified().await,
            Err(Wait::Until(resume)) => sleep_until(Instant::from_std(resume)).await,
        }
    }
}

/// A running request. Dropping it without a verdict frees its slot.
#[derive(Debug)]
pub(super) struct Entered {
    gate: Arc<Gate>,
    ticket: Option<(Ticket, Object)>,
}

impl Entered {
    /// Ends the request with the verdict of its response.
    pub(super) fn end(mut self, verdict: Verdict) {
        self.finish(verdict);
    }

    fn finish(&mut self, verdict: Verdict) {
        let (
            Kind::Adaptive {
                state,
                ended,
                metrics,
            },
            Some(ticket),
        ) = (&self.gate.kind, self.ticket.take())
        else {
            return;
        };
        let limit = {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            state.end(ticket, verdict, Instant::now().into_std(), unit_random());
            state.limit()
        };
        if let Some(metrics) = metrics {
            metrics.limit(limit);
        }
        ended.notify_one();
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.finish(Verdict::Unknown);
    }
}
