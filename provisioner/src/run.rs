//! Assembles the program: start-up in upstream's order, leader election, work, shutdown.

use std::ffi::OsString;
use std::sync::Arc;

use csi_proto::csi::methods;
use migration::TRANSLATOR;
use sidecar::controller::link::{Calls, Identity};
use sidecar::controller::{self, Controller, Election, Http, Program, Seat};
use sidecar::flags::{Exit, Values};
use sidecar::kube::connect::Variable;
use sidecar::names::LeaseOwner;
use sidecar::rt::unit_random;
use sidecar::verbose;

use crate::args::{self, Command, Config, Environment, FATAL};
use crate::control::{self, CapacityProducer, Parts};
use crate::plan::Driver;
use crate::work::capacity;
use crate::work::discovery;
use crate::work::driver::{self as our_driver, DriverView, OwnNode};
use crate::work::metrics::{CapacityMetrics, Metrics};

/// Runs csi-provisioner.
///
/// # Errors
/// The exit of the process, unless a signal stops it in good order.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    controller::run(Provisioner::PROGRAM, &args::SPEC, argv, decide, start).await
}

/// The command that the flags and the environment select, with the warnings to log.
///
/// # Errors
/// As [`args::decide`].
pub fn decide(values: &Values) -> Result<(Command, Vec<String>), Exit> {
    let environment = Environment::new(|name| std::env::var(name).ok());
    args::decide(values, &environment)
}

async fn start(seat: Seat, config: Config) -> Result<(), Exit> {
    let process = &*seat.process;
    let mut provisioner = Provisioner::new(&seat, config)?;
    let address = provisioner.config.csi_address.clone();
    let election = provisioner.config.election.clone();
    let identity = Identity::Each(provisioner.config.timeout);
    let calls = provisioner.calls();
    let connecting = seat.connect_driver(
        &address,
        calls,
        identity,
        election.as_ref(),
        Provisioner::is_migrated,
    );
    let meeting = async {
        provisioner.discover(&seat).await?;
        connecting.await
    };
    let handshake = process.unless_ended(meeting).await?;
    handshake.name_calls();
    tracing::info!(driver = handshake.name(), "Detected CSI driver");
    let driver: Arc<DriverView> = process.unless_ended(handshake.into_view(())).await?;
    provisioner.prepare(&seat, &driver).await?;
    let work = async || Box::pin(provisioner.work(&seat, &driver)).await;
    let working = seat.lead(provisioner.election(), Some(&*driver), work);
    process.serve(provisioner.http(), working).await
}

/// Creates and deletes volumes.
#[derive(Debug)]
pub struct Provisioner {
    config: Config,
    metrics: Metrics,
    /// The driver's information about the node of this process, in a node deployment.
    node: Option<OwnNode>,
    /// Publishes CSIStorageCapacity objects; `None` without `--enable-capacity`.
    producer: Option<CapacityProducer>,
}

impl Provisioner {
    /// A provisioner with this configuration; registers its metrics.
    ///
    /// # Errors
    /// The registry has them already.
    pub fn new(seat: &Seat, config: Config) -> Result<Self, Exit> {
        let registry = &seat.process.registry;
        // Only the provisioner counts scrapes, as in upstream.
        registry.count_scrapes()?;
        Ok(Self {
            metrics: Metrics::new(registry)?,
            config,
            node: None,
            producer: None,
        })
    }
}

impl Controller for Provisioner {
    type Driver = Driver;

    const PROGRAM: Program = Program {
        name: "csi-provisioner",
        replaces: "csi-provisioner v6.4.0",
        crates: &["provisioner", "csi_provisioner"],
        owner: LeaseOwner::Provisioner,
        gates: args::GATES,
        kubeconfig: Variable::Overrides,
        fatal: FATAL,
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
            methods: &[methods::IDENTITY, methods::CONTROLLER, methods::NODE],
            response_limit: None,
        }
    }

    fn is_migrated(driver: &str) -> bool {
        TRANSLATOR.has_moved_to(driver)
    }

    fn settings(&self) {}

    async fn discover(&mut self, seat: &Seat) -> Result<(), Exit> {
        let given = self.config.attributes_class_given;
        if !given && discovery::lacks_attributes_class(&seat.api()).await {
            tracing::info!(
                "The API server has no VolumeAttributesClass, its feature gate is switched off"
            );
            self.config.settings.gates.attributes_class = false;
        }
        Ok(())
    }

    async fn prepare(&mut self, seat: &Seat, driver: &Arc<DriverView>) -> Result<(), Exit> {
        let known = driver.current();
        if let Some(plugin) = known.plugin() {
            verbose!(
                2,
                plugin,
                "The driver serves the volumes of an in-tree plugin"
            );
        }
        self.config.settings.identity = identity(&self.config, &known.name);
        self.node = match &self.config.settings.node {
            Some(_) => Some(our_driver::node(driver).await?),
            None => None,
        };
        self.producer = producer(seat, &self.config, &known.name).await?;
        Ok(())
    }

    async fn work(&self, seat: &Seat, driver: &Arc<DriverView>) -> Result<(), Exit> {
        let parts = Parts {
            seat,
            config: &self.config,
            metrics: self.metrics.clone(),
            driver,
            node: self.node.as_ref(),
            producer: self.producer.as_ref(),
        };
        Box::pin(control::work(&parts)).await
    }
}

/// Prepares the producer of CSIStorageCapacity objects, if they are enabled.
async fn producer(
    seat: &Seat,
    config: &Config,
    driver: &str,
) -> Result<Option<CapacityProducer>, Exit> {
    let Some(capacity) = &config.capacity else {
        return Ok(None);
    };
    let process = &*seat.process;
    let api = seat.api();
    let node = config.settings.node.as_ref().map(|node| &*node.name);
    let producer = capacity::producer(&api, capacity, driver, node);
    Ok(Some(CapacityProducer {
        producer: process.unless_ended(producer).await?,
        rate: capacity.rate,
        metrics: CapacityMetrics::new(&process.registry)?,
    }))
}

/// Tells processes apart in the attributes of the volumes they create.
fn identity(config: &Config, driver: &str) -> String {
    let millis = jiff::Timestamp::now().as_millisecond();
    // Below 10,000 by construction; its distribution does not matter.
    let random = format!("{:.0}", (unit_random() * 10_000.0).floor());
    match &config.settings.node {
        None => format!("{millis}-{random}-{driver}"),
        Some(node) => format!("{millis}-{random}-{driver}-{}", node.name),
    }
}
