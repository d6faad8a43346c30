//! Puts the parts together: start-up in upstream's order, leadership, work, and the end.

use std::ffi::OsString;
use std::sync::Arc;

use csi_proto::csi::methods;
use kube::Client;
use sidecar::controller::driver::{self, Identity, Met};
use sidecar::controller::lead::PATIENCE;
use sidecar::controller::{Base, Program};
use sidecar::flags::{self, Exit, Values};
use sidecar::kube::api::Api;
use sidecar::kube::connect::{self, Variable};
use sidecar::log;
use sidecar::metrics::CsiOperations;
use sidecar::names::LeaseOwner;
use sidecar::rt::unit_random;
use sidecar::verbose;

use crate::args::{self, Command, Config, Environment, FATAL};
use crate::control;
use crate::plan::driver::is_migrated;
use crate::work::capacity::{self, Origin};
use crate::work::discovery;
use crate::work::driver::{self as our_driver, DriverLink};
use crate::work::metrics::{Metrics, Room};

const PROGRAM: Program = Program {
    name: "csi-provisioner",
    version: match option_env!("CSI_SIDECARS_VERSION") {
        Some(version) => version,
        None => "unknown",
    },
    owner: LeaseOwner::Provisioner,
    kubeconfig: Variable::Overrides,
    fatal: FATAL,
};

/// What everything else is made from.
pub(crate) struct Parts {
    pub(crate) config: Config,
    pub(crate) base: Base,
    pub(crate) metrics: Metrics,
    /// What CSIStorageCapacity objects are made with, if they are.
    pub(crate) producer: Option<CapacityProducer>,
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
        Command::Version => Err(Exit::version(values.program(), PROGRAM.version)),
        Command::Run(config) => Box::pin(start(&values, *config)).await,
    }
}

async fn start(values: &Values, config: Config) -> Result<(), Exit> {
    let base = Base::new(values, PROGRAM).await?;
    // Of all programs upstream's provisioner alone does.
    base.registry.count_scrapes()?;
    let mut parts = Parts {
        config,
        metrics: Metrics::new(&base.registry)?,
        producer: None,
        base,
    };
    let met = tokio::select! {
        biased;
        met = parts.meet() => met,
        () = parts.base.shutdown.requested() => return Ok(()),
    };
    let (attributes_class, met, operations) = met?;
    parts.config.settings.gates.attributes_class &= attributes_class;
    parts.go_on(met, &operations).await
}

impl Parts {
    /// Whether the API server may have VolumeAttributesClasses, then the driver and its name.
    async fn meet(&self) -> Result<(bool, Met, CsiOperations), Exit> {
        let api = Api::new(self.base.client.clone());
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
            fence: self.base.fence.clone(),
        };
        let met = Met::meet_counted(settings, &self.base.registry, is_migrated).await;
        let (met, operations) = met?;
        Ok((!lacks, met, operations))
    }

    /// From the driver's name on: the HTTP server comes before anything that may take long.
    async fn go_on(mut self, met: Met, operations: &CsiOperations) -> Result<(), Exit> {
        operations.set_driver_name(met.name());
        tracing::info!(driver = met.name(), "Detected CSI driver");
        let driver: Arc<DriverLink> = tokio::select! {
            biased;
            driver = met.know(()) => driver?,
            () = self.base.shutdown.requested() => return Ok(()),
        };
        if let Some(plugin) = driver.current().plugin() {
            verbose!(
                2,
                plugin,
                "The driver serves the volumes of an in-tree plugin"
            );
        }
        self.config.settings.identity = self.identity(&driver.current().name);
        let node = match &self.config.settings.node {
            Some(_) => Some(our_driver::node(&driver).await?),
            None => None,
        };
        self.producer = self.producer(&driver.current().name).await?;
        let election = self.config.election.as_ref();
        let work = async || Box::pin(control::work(&self, &driver, node)).await;
        let working = self.base.lead(election, &driver, work);
        self.base.serve(self.config.http.as_ref(), working).await
    }

    /// Prepares what is told about room, if that is wanted.
    async fn producer(&self, driver: &str) -> Result<Option<CapacityProducer>, Exit> {
        let Some(config) = &self.config.capacity else {
            return Ok(None);
        };
        let options = connect::Options {
            rate: config.rate,
            ..self.base.options.clone()
        };
        let client = self.base.another_client(&options).await;
        let api = Api::new(self.base.client.clone());
        let node = self.config.settings.node.as_ref().map(|node| &*node.name);
        let origin = tokio::select! {
            biased;
            origin = capacity::origin(&api, config, driver, node) => origin?,
            // The end is noticed where the work would begin.
            () = self.base.shutdown.requested() => return Ok(None),
        };
        Ok(Some(CapacityProducer {
            origin,
            client: client?,
            room: Room::new(&self.base.registry)?,
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
}
