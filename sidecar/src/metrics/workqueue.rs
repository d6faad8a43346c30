//! The `workqueue_*` families of client-go.

use std::time::Duration;

use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts,
};

use super::{RegisterError, Registry};

/// 10 ns to 10 s, in tens, each computed from the one before as client_golang does: its rounding is
/// part of the label (`le="9.999999999999999e-06"`).
fn buckets() -> Vec<f64> {
    let bounds = std::iter::successors(Some(1e-8), |bound| Some(bound * 10.0));
    bounds.take(10).collect()
}

/// The families, shared by all queues of a program.
#[derive(Clone, Debug)]
pub struct WorkqueueMetrics {
    depth: IntGaugeVec,
    adds: IntCounterVec,
    retries: IntCounterVec,
    unfinished: GaugeVec,
    longest: GaugeVec,
    queued: HistogramVec,
    worked: HistogramVec,
}

/// The series of one queue.
#[derive(Clone, Debug)]
pub struct QueueMetrics {
    depth: IntGauge,
    adds: IntCounter,
    retries: IntCounter,
    unfinished: Gauge,
    longest: Gauge,
    queued: Histogram,
    worked: Histogram,
}

impl WorkqueueMetrics {
    /// Adds the families to `registry`.
    ///
    /// # Errors
    /// The registry has them already.
    pub fn new(registry: &Registry) -> Result<Self, RegisterError> {
        let options = |name: &str, help: &str| Opts::new(format!("workqueue_{name}"), help);
        let histogram = |name: &str, help: &str| {
            let options = HistogramOpts::new(format!("workqueue_{name}"), help);
            HistogramVec::new(options.buckets(buckets()), &["name"])
        };
        let label = &["name"];
        let metrics = Self {
            depth: IntGaugeVec::new(options("depth", "[BETA] Current depth of workqueue"), label)?,
            adds: IntCounterVec::new(
                options(
                    "adds_total",
                    "[BETA] Total number of adds handled by workqueue",
                ),
                label,
            )?,
            retries: IntCounterVec::new(
                options(
                    "retries_total",
                    "[BETA] Total number of retries handled by workqueue",
                ),
                label,
            )?,
            unfinished: GaugeVec::new(
                options(
                    "unfinished_work_seconds",
                    "[BETA] How many seconds of work is in progress and has not been observed by \
                     work_duration. Large values indicate stuck threads.",
                ),
                label,
            )?,
            longest: GaugeVec::new(
                options(
                    "longest_running_processor_seconds",
                    "[BETA] How many seconds the longest running processor has been running.",
                ),
                label,
            )?,
            queued: histogram(
                "queue_duration_seconds",
                "[BETA] How long in seconds an item stays in workqueue before being requested.",
            )?,
            worked: histogram(
                "work_duration_seconds",
                "[BETA] How long in seconds processing an item from workqueue takes.",
            )?,
        };
        registry.register(Box::new(metrics.depth.clone()))?;
        registry.register(Box::new(metrics.adds.clone()))?;
        registry.register(Box::new(metrics.retries.clone()))?;
        registry.register(Box::new(metrics.unfinished.clone()))?;
        registry.register(Box::new(metrics.longest.clone()))?;
        registry.register(Box::new(metrics.queued.clone()))?;
        registry.register(Box::new(metrics.worked.clone()))?;
        Ok(metrics)
    }

    /// The series of the queue called `name`, present from now on.
    pub fn queue(&self, name: &str) -> QueueMetrics {
        let label = &[name];
        QueueMetrics {
            depth: self.depth.with_label_values(label),
            adds: self.adds.with_label_values(label),
            retries: self.retries.with_label_values(label),
            unfinished: self.unfinished.with_label_values(label),
            longest: self.longest.with_label_values(label),
            queued: self.queued.with_label_values(label),
            worked: self.worked.with_label_values(label),
        }
    }
}

impl QueueMetrics {
    /// Number of keys waiting for a worker.
    pub fn set_depth(&self, keys: usize) {
        self.depth.set(i64::try_from(keys).unwrap_or(i64::MAX));
    }

    /// A key was added that was not waiting already.
    pub fn added(&self) {
        self.adds.inc();
    }

    /// A key was scheduled for later.
    pub fn retried(&self) {
        self.retries.inc();
    }

    /// A worker took a key that had waited this long.
    pub fn taken(&self, waited: Duration) {
        self.queued.observe(waited.as_secs_f64());
    }

    /// A worker was done with a key after this long.
    pub fn done(&self, took: Duration) {
        self.worked.observe(took.as_secs_f64());
    }

    /// Time spent so far on all keys in work, and on the one longest in work.
    pub fn set_in_work(&self, total: Duration, longest: Duration) {
        self.unfinished.set(total.as_secs_f64());
        self.longest.set(longest.as_secs_f64());
    }
}
