//! The program's own metrics, besides those of calls, queues and leadership.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus::{Gauge, IntCounter, IntCounterVec, IntGaugeVec, Opts};
use sidecar::metrics::{RegisterError, Registry};

use crate::model::{Conditions, Text};

/// Limit of distinct reasons; volumes with further reasons are counted under [`OTHER`].
const MOST_REASONS: usize = 100;
const OTHER: &str = "other";

/// The program's own metrics; clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    driver: String,
    probes: IntCounterVec,
    status: IntGaugeVec,
    cycle: Gauge,
    dropped: IntCounter,
    unknown: IntCounter,
    volumes: Arc<Mutex<Counts>>,
}

/// Number of volumes by status and reason.
#[derive(Debug, Default)]
struct Counts {
    /// Number of volumes, and whether the pair has its own series, which it keeps while the number is positive.
    all: BTreeMap<(&'static str, Text), (i64, bool)>,
    /// Number of pairs with their own series.
    own: usize,
    /// Number of volumes without their own series, by status.
    other: BTreeMap<&'static str, i64>,
}

impl Counts {
    /// Adds `by` to a condition's count. Returns its label `reason` and the number of volumes under that label.
    fn count(&mut self, status: &'static str, reason: &Text, by: i64) -> (Text, i64) {
        let key = (status, reason.clone());
        let may_own = self.own < MOST_REASONS && **reason != *OTHER;
        let (count, owns) = self.all.entry(key.clone()).or_insert_with(|| {
            self.own += usize::from(may_own);
            (0, may_own)
        });
        *count += by;
        let (count, owns) = (*count, *owns);
        if count <= 0 {
            self.all.remove(&key);
            self.own -= usize::from(owns);
        }
        if owns {
            return (reason.clone(), count);
        }
        let other = self.other.entry(status).or_default();
        *other += by;
        (OTHER.into(), *other)
    }
}

impl Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// If the registry already has them.
    pub fn new(registry: &Registry, driver: &str) -> Result<Self, RegisterError> {
        let probes = IntCounterVec::new(
            Opts::new(
                "csi_volume_health_probe_total",
                "Number of calls of the driver about the health of volumes.",
            ),
            &["driver_name", "method", "result"],
        )?;
        let status = IntGaugeVec::new(
            Opts::new(
                "csi_controller_volume_health_status",
                "Number of volumes that the driver reports with this status and reason.",
            ),
            &["driver_name", "status", "reason"],
        )?;
        let cycle = Gauge::new(
            "csi_volume_health_cycle_seconds",
            "How long the driver was last asked about all volumes.",
        )?;
        let dropped = IntCounter::new(
            "csi_volume_health_writes_dropped_total",
            "Number of writes of volume health that the API server accepted and dropped.",
        )?;
        let unknown = IntCounter::new(
            "csi_volume_health_unknown_statuses_total",
            "Number of conditions that were left out because their status is not known.",
        )?;
        registry.register(Box::new(probes.clone()))?;
        registry.register(Box::new(status.clone()))?;
        registry.register(Box::new(cycle.clone()))?;
        registry.register(Box::new(dropped.clone()))?;
        registry.register(Box::new(unknown.clone()))?;
        Ok(Self {
            driver: driver.to_owned(),
            probes,
            status,
            cycle,
            dropped,
            unknown,
            volumes: Arc::default(),
        })
    }

    /// Counts a call to the driver.
    pub(super) fn probe(&self, method: &str, ok: bool) {
        let result = if ok { "success" } else { "error" };
        let labels = [&*self.driver, method, result];
        self.probes.with_label_values(&labels).inc();
    }

    /// Records the duration of a list or a round.
    pub(super) fn cycle(&self, took: Duration) {
        self.cycle.set(took.as_secs_f64());
    }

    /// Counts a write that the API server dropped.
    pub(super) fn dropped(&self) {
        self.dropped.inc();
    }

    /// Counts conditions with an unknown status.
    pub(super) fn left_out(&self, conditions: usize) {
        let conditions = u64::try_from(conditions).unwrap_or(u64::MAX);
        self.unknown.inc_by(conditions);
    }

