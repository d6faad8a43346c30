//! Durations of operations that users wait for, under upstream's names.

use std::time::Instant;

use prometheus::{Gauge, HistogramOpts, HistogramVec};
use sidecar::metrics::{RegisterError, Registry};

use crate::plan::operation::Sample;

const BUCKETS: [f64; 13] = [
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0,
];

/// The metrics; see the module.
#[derive(Clone, Debug)]
pub struct Metrics {
    total: HistogramVec,
    in_flight: Gauge,
}

impl Metrics {
    /// Registers the metrics with `registry`.
    ///
    /// # Errors
    /// `registry` has them already.
    pub fn new(registry: &Registry) -> Result<Self, RegisterError> {
        let options = HistogramOpts::new(
            "snapshot_controller_operation_total_seconds",
            "[ALPHA] Total number of seconds spent by the controller on an operation",
        );
        let labels = [
            "driver_name",
            "operation_name",
            "operation_status",
            "snapshot_type",
        ];
        let total = HistogramVec::new(options.buckets(BUCKETS.to_vec()), &labels)?;
        let in_flight = Gauge::new(
            "snapshot_controller_operations_in_flight",
            "[ALPHA] Total number of operations in flight",
        )?;
        registry.register(Box::new(total.clone()))?;
        registry.register(Box::new(in_flight.clone()))?;
        Ok(Self { total, in_flight })
    }

    /// Records the end of an operation.
    pub fn observe(&self, sample: &Sample, now: Instant) {
        let labels = [
            &*sample.driver,
            sample.operation.name(sample.group),
            sample.status,
            sample.kind,
        ];
        if let Ok(histogram) = self.total.get_metric_with_label_values(&labels) {
            let took = now.saturating_duration_since(sample.since);
            histogram.observe(took.as_secs_f64());
        }
    }

    /// Sets the number of running operations.
    pub fn in_flight(&self, number: usize) {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        self.in_flight.set(f64::from(number));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::plan::operation::Operation;

    #[test]
    fn c_91_bounds_and_labels_are_upstreams() {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry).unwrap();
        let since = Instant::now();
        let sample = Sample {
            operation: Operation::Create,
            status: "success",
            driver: "test.csi.driver".into(),
            kind: "dynamic",
            group: false,
            since,
        };
        metrics.observe(&sample, since + Duration::from_millis(300));
        metrics.in_flight(2);
        let text = registry.render();
        let labels = "driver_name=\"test.csi.driver\",operation_name=\"CreateSnapshot\",\
                      operation_status=\"success\",snapshot_type=\"dynamic\"";
        for (bound, count) in [
            ("0.1", 0),
            ("0.25", 0),
            ("0.5", 1),
            ("1", 1),
            ("2.5", 1),
            ("5", 1),
            ("10", 1),
            ("15", 1),
            ("30", 1),
            ("60", 1),
            ("120", 1),
            ("300", 1),
            ("600", 1),
            ("+Inf", 1),
        ] {
            let line = format!(
                "snapshot_controller_operation_total_seconds_bucket{{{labels},le=\"{bound}\"}} {count}\n"
            );
            assert!(text.contains(&line), "{line}{text}");
        }
        assert_eq!(text.matches("_total_seconds_bucket{").count(), 14);
        assert!(
            text.contains("\nsnapshot_controller_operations_in_flight 2\n"),
            "{text}"
        );
    }
}
