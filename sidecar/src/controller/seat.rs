//! A controller's share of its process: its access to the API server, its queues' metrics, its
//! lease.

mod why;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::kube::Client;
use tokio::sync::watch as watch_channel;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::flags::Election;
use super::lead::{Candidate, LAST_EVENTS, PATIENCE};
use super::link::{self, Calls, DriverHandshake, Identity};
use super::process::{Process, Program};
use super::ready::{self, Beginning, FlagSummary};
use super::tenure::Tenure;
use super::view::Followed;
use super::watch::{self, Watch};
use crate::build;
use crate::election::Fence;
use crate::flags::Exit;
use crate::kube::access::{self, Need, Rule};
use crate::kube::api::Api;
use crate::kube::connect::{Budget, user_agent};
use crate::kube::events::{Recorder, Source};
use crate::kube::rate::{Rate, RateMetrics};
use crate::lifecycle::{self, Lifecycle, Stage};
use crate::queue;
use crate::shutdown::Requested;
use crate::trace::Tracer;
use crate::why::Lists;

/// How long work waits for the first permission check.
const A_MOMENT: Duration = Duration::from_secs(1);

/// Settings of one of several controllers, from the start of the process to its end.
#[derive(Clone, Debug)]
pub struct ControllerLimits {
    /// Its name, as in `--controllers`.
    pub controller: &'static str,
    /// Its request rate to the API server.
    pub rate: Rate,
    /// Counters of its requests.
    pub metrics: RateMetrics,
    /// Its settings on the command line.
    pub flags: Arc<FlagSummary>,
}

/// A controller's share of its process.
pub struct Seat {
    /// The process, shared with other controllers.
    pub process: Arc<Process>,
    /// Client for everything except leases.
    pub client: Client,
    /// Guards what this controller may do under its own lease.
    pub fence: Fence,
    /// Whether this controller must finish its work and end.
    pub ending: Requested,
    tenure: Tenure,
    budget: Budget,
    /// Its own settings; `None` for a process's only controller.
    limits: Option<ControllerLimits>,
    program: Program,
    events: Mutex<Vec<JoinHandle<()>>>,
    /// Number of optional permissions that it lacks, once known.
    optional: watch_channel::Sender<Option<usize>>,
    /// What it watches and journals, once it has begun.
    begun: Mutex<Option<Beginning>>,
    /// Its lifecycle metrics, until it begins.
    lifecycle: Mutex<Option<Lifecycle>>,
    /// What it watches, for answers about objects.
    lists: Lists,
}

impl Seat {
    /// The seat of a program's only controller.
    pub fn sole(process: Arc<Process>, program: Program) -> Self {
        let tenure = process.sole_tenure();
        Self {
            client: tenure.client.clone(),
            // There is one lease: the fence of the connections is this controller's as well.
            fence: tenure.fence.clone(),
            budget: process.options().budget(None),
            limits: None,
            tenure,
            ending: process.shutdown.request(),
            process,
            program,
            events: Mutex::default(),
            optional: watch_channel::Sender::default(),
            begun: Mutex::default(),
            lifecycle: Mutex::default(),
            lists: Lists::default(),
        }
    }

    /// One of several seats. Its requests use the shared connection, with `limits` and a name of its own; if it
    /// loses the lease that `fence` knows, only its own requests stop. A controller that works under the lease
    /// which all need has the tenure's fence. It ends when `ending` says so.
    pub fn among(
        process: Arc<Process>,
        tenure: &Tenure,
        program: Program,
        limits: &ControllerLimits,
        (fence, ending): (Fence, Requested),
    ) -> Self {
        let budget = Budget {
            rate: limits.rate,
            user_agent: user_agent(program.name, build::VERSION),
            metrics: Some(limits.metrics.clone()),
            fence: fence.clone(),
        };
        Self {
            client: tenure.api_server.client(budget.clone(), &process.server),
            fence,
            budget,
            limits: Some(limits.clone()),
            tenure: tenure.clone(),
            ending,
            process,
            program,
            events: Mutex::default(),
            optional: watch_channel::Sender::default(),
            begun: Mutex::default(),
            lifecycle: Mutex::default(),
            lists: Lists::default(),
        }
    }

