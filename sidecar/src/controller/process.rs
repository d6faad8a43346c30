//! What all controllers of a process share: signals, API clients, metrics, the HTTP server. Each controller
//! uses them through its [`Seat`](super::seat::Seat).

use std::sync::Arc;
use std::time::Duration;

use ::kube::Client;

use super::driver_info::DriverInfo;
use super::flags::Http;
use super::ready::{FlagSummary, ReadyLines};
use super::secure::{self, Secure, TlsGuard};
use super::serve::{self, Hindrances, LeaderHealth};
use super::tasks::GRACE;
use super::tenure::{Tenure, unguarded};
use super::zpages::{self, FlagTable};
use crate::build;
use crate::election::Fence;
use crate::error::Chain;
use crate::flags::{Exit, Values};
use crate::gates::Gate;
use crate::http::{Reply, RouteError, Routes, Server};
use crate::kube::access::{self, Findings};
use crate::kube::api::Api;
use crate::kube::connect::{self, Variable};
use crate::kube::probe::probe;
use crate::kube::rate::{ClockSkew, Rate, RateMetrics, RequestMetrics};
use crate::lifecycle::LifecycleMetrics;
use crate::metrics::{ElectionMetrics, RegisterError, Registry};
use crate::names::LeaseOwner;
use crate::outage::Outage;
use crate::queue;
use crate::secure::reviews;
use crate::shutdown::{Shutdown, Signal};
use crate::trace::{self, Exporter, LAST_SPANS, Tracer};
use crate::why::{self, ProcessFacts};

/// A program's fixed properties.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The name that the API server sees.
    pub name: &'static str,
    /// The upstream program and version whose behavior it replaces, such as `csi-provisioner v6.4.0`.
    pub replaces: &'static str,
    /// The crates whose info messages appear in the log.
    pub crates: &'static [&'static str],
    /// Owner of the lease.
    pub owner: LeaseOwner,
    /// The feature gates it knows.
    pub gates: &'static [Gate],
    /// Whether environment variables may point to the API server.
    pub kubeconfig: Variable,
    /// Exit code if it cannot start; upstream's programs differ in it.
    pub fatal: u8,
}

impl Program {
    pub(super) fn fatal(&self, error: &(dyn std::error::Error + 'static)) -> Exit {
        Exit::failure(self.fatal, Chain(error))
    }
}

/// Caches that subscribe within this window share one LIST.
const GATHER: Duration = Duration::from_secs(1);

/// The HTTP server with TLS. It authenticates clients over a connection of its own: a flood of strangers must hold
/// up neither a lease nor work, and the guard itself limits it.
async fn guarded(
    secure: Secure,
    program: &Program,
    options: &connect::Options,
    server: &Outage,
    registry: &Registry,
) -> Result<(Http, TlsGuard, Client), Exit> {
    let client = unguarded(options, server, Some(Rate::Unlimited)).await;
    let client = client.map_err(|error| program.fatal(&error))?;
    let http = secure.http.clone();
    let guard = secure.guard(Api::new(client.clone()), secure::shown(registry)?);
    let guard = guard.map_err(|problem| Exit::failure(program.fatal, problem))?;
    Ok((http, guard, client))
}

/// What all controllers of a process share.
pub struct Process {
    /// The signals that end the process.
    pub shutdown: Shutdown,
    /// All metrics.
    pub registry: Registry,
    /// How to reach the API server.
    options: connect::Options,
    rates: RateMetrics,
    /// Whether the API server answers. Queues depend on it
    /// ([`depends_on`](queue::Queue::depends_on)).
    pub server: Outage,
    /// For requests that belong to no controller, such as the readiness probe.
    client: Client,
    /// The connections of a process's only controller, until its seat takes them.
    first: Tenure,
    /// The HTTP server with TLS, if there is one, and the client that authenticates its clients.
    secure: Option<(Http, TlsGuard, Client)>,
    pub(super) queues: queue::Metrics,
    /// Permissions that the controllers lack.
    pub missing: Findings,
    /// Counters of elections.
    pub election: ElectionMetrics,
    /// Health check of the leadership.
    pub health: LeaderHealth,
    /// Reasons why controllers cannot do some of their work.
    pub hindrances: Hindrances,
    /// The driver's identity.
    pub driver: DriverInfo,
    /// Metrics of how long users wait.
    pub(super) lifecycle: LifecycleMetrics,
    /// Skew against the API server's clock.
    pub(super) skew: ClockSkew,
    /// The lines that controllers log when they begin to work.
    pub(super) ready: ReadyLines,
    /// The command line's settings, for those lines.
    pub(super) flags: Arc<FlagSummary>,
    /// The flags that `/flagz` shows, if there is a server with TLS.
    flagz: Option<FlagTable>,
    /// Who answers questions about objects, with `--why-endpoint`.
    pub(super) why: Option<why::Endpoint>,
    /// Exporter of traces, if they are on.
    traces: Option<Exporter>,
    program: Program,
}

impl Process {
    /// Reads the API server's address and the credentials from the flags; sends nothing yet.
    ///
    /// # Errors
    /// The flags, or the files they name, do not lead to an API server.
    pub async fn new(values: &Values, program: Program) -> Result<Arc<Self>, Exit> {
        let flags = || FlagTable::new(values);
        Self::counting(values, program, program.replaces, flags, RateMetrics::new).await
    }

