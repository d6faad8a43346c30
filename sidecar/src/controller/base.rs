//! What a controller stands on from its start to its end: the API server's client, the signals, the
//! metrics, and the two things it does around its work, which are to answer HTTP and to lead.
//!
//! Separate from the programs, which put it together the same way but for what a failure is called.

use std::sync::Arc;

use ::kube::Client;

use super::driver::{Driver, DriverLink};
use super::flags::{Election, Http};
use super::lead::Candidate;
use super::serve::{LeaderHealth, serve};
use crate::election::Fence;
use crate::error::Chain;
use crate::flags::{Exit, Values};
use crate::kube::connect::{self, Variable};
use crate::kube::probe::probe;
use crate::kube::rate::RateMetrics;
use crate::metrics::{ElectionMetrics, Registry};
use crate::names::LeaseOwner;
use crate::outage::Outage;
use crate::queue;
use crate::shutdown::{Shutdown, Signal};

/// Which program it is.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name, as the API server sees it.
    pub name: &'static str,
    /// Its version, as the API server sees it.
    pub version: &'static str,
    /// Whose lease it takes.
    pub owner: LeaseOwner,
    /// Whether the environment may say where the API server is.
    pub kubeconfig: Variable,
    /// Exit code where it cannot start: upstream's programs differ in what they call that.
    pub fatal: u8,
}

/// What a controller stands on.
pub struct Base {
    /// For everything but leases.
    pub client: Client,
    /// Whether the process is to end.
    pub shutdown: Shutdown,
    /// Of every queue.
    pub queues: queue::Metrics,
    /// All metrics.
    pub registry: Registry,
    /// How the API server is reached.
    pub options: connect::Options,
    /// Guards what this process may do as leader alone: the clients' requests already, and the
    /// driver's calls if its connection is told.
    pub fence: Fence,
    /// Whether the API server answers. Queues depend on it
    /// ([`depends_on`](queue::Queue::depends_on)).
    pub server: Outage,
    program: Program,
    election: ElectionMetrics,
    health: LeaderHealth,
}

impl Base {
    /// Reads who and where the API server is from the flags; sends nothing yet.
    ///
    /// # Errors
    /// The flags, or the files they name, do not say how to reach an API server.
    pub async fn new(values: &Values, program: Program) -> Result<Self, Exit> {
        tracing::info!(version = program.version, "Version");
        let shutdown = Shutdown::listen(&[Signal::Terminate, Signal::Interrupt])?;
        let Program { name, version, .. } = program;
        let mut options = connect::Options::from_flags(values, program.kubeconfig, name, version)
            .map_err(|error| program.fatal(&error))?;
        let fence = Fence::default();
        options.fence = fence.clone();
        let registry = Registry::new();
        let rates = RateMetrics::new(&registry)?;
        let server = Outage::default();
        Ok(Self {
            client: program.connect(&options, Some(rates), &server).await?,
            shutdown,
            queues: queue::Metrics::new(&registry)?,
            options,
            fence,
            server,
            program,
            election: ElectionMetrics::new(&registry)?,
            registry,
            health: LeaderHealth::default(),
        })
    }

    /// One more client, whose requests wait for no others.
    ///
    /// # Errors
    /// As for [`Base::new`].
    pub async fn another_client(&self, options: &connect::Options) -> Result<Client, Exit> {
        self.program.connect(options, None, &self.server).await
    }

    /// Answers HTTP while `working`; the address is in use before that begins.
    ///
    /// # Errors
    /// How the process ends: nobody can listen there, or what `working` says.
    pub async fn serve(
        &self,
        http: Option<&Http>,
        working: impl Future<Output = Result<(), Exit>>,
    ) -> Result<(), Exit> {
        let fatal = self.program.fatal;
        let serving = serve(http, &self.registry, &self.health, fatal).await?;
        tokio::select! {
            biased;
            result = working => result,
            () = serving => Err(Exit::failure(fatal, "the HTTP server ended")),
            never = probe(self.client.clone(), self.server.clone()) => match never {},
        }
    }

    /// Does `work`, at once or, with an election, as soon as and as long as it leads.
    ///
    /// # Errors
    /// How the process ends: as the election, the driver or `work` say.
    pub async fn lead<D: Driver>(
        &self,
        election: Option<&Election>,
        driver: &Arc<DriverLink<D>>,
        work: impl AsyncFnOnce() -> Result<(), Exit>,
    ) -> Result<(), Exit> {
        let Some(election) = election else {
            return Box::pin(work()).await;
        };
        let known = driver.current();
        let candidate = Candidate {
            owner: self.program.owner,
            driver: known.name(),
            election,
            metrics: &self.election,
            health: &self.health,
            fence: &self.fence,
        };
        let unguarded = connect::Options {
            fence: Fence::default(),
            ..self.options.clone()
        };
        let client = self.another_client(&unguarded).await?;
        let until = async {
            tokio::select! {
                biased;
                exit = driver.follow() => Err(exit),
                () = self.shutdown.requested() => Ok(()),
            }
        };
        Box::pin(candidate.lead(client, until, work)).await
    }
}

impl Program {
    async fn connect(
        &self,
        options: &connect::Options,
        rates: Option<RateMetrics>,
        server: &Outage,
    ) -> Result<Client, Exit> {
        let client = connect::connect_to(options, rates, server).await;
        client.map_err(|error| self.fatal(&error))
    }

    fn fatal(&self, error: &(dyn std::error::Error + 'static)) -> Exit {
        Exit::failure(self.fatal, Chain(error))
    }
}
