//! The metrics of csi-snapshot-metadata.

use std::time::Duration;

use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts};
use sidecar::metrics::{CsiOperations, Labels, OperationsConfig, RegisterError, Registry, Side};
use sidecar::rpc_code;
use tonic::Code;

use crate::plan::refusal::Reason;
use crate::plan::request::Request;

const TARGET: &str = "target_snapshot";
const BASE: &str = "base_snapshot";

/// All metrics; clones share their values.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// How long calls take: the clients' calls, and this program's calls to the driver's identity service.
    pub operations: CsiOperations,
    /// Streams from the driver that run now.
    pub streams: IntGauge,
    /// Messages sent to clients.
    pub messages: IntCounter,
    /// Ranges in these messages.
    pub ranges: IntCounter,
    /// When the server's certificate expires.
    pub not_after: IntGauge,
    refused: IntCounterVec,
    /// The labels of namespace and snapshot have values (`--metrics-snapshot-labels`).
    snapshots: bool,
}

impl Metrics {
    /// Registers the metrics with `registry`. `snapshots`: each snapshot has series of its own.
    ///
    /// # Errors
    /// `registry` has one of the metrics already.
    pub fn new(registry: &Registry, snapshots: bool) -> Result<Self, RegisterError> {
        let config = OperationsConfig {
            side: Side::SnapshotMetadata,
            varying: vec![TARGET.to_owned(), BASE.to_owned()],
            ..OperationsConfig::default()
        };
        let name = |name| format!("csi_snapshot_metadata_{name}");
        let this = Self {
            operations: CsiOperations::new(registry, config)?,
            streams: IntGauge::new(name("streams"), "Streams of the driver that run")?,
            messages: IntCounter::new(name("messages_total"), "Messages sent to clients")?,
            ranges: IntCounter::new(name("ranges_total"), "Ranges of volumes sent to clients")?,
            not_after: IntGauge::new(
                name("certificate_not_after_seconds"),
                "Unix time at which the server's certificate ends",
            )?,
            refused: IntCounterVec::new(
                Opts::new(
                    name("refused_total"),
                    "Calls of clients that failed, by reason",
                ),
                &["reason"],
            )?,
            snapshots,
        };
        // Without its first 0, a counter's first increment is none to Prometheus.
        for reason in Reason::ALL {
            let _ = this.refused.with_label_values(&[reason.label()]);
        }
        registry.register(Box::new(this.streams.clone()))?;
        registry.register(Box::new(this.messages.clone()))?;
        registry.register(Box::new(this.ranges.clone()))?;
        registry.register(Box::new(this.not_after.clone()))?;
        registry.register(Box::new(this.refused.clone()))?;
        Ok(this)
    }

    /// Counts a client's call. `known`: the client may see the snapshot, so its name may become a label.
    pub fn call(&self, request: &Request, known: bool, code: Code, took: Duration) {
        let labels = if self.snapshots && known {
            let target = format!("{}/{}", request.namespace, request.snapshot);
            let base = request.base.as_deref().unwrap_or_default();
            let labels = [(TARGET, target.as_str()), (BASE, base)];
            self.operations.labels(labels).unwrap_or_default()
        } else {
            Labels::default()
        };
        let (method, code) = (request.method(), rpc_code::name(code));
        self.operations.observe(method, code, false, &labels, took);
    }

    /// Counts a call that failed.
    pub fn refused(&self, reason: Reason) {
        self.refused.with_label_values(&[reason.label()]).inc();
    }
}