    /// As [`new`](Self::new) for several controllers, whose requests are counted separately from each other's
    /// and from those that belong to no controller. `replaces` names all upstream programs that it stands for, `flags`
    /// lists all flags of the process.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub async fn of_several(
        values: &Values,
        program: Program,
        replaces: &str,
        flags: impl FnOnce() -> FlagTable,
    ) -> Result<Arc<Self>, Exit> {
        let rates = |registry: &Registry| RateMetrics::of(program.name, registry);
        Self::counting(values, program, replaces, flags, rates).await
    }

    async fn counting(
        values: &Values,
        program: Program,
        replaces: &str,
        flags: impl FnOnce() -> FlagTable,
        rates: impl FnOnce(&Registry) -> Result<RateMetrics, RegisterError>,
    ) -> Result<Arc<Self>, Exit> {
        let shutdown = Shutdown::listen(&[Signal::Terminate, Signal::Interrupt])?;
        let mut options =
            connect::Options::from_flags(values, program.kubeconfig, program.name, build::VERSION)
                .map_err(|error| program.fatal(&error))?;
        let registry = Registry::new();
        build::register(&registry, program.name, replaces)?;
        let requests = RequestMetrics::new(&registry)?;
        let skew = requests.skew();
        options.requests = Some(requests);
        let rates = rates(&registry)?;
        let traces = trace::start(values, program.name, build::VERSION, &registry)?;
        let server = Outage::default();
        let first = Tenure::new(&options, &server, Some(rates.clone()), Duration::ZERO).await;
        let first = first.map_err(|error| program.fatal(&error))?;
        let secure = Secure::from_flags(values);
        let secure = match secure.map_err(|problem| Exit::failure(program.fatal, problem))? {
            Some(secure) => Some(guarded(secure, &program, &options, &server, &registry).await?),
            None => None,
        };
        let (health, missing) = (LeaderHealth::default(), Findings::default());
        let driver = DriverInfo::new(&registry)?;
        let facts = || {
            let driver = (&driver, values.has("csi-address"));
            ProcessFacts::new(program.name, &health, &missing, driver)
        };
        Ok(Arc::new(Self {
            why: why::Endpoint::from_flags(values, facts),
            flagz: secure.is_some().then(flags),
            secure,
            client: first.client.clone(),
            first,
            shutdown,
            queues: queue::Metrics::new(&registry)?,
            options,
            rates,
            server,
            traces,
            program,
            missing,
            election: ElectionMetrics::new(&registry)?,
            driver,
            lifecycle: LifecycleMetrics::new(&registry)?,
            skew,
            ready: ReadyLines::default(),
            flags: Arc::new(FlagSummary::new(values, program.gates)),
            registry,
            health,
            hindrances: Hindrances::default(),
        }))
    }

    /// The connections of a process's only controller, which last from the start to the end.
    pub(super) fn sole_tenure(&self) -> Tenure {
        self.first.clone()
    }

    /// Connections for several controllers, which last as long as the process holds the lease that all of them
    /// need: with the lease, all requests sent under it end. Caches that subscribe within a second of each
    /// other share one LIST.
    ///
    /// # Errors
    /// The credentials can no longer be read.
    pub async fn tenure(&self) -> Result<Tenure, Exit> {
        let rates = Some(self.rates.clone());
        let tenure = Tenure::new(&self.options, &self.server, rates, GATHER).await;
        tenure.map_err(|error| self.program.fatal(&error))
    }

    pub(super) fn options(&self) -> &connect::Options {
        &self.options
    }

    /// A client for leases, over a connection of its own: a flood on the other one must not delay renewals,
    /// and events about a lost lease need no lease.
    ///
    /// # Errors
    /// The credentials can no longer be read.
    pub async fn lease_client(&self) -> Result<Client, Exit> {
        let client = unguarded(&self.options, &self.server, None).await;
        client.map_err(|error| self.program.fatal(&error))
    }

    /// Logs which permissions the server with TLS lacks, whether or not this process leads, and checks again until
    /// none is missing.
    async fn advise(&self, client: &Client) -> std::convert::Infallible {
        let asking = || access::check(client, &reviews::RULES);
        let ask = async || self.missing.ask(secure::FLAG, asking()).await;
        let say = async |report: access::Report| report.log();
        access::ask_until_granted(ask().await, ask, say).await
    }

    /// The result of `starting`, unless a signal ends the process first.
    ///
    /// # Errors
    /// As `starting`; after a signal, an exit with code 0.
    pub async fn unless_ended<T>(
        &self,
        starting: impl Future<Output = Result<T, Exit>>,
    ) -> Result<T, Exit> {
        tokio::select! {
            biased;
            result = starting => result,
            () = self.shutdown.requested() => Err(Exit::with_code(0)),
        }
    }

