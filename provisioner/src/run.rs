//! Puts the parts together: start-up in upstream's order, leadership, work, and the end.

use std::ffi::OsString;
use std::sync::Arc;

use csi_proto::csi::methods;
use kube::Client;
use sidecar::controller::Election;
use sidecar::controller::driver::{self, Identity, Met};
use sidecar::controller::lead::{Candidate, PATIENCE};
use sidecar::controller::serve::{LeaderHealth, serve};
use sidecar::error::Chain;
use sidecar::flags::{self, Exit, Values};
use sidecar::kube::api::Api;
use sidecar::kube::connect::{self, Variable};
use sidecar::kube::rate::RateMetrics;
use sidecar::metrics::{CsiOperations, ElectionMetrics, OperationsConfig, Registry};
use sidecar::names::LeaseOwner;
use sidecar::rt::unit_random;
use sidecar::shutdown::{Shutdown, Signal};
use sidecar::{log, queue};

use crate::args::{self, Command, Config, Environment, FATAL};
use crate::control;
use crate::work::capacity::{self, Origin};
use crate::work::discovery;
use crate::work::driver::{self as our_driver, DriverLink};
use crate::work::metrics::{Metrics, Room};

/// Set by the build.
const VERSION: &str = match option_env!("CSI_SIDECARS_VERSION") {
    Some(version) => version,
    None => "unknown",
};

/// What everything else is made from.
pub(crate) struct Parts {
    pub(crate) config: Config,
    pub(crate) client: Client,
    pub(crate) shutdown: Shutdown,
    pub(crate) queues: queue::Metrics,
    pub(crate) metrics: Metrics,
    pub(crate) registry: Registry,
    pub(crate) options: connect::Options,
    /// What CSIStorageCapacity objects are made with, if they are.
    pub(crate) producer: Option<CapacityProducer>,
    operations: CsiOperations,
    election_metrics: ElectionMetrics,
    health: LeaderHealth,
}

/// What the producer of CSIStorageCapacity objects is made from.
pub(crate) struct CapacityProducer {
    pub(crate) origin: Origin,
    /// With a rate of its own, which neither leases nor anything else draws on.
    pub(crate) client: Client,
    pub(crate) room: Room,
}

/// Runs csi-provisioner.
///
/// # Errors
/// How the process ends unless a signal ends it in good order.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    let values = flags::parse(&args::SPEC, argv)?;
    let config = log::Config::from_flags(&values)?;
    log::init(&config, &["provisioner", "csi_provisioner"]);
    let environment = Environment::new(|name| std::env::var(name).ok());
    let (command, warnings) = args::decide(&values, &environment)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    match command {
        Command::Version => Err(Exit::version(values.program(), VERSION)),
        Command::Run(config) => Box::pin(start(&values, *config)).await,
    }
}

async fn start(values: &Values, config: Config) -> Result<(), Exit> {
    tracing::info!(version = VERSION, "Version");
    let shutdown = Shutdown::listen(&[Signal::Terminate, Signal::Interrupt])?;
    let options =
        connect::Options::from_flags(values, Variable::Overrides, "csi-provisioner", VERSION)
            .map_err(|error| fatal(&error))?;
    let registry = Registry::new();
    let rates = RateMetrics::new(&registry)?;
    let client = connect::connect(&options, Some(rates)).await;
    let client = client.map_err(|error| fatal(&error))?;
    let mut parts = Parts {
        config,
        client,
        shutdown,
        queues: queue::Metrics::new(&registry)?,
        metrics: Metrics::new(&registry)?,
        options,
        producer: None,
        operations: CsiOperations::new(&registry, OperationsConfig::default())?,
        election_metrics: ElectionMetrics::new(&registry)?,
        registry,
        health: LeaderHealth::default(),
    };
    let met = tokio::select! {
        biased;
        met = parts.meet() => met,
        () = parts.shutdown.requested() => return Ok(()),
    };
    let (attributes_class, met) = met?;
    parts.config.settings.gates.attributes_class &= attributes_class;
    parts.go_on(met).await
}