    /// Updates the counts after a volume's health changed.
    pub(super) fn health(&self, before: &Conditions, after: &Conditions) {
        let mut volumes = self.volumes.lock().unwrap_or_else(PoisonError::into_inner);
        let changes =
            { before.iter().map(|one| (one, -1)) }.chain(after.iter().map(|one| (one, 1)));
        for (condition, by) in changes {
            let status = condition.status.name();
            let (reason, count) = volumes.count(status, &condition.reason, by);
            let labels = [&*self.driver, status, &*reason];
            if count > 0 {
                self.status.with_label_values(&labels).set(count);
            } else {
                // A series that was never created is already missing.
                let _ = self.status.remove_label_values(&labels);
            }
        }
    }

    /// Volumes are counted until the returned value is dropped. A process without the lease does not know their health,
    /// and its counts would add to those of the next leader.
    #[must_use]
    pub fn term(&self) -> Term {
        Term(self.clone())
    }

    fn forget(&self) {
        let mut volumes = self.volumes.lock().unwrap_or_else(PoisonError::into_inner);
        *volumes = Counts::default();
        self.status.reset();
    }
}

/// Resets the counts when dropped.
#[derive(Debug)]
pub struct Term(Metrics);

impl Drop for Term {
    fn drop(&mut self) {
        self.0.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::report;

    #[test]
    fn volumes_are_counted_by_status_and_reason() {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry, "d").unwrap();
        let lines = || -> Vec<String> {
            let text = registry.render();
            let own = text
                .lines()
                .filter(|line| line.starts_with("csi_controller_volume_health_status"));
            own.map(|line| line.split_once('{').unwrap().1.to_owned())
                .collect()
        };
        let (none, a) = (report(&[]), report(&["Degraded A"]));
        metrics.health(&none, &a);
        metrics.health(&none, &a);
        metrics.health(&a, &report(&["Degraded A", "DataLoss B"]));
        assert_eq!(
            lines(),
            [
                "driver_name=\"d\",reason=\"A\",status=\"Degraded\"} 2",
                "driver_name=\"d\",reason=\"B\",status=\"DataLoss\"} 1",
            ]
        );
        metrics.health(&a, &none);
        metrics.health(&report(&["Degraded A", "DataLoss B"]), &none);
        assert!(lines().is_empty());
        for number in 0..200 {
            metrics.health(&none, &report(&[&format!("Degraded R{number}")]));
        }
        assert_eq!(lines().len(), MOST_REASONS + 1);
        assert!(
            lines().contains(
                &"driver_name=\"d\",reason=\"other\",status=\"Degraded\"} 100".to_owned()
            )
        );
        // A pair that appeared while no series was free must not be taken for one that has a series.
        metrics.health(&report(&["Degraded R0"]), &none);
        let late = report(&["Degraded R150"]);
        metrics.health(&none, &late);
        metrics.health(&late, &none);
        metrics.health(&late, &none);
        metrics.health(&none, &report(&["Degraded New"]));
        let has = |line: &str| lines().iter().any(|one| one.contains(line));
        assert!(
            has("reason=\"other\",status=\"Degraded\"} 99"),
            "{:?}",
            lines()
        );
        assert!(
            has("reason=\"New\",status=\"Degraded\"} 1"),
            "{:?}",
            lines()
        );
    }

    /// In a process with several controllers, the metrics outlive the leases.
    #[test]
    fn volumes_are_forgotten_at_the_end_of_a_term() {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry, "d").unwrap();
        for _ in 0..2 {
            let term = metrics.term();
            metrics.health(&report(&[]), &report(&["Degraded A"]));
            let text = registry.render();
            assert!(
                text.contains("reason=\"A\",status=\"Degraded\"} 1"),
                "{text}"
            );
            drop(term);
            let text = registry.render();
            assert!(
                !text.contains("csi_controller_volume_health_status{"),
                "{text}"
            );
        }
    }
}
