//! The metric families of stages.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts};

use super::Inner;
use super::names::Names;
use super::tracker::Sample;
use crate::metrics::{RegisterError, Registry};

/// Objects' timestamps have whole seconds, so finer bounds would be false precision.
const BUCKETS: [f64; 12] = [
    1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0,
];

/// Label value of samples whose driver is no longer known.
const UNKNOWN_DRIVER: &str = "unknown-driver";

/// The metric families of a process; clones share them.
#[derive(Clone)]
pub struct LifecycleMetrics {
    seconds: HistogramVec,
    unmeasured: IntCounterVec,
    /// One limit for the whole process, since an alert compares classes across stages.
    classes: Arc<Mutex<Names>>,
    open: Unfinished,
}

/// Gauges computed from the open stages at each scrape.
#[derive(Clone)]
struct Unfinished {
    count: IntGaugeVec,
    oldest: GaugeVec,
    of: Arc<Mutex<Vec<Weak<Inner>>>>,
}

impl fmt::Debug for LifecycleMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LifecycleMetrics").finish_non_exhaustive()
    }
}

impl LifecycleMetrics {
    /// Adds the families to `registry`; series appear with the first sample.
    ///
    /// # Errors
    /// The registry has them already.
    pub fn new(registry: &Registry) -> Result<Self, RegisterError> {
        let seconds = HistogramOpts::new(
            "csi_sidecar_lifecycle_seconds",
            "[ALPHA] How long users have waited for what this program does for an object, by the object's timestamps, \
             through all attempts, restarts and changes of leader.",
        );
        let seconds = seconds.buckets(BUCKETS.to_vec());
        let seconds = HistogramVec::new(seconds, &["driver_name", "stage", "class"])?;
        let unmeasured = Opts::new(
            "csi_sidecar_lifecycle_unmeasured_total",
            "[ALPHA] Ended stages whose beginning no object records and this process did not see.",
        );
        let unmeasured = IntCounterVec::new(unmeasured, &["stage"])?;
        let count = Opts::new(
            "csi_sidecar_lifecycle_unfinished",
            "[ALPHA] How many objects wait for this program, its driver or somebody else, while this process leads.",
        );
        let oldest = Opts::new(
            "csi_sidecar_lifecycle_oldest_unfinished_seconds",
            "[ALPHA] How long the oldest object has waited for this program or its driver.",
        );
        let this = Self {
            seconds,
            unmeasured,
            classes: Arc::default(),
            open: Unfinished {
                count: IntGaugeVec::new(count, &["stage"])?,
                oldest: GaugeVec::new(oldest, &["stage"])?,
                of: Arc::default(),
            },
        };
        registry.register(Box::new(this.seconds.clone()))?;
        registry.register(Box::new(this.unmeasured.clone()))?;
        registry.register(Box::new(this.open.clone()))?;
        Ok(this)
    }

    /// Shows the open stages of `of` until it is dropped.
    pub(super) fn show(&self, of: &Arc<Inner>) {
        let mut all = self.open.of.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|of| of.strong_count() > 0);
        all.push(Arc::downgrade(of));
    }

    /// Observes a sample; `driver` is the label value if the sample knows none.
    pub(super) fn measure(&self, sample: &Sample, driver: &str) {
        let stage = sample.stage.name();
        let Some(seconds) = sample.seconds else {
            self.unmeasured.with_label_values(&[stage]).inc();
            return;
        };
        let driver = sample.driver.as_deref().unwrap_or(driver);
        let driver = if driver.is_empty() {
            UNKNOWN_DRIVER
        } else {
            driver
        };
        let mut classes = self.classes.lock().unwrap_or_else(PoisonError::into_inner);
        let class = match &*sample.class {
            "" => "",
            class => {
                let number = classes.number(class);
                classes.name(number)
            }
        };
        let labels = [driver, stage, class];
        if let Ok(histogram) = self.seconds.get_metric_with_label_values(&labels) {
            histogram.observe(seconds);
        }
    }
}

impl Collector for Unfinished {
    fn desc(&self) -> Vec<&Desc> {
        let mut all = self.count.desc();
        all.extend(self.oldest.desc());
        all
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.count.reset();
        self.oldest.reset();
        let of = {
            let of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
            of.iter().filter_map(Weak::upgrade).collect::<Vec<_>>()
        };
        for (stage, waiting) in of.iter().flat_map(|one| one.unfinished()) {
            let labels = [stage.name()];
            let count = i64::try_from(waiting.count).unwrap_or(i64::MAX);
            self.count.with_label_values(&labels).set(count);
            self.oldest.with_label_values(&labels).set(waiting.oldest);
        }
        let mut all = self.count.collect();
        all.extend(self.oldest.collect());
        all
    }
}
