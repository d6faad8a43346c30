//! Client-side rate limiting of requests to the API server.
//!
//! With `--kube-api-qps` or `--kube-api-burst` on the command line both are a hard cap, one token
//! bucket as in client-go. Otherwise there is no fixed rate: the number of concurrent requests adapts
//! to the server. Either way watches are never held back, pages of lists use up no fixed rate, and
//! leader election has its own budget, as have events without a fixed rate.
//!
//! Every request has a time limit, a watch only for its head. A refusal with 429 (or 503 and
//! `Retry-After`), which the server gives before it does anything, is retried here unless the caller
//! has its own retry schedule.
//!
//! Layout: `bucket` and `adaptive` decide, `lane` assigns requests to budgets, `gate` makes them wait,
//! `layer` is the tower service, `metrics` and `requests` count, `clock` learns the server's time.

mod adaptive;
pub(super) mod bucket;
mod clock;
mod gate;
mod lane;
mod layer;
mod metrics;
mod requests;

pub use clock::ClockSkew;
pub use layer::{Limited, RequestTimeout, Timed};
pub use metrics::RateMetrics;
pub use requests::{HostMetrics, RequestMetrics};

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::flags::Values;
use crate::outage::Outage;
use gate::Gate;
use lane::Lane;

/// client-go's defaults, used where a flag is 0.
const DEFAULT_QPS: f64 = 5.0;
const DEFAULT_BURST: u32 = 10;

/// The rate limit that the flags request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// No fixed rate: adapt to the server.
    Adaptive,
    /// No limit at all (`--kube-api-qps=-1`).
    Unlimited,
    /// A token bucket.
    Fixed {
        /// Requests per second.
        qps: f64,
        /// Requests that the bucket can save up.
        burst: u32,
        /// One bucket for each API group, as in client-go when the rate is 0.
        per_group: bool,
    },
}

/// The rate flags contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "--kube-api-burst={burst}: burst is required to be greater than 0 when RateLimiter is not set and QPS is set to greater than 0; give --kube-api-burst a positive number, or --kube-api-qps a negative one for no limit"
)]
pub struct RateError {
    burst: i64,
}

impl Rate {
    /// Reads `--kube-api-qps` and `--kube-api-burst`.
    ///
    /// # Errors
    /// A rate without a burst. Upstream exits with code 1 (provisioner 255).
    pub fn from_flags(values: &Values) -> Result<Self, RateError> {
        if !values.is_set("kube-api-qps") && !values.is_set("kube-api-burst") {
            return Ok(Self::Adaptive);
        }
        Self::new(values.float("kube-api-qps"), values.int("kube-api-burst"))
    }

    /// Reads the two numbers as client-go does.
    ///
    /// # Errors
    /// A positive rate with a burst that is not positive.
    pub fn new(qps: f64, burst: i64) -> Result<Self, RateError> {
        let saved = u32::try_from(burst.min(i64::from(u32::MAX))).unwrap_or(0);
        if qps > 0.0 && saved == 0 {
            return Err(RateError { burst });
        }
        // NaN compares as false, and infinity means no limit.
        if qps < 0.0 || !qps.is_finite() {
            return Ok(Self::Unlimited);
        }
        let zero = qps == 0.0;
        Ok(Self::Fixed {
            qps: if zero { DEFAULT_QPS } else { qps },
            burst: if saved == 0 { DEFAULT_BURST } else { saved },
            per_group: zero,
        })
    }
}

/// The budgets of one process; clones share them.
#[derive(Clone, Debug)]
pub struct Limiter {
    gates: Arc<Gates>,
    timeout: Duration,
    metrics: Option<RateMetrics>,
    requests: Option<HostMetrics>,
    server: Outage,
}

#[derive(Debug)]
struct Gates {
    rate: Rate,
    open: Arc<Gate>,
    events: Arc<Gate>,
    /// Gates of object requests: one, or one for each API group.
    objects: Mutex<BTreeMap<String, Arc<Gate>>>,
}

impl Limiter {
    /// `timeout` limits the response to any request but a watch, from the moment the request is sent.
    pub fn new(rate: Rate, timeout: Duration, metrics: Option<RateMetrics>) -> Self {
        let gates = Gates {
            rate,
            open: Arc::new(Gate::open()),
            events: Arc::new(Gate::adaptive(None)),
            objects: Mutex::default(),
        };
        Self {
            gates: Arc::new(gates),
            timeout,
            metrics,
            requests: None,
            server: Outage::default(),
        }
    }

    /// Also reports to `server` whether requests are answered.
    #[must_use]
    pub fn reporting_to(self, server: &Outage) -> Self {
        Self {
            server: server.clone(),
            ..self
        }
    }

    /// Also counts requests in these metrics.
    #[must_use]
    pub fn counting(self, requests: Option<HostMetrics>) -> Self {
        Self { requests, ..self }
    }

    /// Puts `service` behind these budgets.
    pub fn limit<S>(&self, service: S) -> Limited<S> {
        Limited::new(service, self.clone())
    }

    fn gate(&self, lane: Lane, uri: &http::Uri) -> Arc<Gate> {
        let gates = &*self.gates;
        match (lane, gates.rate) {
            // A lease has one holder, whose requests follow one another at the pace of the election's
            // flags. client-go's bucket for them is as slow as that for objects.
            (Lane::Watch | Lane::Review | Lane::Probe | Lane::Lease, _)
            | (_, Rate::Unlimited)
            | (Lane::List, Rate::Fixed { .. }) => gates.open.clone(),
            (Lane::Event, Rate::Adaptive) => gates.events.clone(),
            // A cap that the user sets covers events and other objects together, as upstream.
            (Lane::Event, Rate::Fixed { per_group, .. })
            | (Lane::Object, Rate::Fixed { per_group, .. }) => {
                self.objects(if per_group { lane::group(uri) } else { "" })
            }
            (Lane::Object | Lane::List, Rate::Adaptive) => self.objects(""),
        }
    }

    fn objects(&self, group: &str) -> Arc<Gate> {
        let objects = self.gates.objects.lock();
        let mut objects = objects.unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = objects.get(group) {
            return gate.clone();
        }
        let gate = Arc::new(match self.gates.rate {
            Rate::Adaptive => Gate::adaptive(self.metrics.clone()),
            Rate::Unlimited => Gate::open(),
            Rate::Fixed { qps, burst, .. } => Gate::fixed(qps, burst),
        });
        objects.insert(group.to_owned(), gate.clone());
        gate
    }
}

#[cfg(test)]
mod tests;
