//! Metrics of this program, beside those of calls, queues and leadership.
//!
//! Names, labels and buckets are those of sig-storage-lib-external-provisioner, so that dashboards keep working; only
//! the metrics of calls with unknown outcome are new.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounterVec, Opts};
use sidecar::metrics::{RegisterError, Registry};

use crate::plan::capacity;

const CLAIM: &[&str] = &["class", "source"];
const VOLUME: &[&str] = &["class"];

/// Upper bounds of the buckets of intents per write.
const SIZES: [f64; 8] = [0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];

/// The program's own metrics; clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    provisioned: Outcomes,
    deleted: Outcomes,
    /// Gauges of calls with unknown outcome.
    pub unknown_outcomes: UnknownOutcomes,
    commits: Histogram,
    intents: Histogram,
    without_node: Gauge,
    without_journal: Gauge,
}

/// Successes, failures and durations of one kind of operation.
#[derive(Clone, Debug)]
struct Outcomes {
    total: IntCounterVec,
    failed: IntCounterVec,
    duration: HistogramVec,
}

impl Outcomes {
    fn new(
        registry: &Registry,
        operation: &str,
        of: &str,
        labels: &[&str],
    ) -> Result<Self, RegisterError> {
        let name = |suffix: &str| format!("controller_persistentvolume{operation}_{suffix}");
        let counter =
            |suffix: &str, help: String| IntCounterVec::new(Opts::new(name(suffix), help), labels);
        let total = counter("total", format!("Total number of {of}."))?;
        let failed = counter("failed_total", format!("Total number of failed {of}."))?;
        let help = format!("Latency in seconds of {of}.");
        let duration =
            HistogramVec::new(HistogramOpts::new(name("duration_seconds"), help), labels)?;
        registry.register(Box::new(total.clone()))?;
        registry.register(Box::new(failed.clone()))?;
        registry.register(Box::new(duration.clone()))?;
        Ok(Self {
            total,
            failed,
            duration,
        })
    }

    fn success(&self, labels: &[&str], took: Duration) {
        if let Ok(counter) = self.total.get_metric_with_label_values(labels) {
            counter.inc();
        }
        if let Ok(histogram) = self.duration.get_metric_with_label_values(labels) {
            histogram.observe(took.as_secs_f64());
        }
    }

    fn failure(&self, labels: &[&str]) {
        if let Ok(counter) = self.failed.get_metric_with_label_values(labels) {
            counter.inc();
        }
    }
}

impl Metrics {
    /// Adds the metrics to `registry`.
    ///
    /// # Errors
    /// The registry has them already.
    pub fn new(registry: &Registry) -> Result<Self, RegisterError> {
        let unknown_outcomes = UnknownOutcomes::new()?;
        registry.register(Box::new(unknown_outcomes.clone()))?;
        let commits = Histogram::with_opts(HistogramOpts::new(
            "csi_sidecar_provisioning_journal_commit_seconds",
            "Latency in seconds of writes of the provisioning journal.",
        ))?;
        registry.register(Box::new(commits.clone()))?;
        let intents = HistogramOpts::new(
            "csi_sidecar_provisioning_journal_commit_intents",
            "Number of CreateVolume calls that one write of the provisioning journal records.",
        );
        let intents = Histogram::with_opts(intents.buckets(SIZES.to_vec()))?;
        registry.register(Box::new(intents.clone()))?;
        let without_node = Gauge::new(
            "csi_sidecar_provisioning_journals_without_node",
            "Provisioning journals with calls in them whose node is gone.",
        )?;
        registry.register(Box::new(without_node.clone()))?;
        let without_journal = Gauge::new(
            "csi_sidecar_provisioning_without_journal",
            "1 if the provisioning journal is enabled but cannot be kept.",
        )?;
        registry.register(Box::new(without_journal.clone()))?;
        Ok(Self {
            provisioned: Outcomes::new(
                registry,
                "claim_provision",
                "persistent volumes provisioned",
                CLAIM,
            )?,
            deleted: Outcomes::new(registry, "_delete", "persistent volumes deleted", VOLUME)?,
            unknown_outcomes,
            commits,
            intents,
            without_node,
            without_journal,
        })
    }

    /// Counts a write of the provisioning journal that made this number of intents durable.
    pub fn committed(&self, intents: usize, took: Duration) {
        self.commits.observe(took.as_secs_f64());
        let intents = u32::try_from(intents).unwrap_or(u32::MAX);
        self.intents.observe(f64::from(intents));
    }