    /// Serves HTTP while `working` runs; the address is bound before it begins.
    ///
    /// # Errors
    /// How the process ends: the address cannot be bound, or `working` failed.
    pub async fn serve(
        &self,
        http: Option<&Http>,
        working: impl Future<Output = Result<(), Exit>>,
    ) -> Result<(), Exit> {
        let reasons = self.reasons();
        let ready = move || std::future::ready(Reply::ready(reasons()));
        let more = |routes: &mut Routes| routes.add(serve::READY, ready.clone());
        self.serve_also(http, more, working).await
    }

    /// Why the process cannot do its work at the moment, or some of it.
    fn reasons(&self) -> impl Fn() -> Vec<String> + Clone + Send + Sync + 'static {
        let (missing, server) = (self.missing.clone(), self.server.clone());
        let (health, hindrances) = (self.health.clone(), self.hindrances.clone());
        let ending = self.shutdown.watch();
        move || {
            let ending = ending.borrow().then(|| "shutting down".to_owned());
            let missing = missing.missing().into_iter();
            let missing =
                missing.map(|(rule, of)| format!("{}: not allowed to {rule}", of.join(", ")));
            let text = |problem: Option<Arc<str>>| problem.map(|text| text.to_string());
            { ending.into_iter() }
                .chain(missing)
                .chain(text(server.problem()))
                .chain(health.refusals())
                .chain(text(hindrances.problem()))
                .collect()
        }
    }

    /// As [`serve`](Self::serve), with the routes that `more` adds.
    ///
    /// # Errors
    /// As [`serve`](Self::serve), and a path of `more` is taken by the metrics (code 2).
    pub async fn serve_also(
        &self,
        http: Option<&Http>,
        more: impl Fn(&mut Routes) -> Result<(), RouteError>,
        working: impl Future<Output = Result<(), Exit>>,
    ) -> Result<(), Exit> {
        let plain = self.listen(http, &more).await?;
        let secure = { self.secure.as_ref() }.map(|(http, ..)| http);
        let also = |routes: &mut Routes| {
            more(routes)?;
            { self.why.iter() }.try_for_each(|why| why.add_to(routes))?;
            { self.flagz.iter() }
                .try_for_each(|flags| zpages::add(routes, self.program.name, flags))
        };
        let secure = self.listen(secure, also).await?;
        let why = why::Endpoint::listen(self.why.as_ref(), self.program.fatal).await?;
        let serving = async {
            tokio::select! {
                () = serve_if_any(plain) => {}
                () = serve_if_any(why) => {}
            }
        };
        let serving_secure = async {
            match (secure, &self.secure) {
                (Some((server, routes)), Some((_, guard, client))) => tokio::select! {
                    () = server.serve_guarded(routes, guard.clone()) => {}
                    never = guard.watch() => match never {},
                    never = self.advise(client) => match never {},
                },
                (_, _) => std::future::pending().await,
            }
        };
        let working = async {
            let result = working.await;
            self.end_traces().await;
            result
        };
        tokio::select! {
            biased;
            result = working => result,
            () = serving => Err(Exit::failure(self.program.fatal, "the HTTP server ended")),
            () = serving_secure => Err(Exit::failure(self.program.fatal, "the HTTP server ended")),
            never = probe(self.client.clone(), self.server.clone()) => match never {},
        }
    }

    async fn listen(
        &self,
        http: Option<&Http>,
        more: impl Fn(&mut Routes) -> Result<(), RouteError>,
    ) -> Result<Option<(Server, Routes)>, Exit> {
        let Some(http) = http else { return Ok(None) };
        let routes = self.routes(http, more)?;
        Ok(Some((serve::bind(http, self.program.fatal).await?, routes)))
    }

    /// The tracer of the controller of this name, if traces are on.
    pub(super) fn tracer(&self, scope: &'static str, fence: Fence) -> Option<Tracer> {
        let exporter = self.traces.clone()?;
        Some(Tracer::new(exporter, scope, fence))
    }

    /// Sends the last spans, unless shutting down has used up all of the time.
    async fn end_traces(&self) {
        if let Some(traces) = &self.traces {
            let left = match self.shutdown.since() {
                Some(since) => GRACE.saturating_sub(since),
                None => LAST_SPANS,
            };
            traces.end(left.min(LAST_SPANS)).await;
        }
    }

    fn routes(
        &self,
        http: &Http,
        more: impl FnOnce(&mut Routes) -> Result<(), RouteError>,
    ) -> Result<Routes, Exit> {
        let mut routes = serve::routes(http, &self.registry, &self.health)?;
        let more = more(&mut routes);
        more.map_err(|error| Exit::failure(2, format_args!("--metrics-path: {error}")))?;
        Ok(routes)
    }
}

/// Serves, if there is something to serve; ends when the server does.
async fn serve_if_any(listening: Option<(Server, Routes)>) {
    match listening {
        Some((server, routes)) => server.serve(routes).await,
        None => std::future::pending().await,
    }
}