/// Exit code of upstream's fatal log line.
pub(crate) fn fatal(error: &(dyn std::error::Error + 'static)) -> Exit {
    Exit::failure(FATAL, Chain(error))
}

impl Parts {
    /// Whether the API server may have VolumeAttributesClasses, then the driver and its name.
    async fn meet(&self) -> Result<(bool, Met), Exit> {
        let api = Api::new(self.client.clone());
        let lacks =
            !self.config.attributes_class_given && discovery::lacks_attributes_class(&api).await;
        if lacks {
            tracing::info!(
                "The API server has no VolumeAttributesClass, its feature gate is switched off"
            );
        }
        let settings = driver::Settings {
            address: self.config.csi_address.clone(),
            timeout: self.config.timeout,
            identity: Identity::Each(self.config.timeout),
            methods: &[methods::IDENTITY, methods::CONTROLLER, methods::NODE],
            response_limit: None,
            patience: self.config.election.as_ref().map(|_| PATIENCE),
            mute: FATAL,
        };
        let met = Met::meet(settings, &self.operations).await?;
        Ok((!lacks, met))
    }

    /// From the driver's name on: the HTTP server comes before anything that may take long.
    async fn go_on(mut self, met: Met) -> Result<(), Exit> {
        self.operations.set_driver_name(met.name());
        tracing::info!(driver = met.name(), "Detected CSI driver");
        let driver: Arc<DriverLink> = tokio::select! {
            biased;
            driver = met.know(()) => driver?,
            () = self.shutdown.requested() => return Ok(()),
        };
        self.config.settings.identity = self.identity(&driver.current().name);
        let node = match &self.config.settings.node {
            Some(_) => Some(our_driver::node(&driver).await?),
            None => None,
        };
        self.producer = self.producer(&driver.current().name).await?;
        let (http, health) = (self.config.http.as_ref(), &self.health);
        let serving = serve(http, &self.registry, health, FATAL).await?;
        let working = async {
            match &self.config.election {
                Some(election) => Box::pin(self.lead(election, &driver, node)).await,
                None => Box::pin(control::work(&self, &driver, node)).await,
            }
        };
        tokio::select! {
            biased;
            result = working => result,
            () = serving => Err(Exit::failure(FATAL, "the HTTP server ended")),
        }
    }

    /// Prepares what is told about room, if that is wanted.
    async fn producer(&self, driver: &str) -> Result<Option<CapacityProducer>, Exit> {
        let Some(config) = &self.config.capacity else {
            return Ok(None);
        };
        let options = connect::Options {
            rate: config.rate,
            ..self.options.clone()
        };
        let client = connect::connect(&options, None).await;
        let api = Api::new(self.client.clone());
        let node = self.config.settings.node.as_ref().map(|node| &*node.name);
        let origin = tokio::select! {
            biased;
            origin = capacity::origin(&api, config, driver, node) => origin?,
            // The end is noticed where the work would begin.
            () = self.shutdown.requested() => return Ok(None),
        };
        Ok(Some(CapacityProducer {
            origin,
            client: client.map_err(|error| fatal(&error))?,
            room: Room::new(&self.registry)?,
        }))
    }

    /// Tells processes apart in the attributes of the volumes they create.
    fn identity(&self, driver: &str) -> String {
        let millis = jiff::Timestamp::now().as_millisecond();
        // Below 10,000 by construction; nothing depends on how evenly.
        let random = format!("{:.0}", (unit_random() * 10_000.0).floor());
        match &self.config.settings.node {
            None => format!("{millis}-{random}-{driver}"),
            Some(node) => format!("{millis}-{random}-{driver}-{}", node.name),
        }
    }

    /// Works while leading.
    async fn lead(
        &self,
        election: &Election,
        driver: &Arc<DriverLink>,
        node: Option<our_driver::OwnNode>,
    ) -> Result<(), Exit> {
        let candidate = Candidate {
            owner: LeaseOwner::Provisioner,
            driver: &driver.current().name,
            election,
            metrics: &self.election_metrics,
            health: &self.health,
        };
        let client = connect::connect(&self.options, None).await;
        let client = client.map_err(|error| fatal(&error))?;
        let until = async {
            tokio::select! {
                biased;
                exit = driver.follow() => Err(exit),
                () = self.shutdown.requested() => Ok(()),
            }
        };
        let work = async || Box::pin(control::work(self, driver, node)).await;
        Box::pin(candidate.lead(client, self.client.clone(), until, work)).await
    }
}
