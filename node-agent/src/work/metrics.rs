//! Metrics of volume operations, under kubelet's names.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec};
use sidecar::metrics::{RegisterError, Registry};

/// Kubelet's buckets.
const BUCKETS: [f64; 12] = [
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0,
];

/// `storage_operation_duration_seconds`
#[derive(Clone, Debug)]
pub struct StorageOperations {
    histogram: HistogramVec,
}

impl StorageOperations {
    /// Creates the histogram and registers it.
    ///
    /// # Errors
    /// The registry has one already.
    pub fn new(registry: &Registry) -> Result<Self, RegisterError> {
        let help = "[BETA] Storage operation duration";
        let options = HistogramOpts::new("storage_operation_duration_seconds", help)
            .buckets(BUCKETS.to_vec());
        let labels = ["volume_plugin", "operation_name", "status", "migrated"];
        let histogram = HistogramVec::new(options, &labels)?;
        registry.register(Box::new(histogram.clone()))?;
        Ok(Self { histogram })
    }

    /// Records an operation.
    pub fn observe(&self, driver: &str, operation: &str, succeeded: bool, elapsed: Duration) {
        let plugin = format!("kubernetes.io/csi:{driver}");
        let status = if succeeded { "success" } else { "fail-unknown" };
        self.histogram
            .with_label_values(&[plugin.as_str(), operation, status, "false"])
            .observe(elapsed.as_secs_f64());
    }
}
