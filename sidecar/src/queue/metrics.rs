//! The metrics of work queues: client-go's `workqueue_*`, and those of lanes.
//!
//! Names, help, labels and buckets are those of component-base, because dashboards and alerts of
//! running clusters use them. Gauges are computed when they are scraped.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{CounterVec, GaugeVec, Histogram, HistogramOpts, HistogramVec, Opts};

use super::entry::LaneStats;
use crate::metrics::{RegisterError, Registry};

/// A queue's values at a scrape.
pub(super) struct Snapshot {
    pub(super) lanes: Vec<LaneStats>,
    pub(super) unfinished: Duration,
    pub(super) longest: Duration,
}

type Source = Box<dyn Fn() -> Option<Snapshot> + Send + Sync>;

/// The metric families of all work queues of a process; give a clone to each queue.
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

struct Inner {
    depth: GaugeVec,
    adds: CounterVec,
    retries: CounterVec,
    queue_duration: HistogramVec,
    work_duration: HistogramVec,
    unfinished: GaugeVec,
    longest: GaugeVec,
    lane_depth: GaugeVec,
    lane_running: GaugeVec,
    lane_oldest: GaugeVec,
    sources: Mutex<Vec<(String, Source)>>,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// component-base: `ExponentialBuckets(10e-9, 10, 10)`, rounding errors included, since the bound is
/// part of a series' identity (`le="9.999999999999999e-06"`).
fn buckets() -> Vec<f64> {
    std::iter::successors(Some(10e-9), |bound| Some(bound * 10.0))
        .take(10)
        .collect()
}

impl Metrics {
    /// Registers the families in `registry`.
    ///
    /// # Errors
    /// The registry already has them.
    pub fn new(registry: &Registry) -> Result<Self, RegisterError> {
        let opts = |name: &str, help: &str| Opts::new(name, format!("[BETA] {help}"));
        let gauge = |name: &str, help: &str| GaugeVec::new(opts(name, help), &["name"]);
        let counter = |name: &str, help: &str| CounterVec::new(opts(name, help), &["name"]);
        let lane = |name: &str, help: &str| GaugeVec::new(Opts::new(name, help), &["name", "lane"]);
        let histogram = |name: &str, help: &str| {
            let opts = HistogramOpts::new(name, format!("[BETA] {help}")).buckets(buckets());
            HistogramVec::new(opts, &["name"])
        };
        let inner = Inner {
            depth: gauge("workqueue_depth", "Current depth of workqueue")?,
            adds: counter(
                "workqueue_adds_total",
                "Total number of adds handled by workqueue",
            )?,
            retries: counter(
                "workqueue_retries_total",
                "Total number of retries handled by workqueue",
            )?,
            queue_duration: histogram(
                "workqueue_queue_duration_seconds",
                "How long in seconds an item stays in workqueue before being requested.",
            )?,
            work_duration: histogram(
                "workqueue_work_duration_seconds",
                "How long in seconds processing an item from workqueue takes.",
            )?,
            unfinished: gauge(
                "workqueue_unfinished_work_seconds",
                "How many seconds of work has done that is in progress and hasn't been observed by \
                 work_duration. Large values indicate stuck threads. One can deduce the number of \
                 stuck threads by observing the rate at which this increases.",
            )?,
            longest: gauge(
                "workqueue_longest_running_processor_seconds",
                "How many seconds has the longest running processor for workqueue been running.",
            )?,
            lane_depth: lane(
                "csi_sidecar_workqueue_lane_depth",
                "Keys of a work queue's lane that are ready and wait for a worker.",
            )?,
            lane_running: lane(
                "csi_sidecar_workqueue_lane_running",
                "Keys of a work queue's lane that are being processed.",
            )?,
            lane_oldest: lane(
                "csi_sidecar_workqueue_lane_oldest_wait_seconds",
                "How long the key that waits longest for a worker has been waiting, 0 if none does.",
            )?,
            sources: Mutex::default(),
        };
        let metrics = Self {
            inner: Arc::new(inner),
        };
        registry.register(Box::new(metrics.clone()))?;
        Ok(metrics)
    }

    /// The counters of the queue with this name, all starting at zero.
    pub(super) fn queue(&self, name: &str, source: Source) -> Result<Counters, RegisterError> {
        let inner = &self.inner;
        let label = &[name];
        let counters = Counters {
            adds: inner.adds.get_metric_with_label_values(label)?,
            retries: inner.retries.get_metric_with_label_values(label)?,
            queue_duration: inner.queue_duration.get_metric_with_label_values(label)?,
            work_duration: inner.work_duration.get_metric_with_label_values(label)?,
        };
        let mut sources = inner.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.push((name.to_owned(), source));
        Ok(counters)
    }
}

impl Inner {
    fn refresh(&self) {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, source) in sources.iter() {
            let Some(snapshot) = source() else {
                continue;
            };
            let depth: usize = snapshot.lanes.iter().map(|lane| lane.depth).sum();
            set(&self.depth, &[name], count(depth));
            set(&self.unfinished, &[name], snapshot.unfinished.as_secs_f64());
            set(&self.longest, &[name], snapshot.longest.as_secs_f64());
            for lane in &snapshot.lanes {
                let labels = &[name.as_str(), lane.lane];
                set(&self.lane_depth, labels, count(lane.depth));
                set(&self.lane_running, labels, count(lane.running));
                set(&self.lane_oldest, labels, lane.oldest_wait.as_secs_f64());
            }
        }
    }

    fn families(&self) -> [&dyn Collector; 10] {
        [
            &self.depth,
            &self.adds,
            &self.retries,
            &self.queue_duration,
            &self.work_duration,
            &self.unfinished,
            &self.longest,
            &self.lane_depth,
            &self.lane_running,
            &self.lane_oldest,
        ]
    }
}

impl Collector for Metrics {
    fn desc(&self) -> Vec<&Desc> {
        self.inner
            .families()
            .into_iter()
            .flat_map(Collector::desc)
            .collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.inner.refresh();
        self.inner
            .families()
            .into_iter()
            .flat_map(Collector::collect)
            .collect()
    }
}

/// One queue's counters.
pub(super) struct Counters {
    pub(super) adds: prometheus::Counter,
    pub(super) retries: prometheus::Counter,
    pub(super) queue_duration: Histogram,
    pub(super) work_duration: Histogram,
}

fn set(family: &GaugeVec, labels: &[&str], value: f64) {
    if let Ok(gauge) = family.get_metric_with_label_values(labels) {
        gauge.set(value);
    }
}

fn count(keys: usize) -> f64 {
    u32::try_from(keys).map_or(f64::from(u32::MAX), f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_bounds_are_component_bases() {
        let text: Vec<String> = buckets().iter().map(|bound| format!("{bound:e}")).collect();
        assert_eq!(
            text,
            [
                "1e-8",
                "1e-7",
                "1e-6",
                "9.999999999999999e-6",
                "9.999999999999999e-5",
                "1e-3",
                "1e-2",
                "1e-1",
                "1e0",
                "1e1"
            ]
        );
    }
}