    /// Sets the number of journals that have entries, and whose node is gone.
    pub fn without_node(&self, journals: u32) {
        self.without_node.set(f64::from(journals));
    }

    /// Sets whether the journal is enabled but cannot be kept.
    pub fn without_journal(&self, without: bool) {
        self.without_journal.set(f64::from(u8::from(without)));
    }

    /// Counts a claim of this class and kind of data source that got its volume.
    pub fn provisioned(&self, class: &str, source: &str, took: Duration) {
        self.provisioned.success(&[class, source], took);
    }

    /// Counts an attempt for a claim that failed.
    pub fn not_provisioned(&self, class: &str, source: &str) {
        self.provisioned.failure(&[class, source]);
    }

    /// Counts a deleted volume of this class.
    pub fn deleted(&self, class: &str, took: Duration) {
        self.deleted.success(&[class], took);
    }

    /// Counts an attempt to delete a volume that failed.
    pub fn not_deleted(&self, class: &str) {
        self.deleted.failure(&[class]);
    }
}

/// Returns for each call with unknown outcome how long ago it was first sent.
type Ages = Box<dyn Fn() -> Option<Vec<Duration>> + Send + Sync>;

/// Age limits in seconds for calls with unknown outcome: ten minutes, an hour, a day.
const AGES: [u32; 3] = [600, 3_600, 86_400];

/// Gauges of calls with unknown outcome, read from the in-flight state when they are scraped.
#[derive(Clone)]
pub struct UnknownOutcomes {
    count: Gauge,
    oldest: Gauge,
    older: GaugeVec,
    source: Arc<Mutex<Option<Ages>>>,
}

impl std::fmt::Debug for UnknownOutcomes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnknownOutcomes").finish_non_exhaustive()
    }
}

impl UnknownOutcomes {
    fn new() -> Result<Self, RegisterError> {
        Ok(Self {
            count: Gauge::new(
                "csi_sidecar_provisioning_in_doubt",
                "CreateVolume calls with unknown outcome.",
            )?,
            oldest: Gauge::new(
                "csi_sidecar_provisioning_oldest_in_doubt_seconds",
                "Age in seconds of the oldest CreateVolume call with unknown outcome.",
            )?,
            older: GaugeVec::new(
                Opts::new(
                    "csi_sidecar_provisioning_in_doubt_older_than",
                    "CreateVolume calls whose outcome has been unknown for more than the seconds in the label.",
                ),
                &["seconds"],
            )?,
            source: Arc::default(),
        })
    }

    /// Sets the source of the values; it returns `None` once the provisioner is gone.
    pub fn read_from(&self, source: impl Fn() -> Option<Vec<Duration>> + Send + Sync + 'static) {
        let source: Ages = Box::new(source);
        *self.source.lock().unwrap_or_else(PoisonError::into_inner) = Some(source);
    }
}

impl Collector for UnknownOutcomes {
    fn desc(&self) -> Vec<&Desc> {
        self.count
            .desc()
            .into_iter()
            .chain(self.oldest.desc())
            .chain(self.older.desc())
            .collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        let ages = source.as_ref().and_then(|source| source());
        let ages = ages.unwrap_or_default();
        let number = |count: usize| u32::try_from(count).map_or(f64::from(u32::MAX), f64::from);
        let oldest = ages.iter().max().copied().unwrap_or_default();
        self.count.set(number(ages.len()));
        self.oldest.set(oldest.as_secs_f64());
        for seconds in AGES {
            let age = Duration::from_secs(seconds.into());
            let older = ages.iter().filter(|held| **held > age).count();
            if let Ok(gauge) = self
                .older
                .get_metric_with_label_values(&[&seconds.to_string()])
            {
                gauge.set(number(older));
            }
        }
        let mut families = self.count.collect();
        families.extend(self.oldest.collect());
        families.extend(self.older.collect());
        families
    }
}

/// Returns the counts of the producer of CSIStorageCapacity objects.
type Figures = Box<dyn Fn() -> Option<capacity::Figures> + Send + Sync>;

/// Gauges of CSIStorageCapacity objects, read from the producer when they are scraped: zeros in a process that does not
/// lead.
#[derive(Clone)]
pub struct CapacityMetrics {
    goal: Gauge,
    current: Gauge,
    obsolete: Gauge,
    source: Arc<Mutex<Option<Figures>>>,
}

