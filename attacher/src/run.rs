//! Puts the parts together: start-up in upstream's order, leadership, work, and the end.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use sidecar::election::{self, Elector, Health};
use sidecar::error::Chain;
use sidecar::flags::{self, Exit, Values};
use sidecar::http::{Reply, Routes, Server};
use sidecar::kube::connect::{self, Variable};
use sidecar::kube::events::{Recorder, Reference, Severity, Source};
use sidecar::kube::rate::RateMetrics;
use sidecar::metrics::{CsiOperations, ElectionMetrics, OperationsConfig, Registry};
use sidecar::names::{self, LeaseOwner};
use sidecar::shutdown::{Shutdown, Signal};
use sidecar::{log, queue};
use tokio::time::{Instant, timeout};

use crate::args::{self, Command, Config, Election};
use crate::control;
use crate::work::driver::{DriverLink, Met, Settings};

/// Set by the build.
const VERSION: &str = match option_env!("CSI_SIDECARS_VERSION") {
    Some(version) => version,
    None => "unknown",
};

/// Path of the health check.
const HEALTH: &str = "/healthz/leader-election";

/// How long a leader may be without its driver while other replicas wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// For events that are on their way when the process ends.
const LAST_EVENTS: Duration = Duration::from_secs(1);

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
    health: Arc<Mutex<Option<Health>>>,
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
        health: Arc::default(),
    };
    tokio::select! {
        biased;
        met = Met::meet(parts.settings(), &parts.operations) => parts.go_on(met?).await,
        () = parts.shutdown.requested() => Ok(()),
    }
}

impl Parts {
    fn settings(&self) -> Settings {
        let config = &self.config;
        Settings {
            address: config.csi_address.clone(),
            timeout: config.timeout,
            response_limit: config.response_limit,
            default_fs_type: config.default_fs_type.clone(),
            error_codes: config.error_codes,
            patience: config.election.as_ref().map(|_| PATIENCE),
        }
    }

    /// From the driver's name on: the HTTP server comes before anything that may take long.
    async fn go_on(&self, met: Met) -> Result<(), Exit> {
        self.operations.set_driver_name(met.name());
        sidecar::verbose!(2, driver = met.name(), "CSI driver name");
        let serving = self.http_server().await?;
        let working = async {
            let driver = tokio::select! {
                biased;
                driver = met.know() => driver?,
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

    async fn http_server(&self) -> Result<impl Future<Output = ()> + use<>, Exit> {
        let mut bound = None;
        if let Some(http) = &self.config.http {
            let mut routes = Routes::new();
            let paths = if http.health {
                let health = Arc::clone(&self.health);
                routes.add(HEALTH, move || std::future::ready(health_reply(&health)))
            } else {
                Ok(())
            };
            paths
                .and_then(|()| routes.add_metrics(&http.metrics_path, &self.registry))
                .map_err(|error| Exit::failure(2, format_args!("--metrics-path: {error}")))?;
            let server = Server::bind(&http.address).await.map_err(|error| {
                let (flag, error) = (http.flag, Chain(&error).to_string());
                Exit::failure(
                    1,
                    format_args!("{flag}: cannot start the HTTP server: {error}"),
                )
            })?;
            bound = Some((server, routes));
        }
        Ok(async {
            match bound {
                Some((server, routes)) => server.serve(routes).await,
                None => std::future::pending().await,
            }
        })
    }

    /// Works while leading.
    async fn lead(&self, election: &Election, driver: &Arc<DriverLink>) -> Result<(), Exit> {
        let client = connect::connect(&self.options, None).await?;
        let (config, events) = self.elector(election, driver)?;
        let mut elector = Elector::new(client, config);
        let events = tokio::spawn(events);
        *self.health.lock().unwrap_or_else(PoisonError::into_inner) = Some(elector.health());
        let result = tokio::select! {
            biased;
            () = elector.acquire() => None,
            exit = driver.follow() => Some(Err(exit)),
            () = self.shutdown.requested() => Some(Ok(())),
        };
        let result = match result {
            Some(result) => result,
            None => tokio::select! {
                biased;
                lost = elector.lead() => {
                    // No goodbye: somebody else leads, or will at any moment.
                    return Err(Exit::failure(1, format_args!("Stopped leading: {lost}")));
                }
                result = control::work(self, driver) => result,
            },
        };
        // Nothing is being worked on any more, whatever the reason: somebody else may go on.
        elector.release().await;
        let _ = timeout(LAST_EVENTS, events).await;
        result
    }

    fn elector(
        &self,
        election: &Election,
        driver: &Arc<DriverLink>,
    ) -> Result<(election::Config, impl Future<Output = ()> + Send + use<>), Exit> {
        let driver = driver.current();
        let read = |name: &str| std::env::var(name).ok();
        let file = std::fs::read_to_string(names::NAMESPACE_FILE).ok();
        let pod_namespace = read("POD_NAMESPACE");
        let namespace = names::namespace(
            &election.namespace,
            pod_namespace.as_deref(),
            file.as_deref(),
        );
        let hostname = names::hostname()?;
        let unsanitized = names::lease_unsanitized(LeaseOwner::Attacher, &driver.name);
        let name = names::lease(LeaseOwner::Attacher, &driver.name);
        let source = Source {
            component: format!("{unsanitized}/{hostname}"),
            host: String::new(),
        };
        let (recorder, worker) = Recorder::new(self.client.clone(), source);
        let about = Reference {
            api_version: "coordination.k8s.io/v1".into(),
            kind: "Lease".into(),
            namespace: namespace.clone(),
            name: name.clone(),
            ..Reference::default()
        };
        let on_event = move |text: &str| {
            recorder.record(&about, Severity::Normal, "LeaderElection", text);
        };
        let config = election::Config {
            namespace,
            name,
            identity: names::identity(&hostname),
            timing: election.timing,
            labels: election.labels.clone(),
            metrics: Some(self.election_metrics.clone()),
            on_event: Box::new(on_event),
        };
        Ok((config, worker.run()))
    }
}

fn health_reply(health: &Mutex<Option<Health>>) -> Reply {
    let health = health.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now().into_std();
    Reply::leader_health(health.as_ref().and_then(|health| health.problem(now)))
}
