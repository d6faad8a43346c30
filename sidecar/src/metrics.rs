//! Metrics with the names, labels, buckets and text of the Go sidecars.
//!
//! Dashboards and recording rules cover mixed fleets: a bucket label `le="1.0"` instead of `le="1"` makes a
//! different series. The crate `prometheus` does the counting; the text format is written here.

mod controllers;
mod election;
mod operations;
mod process;
mod scrapes;
mod text;

use std::sync::{Arc, OnceLock};

use prometheus::core::Collector;
use scrapes::Scrapes;

pub use controllers::ControllerMetrics;
pub use election::ElectionMetrics;
pub use operations::{CsiOperations, LabelError, Labels, NON_GRPC, OperationsConfig, Side};
pub use process::start as process_start;
pub use text::float;

/// `Content-Type` of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// The metrics of a scrape.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    inner: prometheus::Registry,
    process: Process,
    scrapes: Arc<OnceLock<Scrapes>>,
}

/// The part of the `process_*` family in a scrape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Process {
    /// All metrics that the operating system provides.
    #[default]
    All,
    /// `process_start_time_seconds` only, as in the livenessprobe.
    StartTime,
}

/// A metric cannot be added.
#[derive(Debug, thiserror::Error)]
#[error("cannot register a metric")]
pub struct RegisterError(#[from] prometheus::Error);

impl Registry {
    /// An empty registry with the whole `process_*` family.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty registry with this part of the `process_*` family.
    pub fn with_process(process: Process) -> Self {
        Self {
            process,
            ..Self::default()
        }
    }

    /// Adds a metric.
    ///
    /// # Errors
    /// The name is taken, or the metric is malformed.
    pub fn register(&self, metric: Box<dyn Collector>) -> Result<(), RegisterError> {
        Ok(self.inner.register(metric)?)
    }

    /// Counts scrapes from now on, in `promhttp_metric_handler_requests_*`.
    ///
    /// # Errors
    /// Scrapes are counted already.
    pub fn count_scrapes(&self) -> Result<(), RegisterError> {
        let scrapes = Scrapes::new(&self.inner)?;
        self.scrapes.get_or_init(|| scrapes);
        Ok(())
    }

    /// The text of one scrape.
    pub fn render(&self) -> String {
        match self.scrapes.get() {
            Some(scrapes) => scrapes.count(|| self.text()),
            None => self.text(),
        }
    }

    fn text(&self) -> String {
        let mut families = self.inner.gather();
        families.extend(match self.process {
            Process::All => process::families(),
            Process::StartTime => process::start_time(),
        });
        families.sort_by(|a, b| a.name().cmp(b.name()));
        text::encode(&families)
    }
}

#[cfg(test)]
mod tests;