impl std::fmt::Debug for CapacityMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CapacityMetrics").finish_non_exhaustive()
    }
}

impl CapacityMetrics {
    /// Adds the gauges to `registry`.
    ///
    /// # Errors
    /// The registry has them already.
    pub fn new(registry: &Registry) -> Result<Self, RegisterError> {
        let this = Self {
            goal: Gauge::new(
                "csistoragecapacities_desired_goal",
                "Number of CSIStorageCapacity objects that are supposed to be managed \
                 automatically.",
            )?,
            current: Gauge::new(
                "csistoragecapacities_desired_current",
                "Number of CSIStorageCapacity objects that exist and are supposed to be managed \
                 automatically.",
            )?,
            obsolete: Gauge::new(
                "csistoragecapacities_obsolete",
                "Number of CSIStorageCapacity objects that exist and will be deleted \
                 automatically. Objects that exist and may need an update are not considered \
                 obsolete and therefore not included in this value.",
            )?,
            source: Arc::default(),
        };
        registry.register(Box::new(this.clone()))?;
        Ok(this)
    }

    /// Sets the source of the values; it returns `None` once the producer is gone.
    pub fn read_from(
        &self,
        source: impl Fn() -> Option<capacity::Figures> + Send + Sync + 'static,
    ) {
        let source: Figures = Box::new(source);
        *self.source.lock().unwrap_or_else(PoisonError::into_inner) = Some(source);
    }

    fn gauges(&self) -> [&Gauge; 3] {
        [&self.goal, &self.current, &self.obsolete]
    }
}

impl Collector for CapacityMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.gauges()
            .into_iter()
            .flat_map(Collector::desc)
            .collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        let figures = source.as_ref().and_then(|source| source());
        let capacity::Figures {
            goal,
            current,
            obsolete,
        } = figures.unwrap_or_default();
        let number = |count: usize| u32::try_from(count).map_or(f64::from(u32::MAX), f64::from);
        let gauges = self.gauges();
        for (gauge, count) in gauges.iter().zip([goal, current, obsolete]) {
            gauge.set(number(count));
        }
        gauges.into_iter().flat_map(Collector::collect).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_289_and_290_names_and_labels() {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry).unwrap();
        metrics.provisioned("sc1", "VolumeSnapshot", Duration::from_millis(7));
        metrics.not_provisioned("sc1", "");
        metrics.deleted("sc1", Duration::from_secs(1));
        metrics.not_deleted("sc1");
        metrics
            .unknown_outcomes
            .read_from(|| Some([5, 601, 90_000].map(Duration::from_secs).into()));
        metrics.committed(3, Duration::from_millis(7));
        metrics.without_node(1);
        metrics.without_journal(true);
        let text = registry.render();
        for line in [
            r#"controller_persistentvolumeclaim_provision_total{class="sc1",source="VolumeSnapshot"} 1"#,
            r#"controller_persistentvolumeclaim_provision_failed_total{class="sc1",source=""} 1"#,
            r#"controller_persistentvolumeclaim_provision_duration_seconds_bucket{class="sc1",source="VolumeSnapshot",le="0.005"} 0"#,
            r#"controller_persistentvolumeclaim_provision_duration_seconds_bucket{class="sc1",source="VolumeSnapshot",le="10"} 1"#,
            r#"controller_persistentvolume_delete_total{class="sc1"} 1"#,
            r#"controller_persistentvolume_delete_failed_total{class="sc1"} 1"#,
            r#"controller_persistentvolume_delete_duration_seconds_count{class="sc1"} 1"#,
            r#"csi_sidecar_provisioning_journal_commit_seconds_bucket{le="0.01"} 1"#,
            r#"csi_sidecar_provisioning_journal_commit_intents_bucket{le="2"} 0"#,
            r#"csi_sidecar_provisioning_journal_commit_intents_bucket{le="5"} 1"#,
            "csi_sidecar_provisioning_journals_without_node 1",
            "csi_sidecar_provisioning_without_journal 1",
            "csi_sidecar_provisioning_in_doubt 3",
            "csi_sidecar_provisioning_oldest_in_doubt_seconds 90000",
            r#"csi_sidecar_provisioning_in_doubt_older_than{seconds="600"} 2"#,
            r#"csi_sidecar_provisioning_in_doubt_older_than{seconds="3600"} 1"#,
            r#"csi_sidecar_provisioning_in_doubt_older_than{seconds="86400"} 1"#,
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
