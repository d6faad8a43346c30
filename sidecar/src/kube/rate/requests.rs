//! Metrics of requests to the API server, as client-go counts them.
//!
//! Names, labels, buckets and help texts are those of Kubernetes' component-base 0.37, which
//! external-resizer has been exporting since 2.2: one dashboard reads a mixed fleet. The rules of
//! counting are client-go's as well: a retry is one more request of the same duration, a watch is a
//! request without duration and sizes.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts};
use tokio::time::Instant;

use super::clock::ClockSkew;
use crate::metrics::{RegisterError, Registry};

const SECONDS: [f64; 12] = [
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];

/// 64 bytes to 16 MiB.
const BYTES: [f64; 11] = [
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];

/// The metric families; clones share them.
#[derive(Clone, Debug)]
pub struct RequestMetrics {
    requests: IntCounterVec,
    retries: IntCounterVec,
    duration: HistogramVec,
    waited: HistogramVec,
    sent: HistogramVec,
    received: HistogramVec,
    skew: ClockSkew,
}

impl RequestMetrics {
    /// Registers the families in `registry`.
    ///
    /// # Errors
    /// The registry already has them.
    pub fn new(registry: &Registry) -> Result<Self, RegisterError> {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let opts = Opts::new(format!("rest_client_{name}"), format!("[ALPHA] {help}"));
            IntCounterVec::new(opts, labels)
        };
        let histogram = |name: &str, help: &str, buckets: &[f64]| {
            let name = format!("rest_client_{name}");
            let opts = HistogramOpts::new(name, format!("[ALPHA] {help}"));
            HistogramVec::new(opts.buckets(buckets.to_vec()), &["verb", "host"])
        };
        let metrics = Self {
            requests: counter(
                "requests_total",
                "Number of HTTP requests, partitioned by status code, method, and host.",
                &["code", "method", "host"],
            )?,
            retries: counter(
                "request_retries_total",
                "Number of request retries, partitioned by status code, verb, and host.",
                &["code", "verb", "host"],
            )?,
            duration: histogram(
                "request_duration_seconds",
                "Request latency in seconds. Broken down by verb, and host.",
                &SECONDS,
            )?,
            waited: histogram(
                "rate_limiter_duration_seconds",
                "Client side rate limiter latency in seconds. Broken down by verb, and host.",
                &SECONDS,
            )?,
            sent: histogram(
                "request_size_bytes",
                "Request size in bytes. Broken down by verb and host.",
                &BYTES,
            )?,
            received: histogram(
                "response_size_bytes",
                "Response size in bytes. Broken down by verb and host.",
                &BYTES,
            )?,
            skew: ClockSkew::new(registry)?,
        };
        registry.register(Box::new(metrics.requests.clone()))?;
        registry.register(Box::new(metrics.retries.clone()))?;
        registry.register(Box::new(metrics.duration.clone()))?;
        registry.register(Box::new(metrics.waited.clone()))?;
        registry.register(Box::new(metrics.sent.clone()))?;
        registry.register(Box::new(metrics.received.clone()))?;
        Ok(metrics)
    }

    /// The estimated offset of the API server's clock.
    pub fn skew(&self) -> ClockSkew {
        self.skew.clone()
    }

    /// The metrics of requests to this API server: `host`, and `:port` where its URL has one.
    pub fn to(&self, host: &str) -> HostMetrics {
        HostMetrics {
            metrics: self.clone(),
            host: host.into(),
        }
    }
}

/// The metrics of requests to one API server; clones share them.
#[derive(Clone, Debug)]
pub struct HostMetrics {
    metrics: RequestMetrics,
    host: Arc<str>,
}

impl HostMetrics {
    /// Records how long a request waited before it was sent.
    pub(super) fn waited(&self, verb: &Method, time: Duration) {
        let waited = &self.metrics.waited;
        let waited = waited.with_label_values(&[verb.as_str(), &*self.host]);
        waited.observe(time.as_secs_f64());
    }

    /// Records that a request was sent with a body of `bytes` bytes.
    pub(super) fn sent(&self, verb: &Method, bytes: u64) {
        observe_bytes(&self.metrics.sent, verb, &self.host, bytes);
    }

    /// Records a request's response, or its absence. `again`: the request had been sent before.
    pub(super) fn answered(&self, verb: &Method, status: Option<StatusCode>, again: bool) {
        let code = status.as_ref().map_or("<error>", StatusCode::as_str);
        let labels = [code, verb.as_str(), &*self.host];
        self.metrics.requests.with_label_values(&labels).inc();
        if again {
            self.metrics.retries.with_label_values(&labels).inc();
        }
    }

    /// Learns the server's time from the headers of a response that arrived `after` this long.
    pub(super) fn dated(&self, headers: &HeaderMap, after: Duration) {
        self.metrics.skew.answered(headers, after);
    }

    /// Begins a request, whose duration is measured until the result is dropped.
    pub(super) fn begin(&self, verb: &Method) -> Running {
        Running {
            of: self.clone(),
            verb: verb.clone(),
            started: Instant::now(),
            received: None,
        }
    }
}

/// A request in flight. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Running {
    of: HostMetrics,
    verb: Method,
    started: Instant,
    /// Bytes of the response, if there is one.
    received: Option<u64>,
}

impl Running {
    /// Records that more bytes of the response arrived; call it with 0 for its head.
    pub(super) fn receives(&mut self, bytes: usize) {
        *self.received.get_or_insert(0) += bytes as u64;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let (metrics, host) = (&self.of.metrics, &*self.of.host);
        let duration = { &metrics.duration }.with_label_values(&[self.verb.as_str(), host]);
        duration.observe(self.started.elapsed().as_secs_f64());
        if let Some(bytes) = self.received {
            observe_bytes(&metrics.received, &self.verb, host, bytes);
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a body of 2^53 bytes would not fit into memory"
)]
fn observe_bytes(histogram: &HistogramVec, verb: &Method, host: &str, bytes: u64) {
    let histogram = histogram.with_label_values(&[verb.as_str(), host]);
    histogram.observe(bytes as f64);
}
