//! Assembles the program: start-up, leadership, work, and shutdown.

use std::ffi::OsString;
use std::sync::{Arc, OnceLock};

use csi_proto::csi::methods;
use csi_proto::volume_condition;
use sidecar::controller::link::{Calls, Identity};
use sidecar::controller::{self, Controller, Election, Http, Program, Seat};
use sidecar::flags::{Exit, Values};
use sidecar::kube::connect::Variable;
use sidecar::names::LeaseOwner;

use crate::args::{self, Command, Config};
use crate::control;
use crate::plan::Driver;
use crate::plan::mode::Mode;
use crate::work::driver::DriverView;
use crate::work::metrics::Metrics;

/// Runs csi-external-health-monitor-controller.
///
/// # Errors
/// Returns the exit, unless a signal ended the process in good order.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    controller::run(HealthMonitor::PROGRAM, &args::SPEC, argv, decide, start).await
}

/// The command that the flags select, and the warnings to log.
///
/// # Errors
/// As [`args::decide`].
pub fn decide(values: &Values) -> Result<(Command, Vec<String>), Exit> {
    args::decide(values)
}

async fn start(seat: Seat, config: Config) -> Result<(), Exit> {
    let monitor = HealthMonitor::new(config, true);
    let process = &*seat.process;
    let handshake = seat.connect_driver(
        monitor.csi_address(),
        monitor.calls(),
        Identity::Each(monitor.config.timeout),
        monitor.election(),
        HealthMonitor::is_migrated,
    );
    let handshake = process.unless_ended(handshake).await?;
    handshake.name_calls();
    sidecar::verbose!(2, driver = handshake.name(), "CSI driver name");
    // The HTTP server starts before anything that may take long.
    let working = async {
        let view = handshake.into_view(());
        let driver = process.unless_ended(view).await?;
        let work = async || Box::pin(monitor.work(&seat, &driver)).await;
        seat.lead(monitor.election(), Some(&*driver), work).await
    };
    Box::pin(process.serve(monitor.http(), working)).await
}

/// The health monitor controller.
#[derive(Debug)]
pub struct HealthMonitor {
    config: Config,
    /// Set if the controller may begin with any driver: the command line names the controller, or it has begun before.
    /// The driver may restart without health capabilities and later regain them.
    begins_anyway: OnceLock<()>,
    /// Created once per process, however often work begins.
    metrics: OnceLock<Metrics>,
}

impl HealthMonitor {
    /// A health monitor with this configuration. Unless the command line names it, it does not begin with a driver that
    /// does not report the health of volumes.
    #[must_use]
    pub fn new(config: Config, is_named: bool) -> Self {
        Self {
            config,
            begins_anyway: if is_named {
                OnceLock::from(())
            } else {
                OnceLock::new()
            },
            metrics: OnceLock::new(),
        }
    }
}

impl Controller for HealthMonitor {
    type Driver = Driver;

    const PROGRAM: Program = Program {
        name: "csi-external-health-monitor-controller",
        replaces: "csi-external-health-monitor-controller v0.18.0",
        crates: &["health_monitor", "csi_external_health_monitor_controller"],
        owner: LeaseOwner::HealthMonitor,
        gates: args::GATES,
        kubeconfig: Variable::Ignored,
        fatal: 1,
    };

    fn csi_address(&self) -> &str {
        &self.config.csi_address
    }

    fn election(&self) -> Option<&Election> {
        self.config.election.as_ref()
    }

    fn http(&self) -> Option<&Http> {
        self.config.http.as_ref()
    }

    fn calls(&self) -> Calls {
        Calls {
            timeout: self.config.timeout,
            // The messages of older drivers are not part of today's CSI.
            methods: &[
                volume_condition::methods::CONTROLLER,
                methods::IDENTITY,
                methods::CONTROLLER,
            ],
            response_limit: None,
        }
    }

    fn is_migrated(_driver: &str) -> bool {
        false
    }

    fn settings(&self) {}

    fn may_begin(&self, driver: &Driver) -> Result<(), Exit> {
        if driver.mode != Mode::Nothing {
            self.begins_anyway.get_or_init(|| ());
        }
        if self.begins_anyway.get().is_some() {
            return Ok(());
        }
        let line = format!(
            "driver {} says nothing about the health of volumes",
            driver.name
        );
        Err(Exit::failure(1, line))
    }

    async fn work(&self, seat: &Seat, driver: &Arc<DriverView>) -> Result<(), Exit> {
        let metrics = match self.metrics.get() {
            Some(metrics) => metrics,
            None => {
                let new = Metrics::new(&seat.process.registry, &driver.current().name)?;
                self.metrics.get_or_init(|| new)
            }
        };
        Box::pin(control::work(seat, &self.config, driver, metrics.clone())).await
    }
}
