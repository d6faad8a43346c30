//! Executes the controller's requests.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use serde::Deserialize;
use sidecar::controller::Calls as _;
use sidecar::controller::engine::{self, Shell};
use sidecar::controller::execute::{self, execute};
use sidecar::kube::api::{Api, ApiError};
use sidecar::kube::cache::OwnWrites;
use sidecar::kube::reflect::Resource;
use sidecar::lifecycle::Lifecycle;
use sidecar::metrics::RegisterError;
use sidecar::queue::{self, Config, Queue, exponential};
use sidecar::trace;
use tokio::sync::{Notify, SetOnce};

use super::api::{ATTRIBUTES_CLASSES, CLAIMS, CONTENTS, SNAPSHOTS, VOLUMES};
use super::capacity::Capacity;
use super::driver::DriverView;
use super::events::Events;
use super::holders::Holders;
use super::informers::Informers;
use super::journal::Keeper;
use super::metrics::Metrics;
use super::record::{ClaimWire, read_claim, read_volume};
use super::step::wire;
use crate::model::Snapshot;
use crate::plan::journal::Journal;
use crate::plan::reactor::{Failed, Key, Notice, Reply, Setup, Step};
use crate::plan::request::{Call, Called, Event, Found, Object};
use crate::plan::{self, Provisioner, Settings, fairness};

/// The engine of the provisioner.
pub type Engine = engine::Engine<Provisioner, Executor>;

/// Executes requests.
pub struct Executor {
    /// The caches.
    pub informers: Informers,
    /// The driver.
    pub driver: Arc<DriverView>,
    /// The API server; reads and writes single objects.
    pub api: Api,
    /// Flags and environment that decisions depend on.
    pub settings: Settings,
    /// The program's own metrics.
    pub metrics: Metrics,
    /// The event recorders.
    pub events: Events,
    /// The provisioning journal at the API server, if there is one.
    pub journal: Option<Keeper>,
    /// Set once the requests of earlier processes are read from it, or if there is no journal.
    pub recovered: SetOnce<()>,
    /// The producer of CSIStorageCapacity objects, with `--enable-capacity`.
    pub capacity: OnceLock<Arc<Capacity>>,
    /// Notified when claims have begun to wait for a class that is polled.
    pub(super) looked_for: Notify,
    /// Callers that wait for a list of all PersistentVolumes.
    pub(super) holders: Holders,
    pub(super) engine: Weak<Engine>,
}

/// Parts of a provisioner.
pub struct Parts {
    /// The driver.
    pub driver: Arc<DriverView>,
    /// The API server; reads and writes single objects.
    pub api: Api,
    /// Parameters of the reactor.
    pub setup: Setup,
    /// The program's own metrics.
    pub metrics: Metrics,
    /// The event recorders.
    pub events: Events,
    /// The provisioning journal, if there is one: its state, and its side at the API server.
    pub journal: Option<(Journal, Keeper)>,
    /// Measures how long users wait.
    pub lifecycle: Lifecycle,
}

/// Numbers of workers, and the back-off.
#[derive(Clone, Copy, Debug)]
pub struct Pacing {
    /// `--worker-threads`
    pub threads: usize,
    /// `--cloning-protection-threads`
    pub clone_threads: usize,
    /// `--retry-interval-start`
    pub retry_start: Duration,
    /// `--retry-interval-max`
    pub retry_max: Duration,
}

/// A provisioner with empty caches.
///
/// # Errors
/// The metrics reject the queues' names; they reject no text.
pub fn engine(
    parts: Parts,
    pacing: Pacing,
    metrics: &queue::Metrics,
) -> Result<Arc<Engine>, RegisterError> {
    let delay = || exponential(pacing.retry_start, pacing.retry_max);
    let queue = |name, threads| {
        Queue::new(Config {
            lanes: fairness::lanes(name, threads),
            metrics: Some(metrics.clone()),
            ..Config::new(name, threads, delay())
        })
    };
    // In the order of `plan::reactor::CLAIMS`, `VOLUMES` and `SOURCES`.
    let queues = vec![
        queue("claims", pacing.threads)?,
        queue("volumes", pacing.threads)?,
        // Upstream calls this queue `claims` as well, so that the metrics cannot distinguish the two.
        queue("cloned-claims", pacing.clone_threads)?,
    ];
    let (journal, keeper) = parts.journal.unzip();
    let settings = parts.setup.settings.clone();
    let provisioner = Provisioner::new(parts.setup, journal);
    Ok(Engine::new(provisioner, queues, |engine| Executor {
        informers: Informers::new(engine, Arc::clone(&parts.driver), &parts.lifecycle),
        driver: parts.driver,
        api: parts.api,
        settings,
        metrics: parts.metrics,
        events: parts.events,
        journal: keeper,
        recovered: SetOnce::new(),
        capacity: OnceLock::new(),
        looked_for: Notify::new(),
        holders: Holders::default(),
        engine: engine.clone(),
    }))
}

