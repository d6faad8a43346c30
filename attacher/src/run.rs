//! Puts the parts together: start-up in upstream's order, leadership, work, and the end.

use std::ffi::OsString;
use std::sync::Arc;

use csi_proto::csi::methods;
use kube::Client;
use sidecar::controller::Election;
use sidecar::controller::driver::{self, Identity, Met};
use sidecar::controller::lead::{Candidate, PATIENCE};
use sidecar::controller::serve::{LeaderHealth, serve};
use sidecar::flags::{self, Exit, Values};
use sidecar::kube::connect::{self, Variable};
use sidecar::kube::rate::RateMetrics;
use sidecar::metrics::{CsiOperations, ElectionMetrics, OperationsConfig, Registry};
use sidecar::names::LeaseOwner;
use sidecar::shutdown::{Shutdown, Signal};
use sidecar::{log, queue};

use crate::args::{self, Command, Config};
use crate::control;
use crate::work::driver::{DriverLink, IDENTITY_TIMEOUT, Settings};

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
    options: connect::Options,
    operations: CsiOperations,
    election_metrics: ElectionMetrics,
    registry: Registry,
    health: LeaderHealth,
}

/// Runs csi-attacher.
///
/// # Errors
/// How the process ends unless a signal ends it in good order.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    let values = flags::parse(&args::SPEC, argv)?;
    let config = log::Config::from_flags(&values)?;
    log::init(&config, &["attacher", "csi_attacher"]);
    let (command, warnings) = args::decide(&values)?;
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
    let options = connect::Options::from_flags(values, Variable::Ignored, "csi-attacher", VERSION)?;
    let registry = Registry::new();
    let rates = RateMetrics::new(&registry)?;
    let client = connect::connect(&options, Some(rates)).await?;
    if config.threads == 0 {
        let line = "--worker-threads=0: must be greater than zero";
        return Err(Exit::failure(1, line));
    }
    let queues = queue::Metrics::new(&registry)?;
    let parts = Parts {
        config,
        client,
        shutdown,
        queues,
        options,
        operations: CsiOperations::new(&registry, OperationsConfig::default())?,
        election_metrics: ElectionMetrics::new(&registry)?,
        registry,
        health: LeaderHealth::default(),
    };
    tokio::select! {
        biased;
        met = Met::meet(parts.settings(), &parts.operations) => parts.go_on(met?).await,
        () = parts.shutdown.requested() => Ok(()),
    }
}

impl Parts {
    fn settings(&self) -> driver::Settings {
        let config = &self.config;
        driver::Settings {
            address: config.csi_address.clone(),
            timeout: config.timeout,
            identity: Identity::Together(IDENTITY_TIMEOUT),
            methods: &[methods::IDENTITY, methods::CONTROLLER],
            response_limit: config.response_limit,
            patience: config.election.as_ref().map(|_| PATIENCE),
            mute: 1,
        }
    }

    /// From the driver's name on: the HTTP server comes before anything that may take long.
    async fn go_on(&self, met: Met) -> Result<(), Exit> {
        self.operations.set_driver_name(met.name());
        sidecar::verbose!(2, driver = met.name(), "CSI driver name");
        let serving = serve(self.config.http.as_ref(), &self.registry, &self.health, 1).await?;
        let settings = Settings {
            default_fs_type: self.config.default_fs_type.clone(),
            error_codes: self.config.error_codes,
        };
        let working = async {
            let driver = tokio::select! {
                biased;
                driver = met.know(settings) => driver?,
                () = self.shutdown.requested() => return Ok(()),
            };
            match &self.config.election {
                Some(election) => Box::pin(self.lead(election, &driver)).await,
                None => Box::pin(control::work(self, &driver)).await,
            }
        };
        tokio::select! {
            biased;
            result = working => result,
            () = serving => Err(Exit::failure(1, "the HTTP server ended")),
        }
    }

    /// Works while leading.
    async fn lead(&self, election: &Election, driver: &Arc<DriverLink>) -> Result<(), Exit> {
        let candidate = Candidate {
            owner: LeaseOwner::Attacher,
            driver: &driver.current().name,
            election,
            metrics: &self.election_metrics,
            health: &self.health,
        };
        let client = connect::connect(&self.options, None).await?;
        let until = async {
            tokio::select! {
                biased;
                exit = driver.follow() => Err(exit),
                () = self.shutdown.requested() => Ok(()),
            }
        };
        let work = async || Box::pin(control::work(self, driver)).await;
        Box::pin(candidate.lead(client, self.client.clone(), until, work)).await
    }
}
