//! Metrics of the loop, with kubelet's names.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, HistogramOpts, HistogramVec, Opts};
use sidecar::metrics::{RegisterError, Registry};
use sidecar::rpc_code;
use tonic::Code;

use super::register::World;

/// `csi_operations_seconds`: duration of the calls to drivers.
#[derive(Clone, Debug)]
pub struct CsiOperations {
    histogram: HistogramVec,
}

/// Buckets of kubelet's and the sidecars' CSI histograms.
const BUCKETS: [f64; 13] = [
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0,
];

impl CsiOperations {
    /// A histogram without observations, registered in `registry`.
    ///
    /// # Errors
    /// The registry has one already.
    pub fn new(registry: &Registry) -> Result<Self, RegisterError> {
        let help = "[ALPHA] Container Storage Interface operation duration \
                    with gRPC error code status total";
        let options = HistogramOpts::new("csi_operations_seconds", help).buckets(BUCKETS.to_vec());
        let labels = ["driver_name", "method_name", "grpc_status_code", "migrated"];
        let histogram = HistogramVec::new(options, &labels)?;
        registry.register(Box::new(histogram.clone()))?;
        Ok(Self { histogram })
    }

    /// Records a call.
    pub fn observe(&self, driver: &str, method: &str, code: Code, elapsed: Duration) {
        self.histogram
            .with_label_values(&[driver, method, rpc_code::name(code), "false"])
            .observe(elapsed.as_secs_f64());
    }
}

/// `plugin_manager_total_plugins`: one series for each socket and state, computed at each scrape.
struct TotalPlugins {
    world: Arc<World>,
    gauge: GaugeVec,
}

/// Registers the metrics of the plugins of `world`.
///
/// # Errors
/// The registry has them already.
pub fn show_plugins(registry: &Registry, world: Arc<World>) -> Result<(), RegisterError> {
    let help = "[ALPHA] Number of plugins in Plugin Manager";
    let options = Opts::new("plugin_manager_total_plugins", help);
    let gauge = GaugeVec::new(options, &["socket_path", "state"])?;
    registry.register(Box::new(TotalPlugins { world, gauge }))
}

impl TotalPlugins {
    fn set(&self, socket: &Path, state: &str) {
        self.gauge
            .with_label_values(&[&*socket.to_string_lossy(), state])
            .set(1.0);
    }
}

impl Collector for TotalPlugins {
    fn desc(&self) -> Vec<&Desc> {
        self.gauge.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.gauge.reset();
        for (socket, _) in self.world.actual().plugins() {
            self.set(socket, "actual_state_of_world");
        }
        for (socket, _) in self.world.desired().sockets() {
            self.set(socket, "desired_state_of_world");
        }
        self.gauge.collect()
    }
}