impl Shell<Provisioner> for Executor {
    fn informers(&self) -> &(dyn plan::Informers + 'static) {
        &self.informers
    }

    async fn execute(&self, step: Step) -> Reply {
        match step {
            Step::Ask(request) => Reply::Ask(execute(self, request).await),
            Step::Claim(step) => Reply::Claim(Box::pin(self.for_claim(step)).await),
        }
    }

    fn note(&self, notice: Notice) {
        self.report(notice);
    }

    fn failed(&self, key: &Key, failed: &Failed, _failures: u32, wait: Duration) {
        Self::log_failure(key, failed, wait);
    }

    fn shut_down(&self) {
        if let Some(capacity) = self.capacity.get() {
            capacity.queue.shut_down();
        }
    }
}

impl execute::Executor<Provisioner> for Executor {
    fn api(&self) -> &Api {
        &self.api
    }

    fn kind(&self, object: &Object) -> (&Resource, Option<&dyn OwnWrites>) {
        match object {
            Object::Claim(_) => (&CLAIMS, Some(&self.informers.claims)),
            Object::Volume(_) => (&VOLUMES, Some(&self.informers.volumes)),
            Object::Snapshot(_) => (&SNAPSHOTS, None),
            Object::Content(_) => (&CONTENTS, None),
            Object::SourceClaim(_) => (&CLAIMS, None),
            Object::SourceVolume(_) => (&VOLUMES, None),
            Object::Owner(..) => (&CLAIMS, None),
            Object::AttributesClass(_) => (&ATTRIBUTES_CLASSES, None),
        }
    }

    fn found(&self, object: &Object, json: &str) -> Result<Found, ApiError> {
        let strings = &self.informers.strings;
        Ok(match object {
            Object::Claim(_) => Found::Written,
            Object::Volume(_) => Found::Volume(self.informers.volumes.decode(json)?),
            Object::Snapshot(_) => {
                let snapshot: Box<Snapshot> = Box::new(self.decode(json)?);
                trace::link(&snapshot.uid);
                Found::Snapshot(snapshot)
            }
            Object::Content(_) => Found::Content(Box::new(self.decode(json)?)),
            Object::SourceClaim(_) => {
                let claim = read_claim(wire(json)?, strings);
                trace::link(&claim.uid);
                Found::SourceClaim(Box::new(claim))
            }
            Object::Owner(..) => {
                #[derive(Deserialize)]
                struct List<'a> {
                    #[serde(borrow)]
                    items: Vec<ClaimWire<'a>>,
                }
                let List { items } = wire(json)?;
                let claim = items.into_iter().next().ok_or_else(ApiError::gone)?;
                Found::SourceClaim(Box::new(read_claim(claim, strings)))
            }
            Object::SourceVolume(_) => {
                Found::SourceVolume(Box::new(read_volume(wire(json)?, strings)))
            }
            Object::AttributesClass(_) => Found::AttributesClass(Box::new(self.decode(json)?)),
        })
    }

    async fn call(&self, call: Call) -> (Called, Duration) {
        match call {
            Call::Create(mut call) => {
                let result = self.create(&mut call).await;
                (Called::Create(call, result), Duration::ZERO)
            }
            Call::Discard(call) => {
                let result = self.discard(&call).await;
                (Called::Discard(call, result), Duration::ZERO)
            }
            call @ (Call::Delete(_) | Call::GetCapacity(_)) => {
                call.send(&self.driver, self.driver.timeout()).await
            }
        }
    }

    fn record(&self, event: &Event) {
        self.announce(&event.claim, &event.announcement);
    }
}
