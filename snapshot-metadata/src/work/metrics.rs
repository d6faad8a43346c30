//! What csi-snapshot-metadata counts.

use std::time::Duration;

use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts};
use sidecar::metrics::{CsiOperations, Labels, OperationsConfig, RegisterError, Registry, Side};
use sidecar::rpc_code;
use tonic::Code;

use crate::plan::refusal::Reason;
use crate::plan::request::Request;

const TARGET: &str = "target_snapshot";
const BASE: &str = "base_snapshot";

/// All metrics; clones are the same.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// How long calls take: those of clients, and those by which the driver is met.
    pub operations: CsiOperations,
    /// Streams that the driver sends now.
    pub streams: IntGauge,
    /// Messages that clients were sent.
    pub messages: IntCounter,
    /// Ranges in them.
    pub ranges: IntCounter,
    /// When the server's certificate ends.
    pub not_after: IntGauge,
    refused: IntCounterVec,
    /// Whether the labels of snapshots have values.
    snapshots: bool,
}

impl Metrics {
    /// Without observations, shown by `registry`. `snapshots`: whether each snapshot has series of its own.
    ///
    /// # Errors
    /// The registry has one of them already.
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
        registry.register(Box::new(this.streams.clone()))?;
        registry.register(Box::new(this.messages.clone()))?;
        registry.register(Box::new(this.ranges.clone()))?;
        registry.register(Box::new(this.not_after.clone()))?;
        registry.register(Box::new(this.refused.clone()))?;
        Ok(this)
    }

    /// Counts a call of a client; `known`: whether it may see the snapshot, whose name is a label then.
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
