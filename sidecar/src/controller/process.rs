//! What all controllers of a process share: signals, API clients, metrics, the HTTP server. What one controller
//! gets of it is a [`Seat`](super::seat::Seat).

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

/// Which program it is.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name, as the API server sees it.
    pub name: &'static str,
    /// The upstream program and version that it behaves as, such as `csi-provisioner v6.4.0`.
    pub replaces: &'static str,
    /// The crates whose info messages appear in the log.
    pub crates: &'static [&'static str],
    /// Whose lease it takes.
    pub owner: LeaseOwner,
    /// The gates that it knows.
    pub gates: &'static [Gate],
    /// Whether the environment may say where the API server is.
    pub kubeconfig: Variable,
    /// Exit code where it cannot start: upstream's programs differ in what they call that.
    pub fatal: u8,
}

impl Program {
    pub(super) fn fatal(&self, error: &(dyn std::error::Error + 'static)) -> Exit {
        Exit::failure(self.fatal, Chain(error))
    }
}

/// Caches that subscribe within this window share one LIST.
const GATHER: Duration = Duration::from_secs(1);

/// The HTTP server with TLS. Who its clients are is asked over a connection of its own: a flood of strangers must
/// hold up neither a lease nor work, and is bounded by what lets them in.
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

/// What a process stands on.
pub struct Process {
    /// Whether the process is to end.
    pub shutdown: Shutdown,
    /// All metrics.
    pub registry: Registry,
    /// How the API server is reached.
    options: connect::Options,
    rates: RateMetrics,
    /// Whether the API server answers. Queues depend on it
    /// ([`depends_on`](queue::Queue::depends_on)).
    pub server: Outage,
    /// For requests that belong to no controller, such as the readiness probe.
    client: Client,
    /// What the only controller stands on, until its seat takes it.
    first: Tenure,
    /// The HTTP server with TLS, if there is to be one, and who asks about its clients.
    secure: Option<(Http, TlsGuard, Client)>,
    pub(super) queues: queue::Metrics,
    /// Permissions that its controllers miss.
    pub missing: Findings,
    /// Where elections are counted.
    pub election: ElectionMetrics,
    /// Where the health of leadership is shown.
    pub health: LeaderHealth,
    /// What keeps its controllers from some of their work.
    pub hindrances: Hindrances,
    /// Which driver it works for.
    pub driver: DriverInfo,
    /// Where it is measured how long users wait.
    pub(super) lifecycle: LifecycleMetrics,
    /// What the API server's clock says.
    pub(super) skew: ClockSkew,
    /// What it says when it begins to work.
    pub(super) ready: ReadyLines,
    /// What the command line says, for that line.
    pub(super) flags: Arc<FlagSummary>,
    /// Where traces go, if there are traces.
    traces: Option<Exporter>,
    program: Program,
}

impl Process {
    /// Reads who and where the API server is from the flags; sends nothing yet.
    ///
    /// # Errors
    /// The flags, or the files they name, do not say how to reach an API server.
    pub async fn new(values: &Values, program: Program) -> Result<Arc<Self>, Exit> {
        Self::counting(values, program, program.replaces, RateMetrics::new).await
    }

    /// The same for several controllers, whose requests are counted apart from one another and from what
    /// is asked on no controller's account. `replaces` names all upstream programs that it stands for.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub async fn of_several(
        values: &Values,
        program: Program,
        replaces: &str,
    ) -> Result<Arc<Self>, Exit> {
        let rates = |registry: &Registry| RateMetrics::of(program.name, registry);
        Self::counting(values, program, replaces, rates).await
    }

    async fn counting(
        values: &Values,
        program: Program,
        replaces: &str,
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
        Ok(Arc::new(Self {
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
            missing: Findings::default(),
            election: ElectionMetrics::new(&registry)?,
            driver: DriverInfo::new(&registry)?,
            lifecycle: LifecycleMetrics::new(&registry)?,
            skew,
            ready: ReadyLines::default(),
            flags: Arc::new(FlagSummary::new(values, program.gates)),
            registry,
            health: LeaderHealth::default(),
            hindrances: Hindrances::default(),
        }))
    }

    /// What the only controller of a process stands on: there it is from the start to the end.
    pub(super) fn sole_tenure(&self) -> Tenure {
        self.first.clone()
    }

    /// What several controllers stand on from now on, as long as the process holds the lease that all of
    /// them need: with the lease everything ends that was sent under it. Caches that join a feed within a
    /// second of one another share its list.
    ///
    /// # Errors
    /// The credentials cannot be read any more.
    pub async fn tenure(&self) -> Result<Tenure, Exit> {
        let rates = Some(self.rates.clone());
        let tenure = Tenure::new(&self.options, &self.server, rates, GATHER).await;
        tenure.map_err(|error| self.program.fatal(&error))
    }

    pub(super) fn options(&self) -> &connect::Options {
        &self.options
    }

    /// A client for leases, over a connection of its own: what floods the other one must not hold up
    /// renewals, and what is told of a lease that is lost goes without it.
    ///
    /// # Errors
    /// The credentials cannot be read any more.
    pub async fn lease_client(&self) -> Result<Client, Exit> {
        let client = unguarded(&self.options, &self.server, None).await;
        client.map_err(|error| self.program.fatal(&error))
    }

    /// Says which permissions the server with TLS lacks, whether or not this process leads, and asks for them again
    /// until there are all.
    async fn advise(&self, client: &Client) -> std::convert::Infallible {
        let asking = || access::check(client, &reviews::RULES);
        let ask = async || self.missing.ask(secure::FLAG, asking()).await;
        let say = async |report: access::Report| report.log();
        access::ask_until_granted(ask().await, ask, say).await
    }

    /// What `starting` comes to, unless a signal ends the process before.
    ///
    /// # Errors
    /// As `starting`; after a signal, that the process ends in good order.
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

    /// Answers HTTP while `working`; the address is in use before that begins.
    ///
    /// # Errors
    /// How the process ends: nobody can listen there, or what `working` says.
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

    /// Why the process can do nothing at the moment, or not all it is for.
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

    /// The same, with routes that `more` adds.
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
        let secure = self.listen(secure, &more).await?;
        let serving = async {
            match plain {
                Some((server, routes)) => server.serve(routes).await,
                None => std::future::pending().await,
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

    /// What makes spans for the controller of this name, if there are traces.
    pub(super) fn tracer(&self, scope: &'static str, fence: Fence) -> Option<Tracer> {
        let exporter = self.traces.clone()?;
        Some(Tracer::new(exporter, scope, fence))
    }

    /// Sends the last spans, unless what ran has taken all the time that there was.
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