    /// Another client for this controller, with a rate of its own, over the same connection.
    pub fn another_client(&self, rate: Rate) -> Client {
        let budget = Budget {
            rate,
            metrics: None,
            ..self.budget.clone()
        };
        let server = &self.process.server;
        self.tenure.api_server.client(budget, server)
    }

    /// Its name; `None` for a process's only controller.
    pub fn name_among_others(&self) -> Option<&'static str> {
        { self.limits.as_ref() }.map(|own| own.controller)
    }

    /// A client for requests about single objects.
    pub fn api(&self) -> Api {
        Api::new(self.client.clone())
    }

    /// The controller's tracer, if traces are on.
    pub fn tracer(&self) -> Option<Tracer> {
        let name = self.name_among_others().unwrap_or(self.program.name);
        self.process.tracer(name, self.fence.clone())
    }

    /// Measures these stages for objects of this driver while the result lives; the name is empty for a controller
    /// that serves several drivers. Until the controller begins, lists count as its first ones.
    pub fn lifecycle(&self, driver: &str, stages: &'static [Stage]) -> Lifecycle {
        let lifecycle = Lifecycle::new(lifecycle::Parts {
            driver: driver.into(),
            stages,
            counted_until: self.fence.predecessor(),
            metrics: self.process.lifecycle.clone(),
            skew: self.process.skew.clone(),
        });
        let mut first = self
            .lifecycle
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *first = Some(lifecycle.clone());
        lifecycle
    }

    /// Metrics of queues.
    pub fn queues(&self) -> &queue::Metrics {
        &self.process.queues
    }

    /// Connects to the driver at `address` and counts calls to it. While other replicas wait for the lease, a
    /// leader without a driver must give way.
    ///
    /// # Errors
    /// How the process ends.
    pub async fn connect_driver(
        &self,
        address: &str,
        calls: Calls,
        identity: Identity,
        election: Option<&Election>,
        is_migrated: impl FnOnce(&str) -> bool,
    ) -> Result<DriverHandshake, Exit> {
        let settings = link::Settings {
            address: address.to_owned(),
            calls,
            identity,
            patience: election.map(|_| PATIENCE),
            is_last_word: true,
            mute: self.program.fatal,
            fence: self.tenure.fence.clone(),
            hindrances: self.process.hindrances.clone(),
            info: self.process.driver.clone(),
        };
        let registry = &self.process.registry;
        let connecting = DriverHandshake::connect_counted(settings, registry, is_migrated);
        Box::pin(connecting).await
    }

    /// Writes events from now on, as long as the recorder exists.
    pub fn record_events(&self, source: Source) -> Recorder {
        let (recorder, worker) = Recorder::new(self.client.clone(), source);
        self.events().push(tokio::spawn(worker.run()));
        recorder
    }

    /// Waits until all recorded events are written. All recorders must be dropped before, so that no more can
    /// come.
    pub async fn last_events(&self) {
        let workers = std::mem::take(&mut *self.events());
        let written = async {
            for worker in workers {
                let _ = worker.await;
            }
        };
        let _ = timeout(LAST_EVENTS, written).await;
    }

    fn events(&self) -> std::sync::MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the caches in sync with the API server, for ever.
    pub async fn watch<W>(&self, watches: &[Watch<W>]) -> std::convert::Infallible {
        if self.process.why.is_some() {
            self.lists.watches(watch::lists(watches));
        }
        watch::keep(&self.tenure.feeds, watches).await
    }

    /// Logs which permissions are missing, and checks again until none is.
    pub async fn advise(&self, rules: &[Rule]) -> std::convert::Infallible {
        let report = self.missing(rules).await;
        self.advise_after(report, rules).await
    }

    /// As [`advise`](Self::advise), after the first check.
    pub async fn advise_after(
        &self,
        report: access::Report,
        rules: &[Rule],
    ) -> std::convert::Infallible {
        let ask = async || self.missing(rules).await;
        let say = async |report| self.say_missing(report).await;
        let asking = access::ask_until_granted(report, ask, say);
        tokio::join!(asking, self.say_whenever_driver_differs()).0
    }

    /// Checks permissions; the process's readiness shows the required ones that are missing.
    pub async fn missing(&self, rules: &[Rule]) -> access::Report {
        let name = self.name_among_others().unwrap_or(self.program.name);
        let asking = access::check(&self.client, rules);
        let report = self.process.missing.ask(name, asking).await;
        let optional = report.missing.iter();
        let optional = optional.filter(|missing| missing.rule.need != Need::Required);
        self.optional.send_replace(Some(optional.count()));
        report
    }

    /// Logs what this controller works with, and again whenever more is known: the `kinds` that it watches, and
    /// where it journals its requests to the driver. Its first lists are complete. Waits a moment for the check of
    /// permissions.
    pub async fn begin(&self, kinds: impl Iterator<Item = &'static str>, journal: Option<&str>) {
        let first = { self.lifecycle.lock() }
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(lifecycle) = first {
            lifecycle.listed();
        }
        self.lists.begin();
        let mut known = self.optional.subscribe();
        let _ = timeout(A_MOMENT, known.wait_for(Option::is_some)).await;
        let begun = Beginning {
            kinds: kinds.collect(),
            journal: journal.map(str::to_owned),
        };
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(begun);
        self.say_ready();
    }

    async fn say_whenever_driver_differs(&self) -> std::convert::Infallible {
        let mut known = self.process.driver.watch();
        while known.changed().await.is_ok() {
            self.say_ready();
        }
        // Unreachable: the process holds the sender.
        std::future::pending().await
    }

    fn say_ready(&self) {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(begun) = &*begun else { return };
        let flags = { self.limits.as_ref() }.map_or(&self.process.flags, |own| &own.flags);
        let driver = self.process.driver.watch().borrow().clone();
        let optional = *self.optional.borrow();
        let line = ready::line(
            flags,
            self.program.owner,
            driver.as_deref(),
            begun,
            optional,
        );
        self.process.ready.say(self.name_among_others(), line);
    }

    /// Reports why this controller cannot do some of its work, for the readiness endpoint; `None` once nothing
    /// hinders it.
    pub fn hindered(&self, hindrance: Option<String>) {
        let name = self.name_among_others().unwrap_or(self.program.name);
        self.process.hindrances.set(name, hindrance);
    }

    /// Logs which permissions are missing, once for all controllers that lack them.
    async fn say_missing(&self, report: access::Report) {
        match self.limits {
            Some(_) => self.process.missing.log(report).await,
            None => report.without_optional().log(),
        }
    }

    /// Does `work`: at once, or, with an election, while it leads. Follows the driver, if there is one, during
    /// the campaign.
    ///
    /// # Errors
    /// How the process ends: because of the election, the driver or `work`.
    pub async fn lead(
        &self,
        election: Option<&Election>,
        driver: Option<&dyn Followed>,
        work: impl AsyncFnOnce() -> Result<(), Exit>,
    ) -> Result<(), Exit> {
        let Some(election) = election else {
            return Box::pin(work()).await;
        };
        let process = &*self.process;
        let candidate = Candidate {
            owner: self.program.owner,
            driver: driver.map(Followed::driver_name).unwrap_or_default(),
            election,
            metrics: &process.election,
            health: &process.health,
            fence: &self.fence,
            company: None,
        };
        let client = process.lease_client().await?;
        let until = async {
            tokio::select! {
                biased;
                exit = follow(driver) => Err(exit),
                () = process.shutdown.requested() => Ok(()),
            }
        };
        Box::pin(candidate.lead(client, until, work)).await
    }
}

/// Follows the driver through its restarts; without a driver, never ends.
async fn follow(driver: Option<&dyn Followed>) -> Exit {
    match driver {
        Some(driver) => driver.until_lost().await,
        None => std::future::pending().await,
    }
}

/// Runs `doing` until the controller must end, then cancels it and never returns.
pub async fn until_ending<T>(ending: &Requested, doing: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        () = ending.requested() => std::future::pending().await,
        done = doing => done,
    }
}

#[cfg(test)]
mod tests;
