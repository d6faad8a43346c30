//! Durations of calls to the driver: `csi_sidecar_operations_seconds`.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec};

use super::{RegisterError, Registry};

const BUCKETS: [f64; 13] = [
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0,
];
const UNKNOWN_DRIVER: &str = "unknown-driver";
/// The code label of a failure that is not a gRPC status.
pub const NON_GRPC: &str = "unknown-non-grpc";

/// The program that measures, which determines the metric's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// A sidecar: `csi_sidecar_operations_seconds`.
    #[default]
    Sidecar,
    /// A driver: `csi_plugin_operations_seconds`.
    Plugin,
    /// csi-snapshot-metadata, including its own calls: `snapshot_metadata_controller_operations_seconds`.
    SnapshotMetadata,
}

/// Settings of the histogram.
#[derive(Clone, Debug, Default)]
pub struct OperationsConfig {
    /// The program that measures.
    pub side: Side,
    /// Whether samples carry the label `migrated`.
    pub migrated: bool,
    /// Labels with a fixed value.
    pub fixed: BTreeMap<String, String>,
    /// Names of labels whose values vary between samples.
    pub varying: Vec<String>,
}

/// Values of the varying labels for one sample, from [`CsiOperations::labels`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(BTreeMap<String, String>);

/// Invalid labels for a sample.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// The settings define no such label.
    #[error("label {0:?} is not defined")]
    Undefined(String),
    /// The label has a value already.
    #[error("label {0:?} is set twice")]
    Twice(String),
}

/// The histogram of calls' durations.
#[derive(Clone, Debug)]
pub struct CsiOperations {
    histogram: HistogramVec,
    driver: Arc<RwLock<String>>,
    config: Arc<OperationsConfig>,
}

impl CsiOperations {
    /// Adds the histogram to `registry`.
    ///
    /// # Errors
    /// The registry has one already, or a label has no valid name.
    pub fn new(registry: &Registry, config: OperationsConfig) -> Result<Self, RegisterError> {
        let this = Self::unregistered(config)?;
        this.register(registry)?;
        Ok(this)
    }

    /// The histogram without a registry, for samples taken before the labels are known.
    ///
    /// # Errors
    /// A label has no valid name.
    pub fn unregistered(config: OperationsConfig) -> Result<Self, RegisterError> {
        let who = match config.side {
            Side::Sidecar => "csi_sidecar",
            Side::Plugin => "csi_plugin",
            Side::SnapshotMetadata => "snapshot_metadata_controller",
        };
        let mut options = HistogramOpts::new(
            format!("{who}_operations_seconds"),
            "[ALPHA] Container Storage Interface operation duration with gRPC error code status \
             total",
        )
        .buckets(BUCKETS.to_vec());
        for (name, value) in &config.fixed {
            options = options.const_label(name, value);
        }
        let mut names = vec!["driver_name", "method_name", "grpc_status_code"];
        if config.migrated {
            names.push("migrated");
        }
        names.extend(config.varying.iter().map(String::as_str));
        let histogram = HistogramVec::new(options, &names)?;
        Ok(Self {
            histogram,
            driver: Arc::new(RwLock::new(UNKNOWN_DRIVER.to_owned())),
            config: Arc::new(config),
        })
    }

    /// Adds the histogram with its samples to `registry`.
    ///
    /// # Errors
    /// The registry has one already.
    pub fn register(&self, registry: &Registry) -> Result<(), RegisterError> {
        registry.register(Box::new(self.histogram.clone()))
    }

    /// Sets the driver's name for further samples; earlier ones keep theirs.
    pub fn set_driver_name(&self, name: &str) {
        if let Ok(mut driver) = self.driver.write() {
            name.clone_into(&mut driver);
        }
    }

    /// Checks the values of varying labels.
    ///
    /// # Errors
    /// A label is not defined, or occurs twice.
    pub fn labels<'a>(
        &self,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Labels, LabelError> {
        let mut labels = BTreeMap::new();
        for (name, value) in pairs {
            if !self.config.varying.iter().any(|known| known == name) {
                return Err(LabelError::Undefined(name.to_owned()));
            }
            if labels.insert(name.to_owned(), value.to_owned()).is_some() {
                return Err(LabelError::Twice(name.to_owned()));
            }
        }
        Ok(Labels(labels))
    }

    /// Records a sample. `method` is the full path, `code` Go's name of the status or [`NON_GRPC`].
    pub fn observe(
        &self,
        method: &str,
        code: &str,
        migrated: bool,
        labels: &Labels,
        duration: Duration,
    ) {
        let driver = self.driver.read();
        let driver = driver.as_deref().map_or(UNKNOWN_DRIVER, String::as_str);
        let mut values = vec![driver, method, code];
        if self.config.migrated {
            values.push(if migrated { "true" } else { "false" });
        }
        let varying = self.config.varying.iter();
        values.extend(varying.map(|name| labels.0.get(name).map_or("", String::as_str)));
        if let Ok(histogram) = self.histogram.get_metric_with_label_values(&values) {
            histogram.observe(duration.as_secs_f64());
        }
    }
}
