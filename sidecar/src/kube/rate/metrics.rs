//! Metrics of the rate limits. Upstream has none of these.

use std::collections::HashMap;
use std::time::Duration;

use prometheus::{Gauge, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts};

use super::lane::Lane;
use crate::metrics::{RegisterError, Registry};

/// 1 ms to 1 min.
const BUCKETS: [f64; 9] = [0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0];

/// The metric families; clones share them.
#[derive(Clone, Debug)]
pub struct RateMetrics {
    waited: HistogramVec,
    running: IntGaugeVec,
    refused: IntCounterVec,
    limit: Gauge,
}

impl RateMetrics {
    /// Registers the families in `registry`.
    ///
    /// # Errors
    /// The registry already has them.
    pub fn new(registry: &Registry) -> Result<Self, RegisterError> {
        Self::labelled(registry, &HashMap::new())
    }

    /// Registers the families for one of several controllers, whose series have its name as label
    /// `controller`.
    ///
    /// # Errors
    /// The registry already has this controller, or the families without that label.
    pub fn of(controller: &str, registry: &Registry) -> Result<Self, RegisterError> {
        let label = ("controller".to_owned(), controller.to_owned());
        Self::labelled(registry, &HashMap::from([label]))
    }

    fn labelled(
        registry: &Registry,
        labels: &HashMap<String, String>,
    ) -> Result<Self, RegisterError> {
        let opts = |name: &str, help: &str| {
            let name = format!("csi_sidecar_kube_api_{name}");
            Opts::new(name, help).const_labels(labels.clone())
        };
        let waited = HistogramOpts::from(opts(
            "wait_seconds",
            "Time that requests to the API server waited in this process before they were sent",
        ));
        let metrics = Self {
            waited: HistogramVec::new(waited.buckets(BUCKETS.to_vec()), &["lane"])?,
            running: IntGaugeVec::new(
                opts(
                    "requests_running",
                    "Requests sent to the API server and not answered",
                ),
                &["lane"],
            )?,
            refused: IntCounterVec::new(
                opts(
                    "refused_total",
                    "Requests that the API server refused as too many",
                ),
                &["lane"],
            )?,
            limit: Gauge::with_opts(opts(
                "concurrency_limit",
                "Requests that may run at once; 0 while a fixed rate or none is in force",
            ))?,
        };
        registry.register(Box::new(metrics.waited.clone()))?;
        registry.register(Box::new(metrics.running.clone()))?;
        registry.register(Box::new(metrics.refused.clone()))?;
        registry.register(Box::new(metrics.limit.clone()))?;
        for lane in Lane::ALL {
            metrics.running.with_label_values(&[lane.label()]);
            metrics.refused.with_label_values(&[lane.label()]);
        }
        Ok(metrics)
    }

    pub(super) fn limit(&self, limit: f64) {
        self.limit.set(limit.floor());
    }

    pub(super) fn waited(&self, lane: Lane, time: Duration) {
        self.waited
            .with_label_values(&[lane.label()])
            .observe(time.as_secs_f64());
    }

    pub(super) fn refused(&self, lane: Lane) {
        self.refused.with_label_values(&[lane.label()]).inc();
    }

    /// Counts a request as running until the result is dropped.
    pub(super) fn running(&self, lane: Lane) -> impl Drop + Send + use<> {
        struct Running(prometheus::IntGauge);
        impl Drop for Running {
            fn drop(&mut self) {
                self.0.dec();
            }
        }
        let gauge = self.running.with_label_values(&[lane.label()]);
        gauge.inc();
        Running(gauge)
    }
}
