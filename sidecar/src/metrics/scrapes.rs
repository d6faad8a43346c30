//! Go's metrics about its metrics handler.

use prometheus::{IntCounterVec, IntGauge, Opts};

use super::RegisterError;

/// Number of scrapes, answered and in flight.
#[derive(Clone, Debug)]
pub(super) struct Scrapes {
    total: IntCounterVec,
    in_flight: IntGauge,
}

impl Scrapes {
    pub(super) fn new(registry: &prometheus::Registry) -> Result<Self, RegisterError> {
        let total = Opts::new(
            "promhttp_metric_handler_requests_total",
            "Total number of scrapes by HTTP status code.",
        );
        let total = IntCounterVec::new(total, &["code"])?;
        // Series appear before their first scrape, as in Go.
        for code in ["200", "500", "503"] {
            total.with_label_values(&[code]);
        }
        let in_flight = IntGauge::new(
            "promhttp_metric_handler_requests_in_flight",
            "Current number of scrapes being served.",
        )?;
        registry.register(Box::new(total.clone()))?;
        registry.register(Box::new(in_flight.clone()))?;
        Ok(Self { total, in_flight })
    }

    /// Renders the text of a scrape and counts the scrape, as in flight meanwhile.
    pub(super) fn count(&self, render: impl FnOnce() -> String) -> String {
        self.in_flight.inc();
        let text = render();
        self.in_flight.dec();
        self.total.with_label_values(&["200"]).inc();
        text
    }
}
