//! Executes the controller's requests and writes its log lines.

use std::sync::Arc;
use std::time::Duration;

use sidecar::controller::Calls as _;
use sidecar::controller::engine::{self, Shell};
use sidecar::controller::execute::{self, execute};
use sidecar::kube::api::{Api, ApiError};
use sidecar::kube::cache::OwnWrites;
use sidecar::kube::events::{Recorder, Reference, Severity};
use sidecar::kube::objects::{CLAIMS, VOLUMES};
use sidecar::kube::reflect::Resource;
use sidecar::lifecycle::Lifecycle;
use sidecar::metrics::RegisterError;
use sidecar::queue::{self, Metrics, Queue};
use sidecar::verbose;

use super::driver::DriverView;
use super::informers::Informers;
use crate::args::{Config, Timeouts};
use crate::plan::outcome::Failure;
use crate::plan::reactor::Notice;
use crate::plan::request::{Call, Called, Event, Object, Reply, Request};
use crate::plan::{self, Resizer, Task, fairness};

/// The engine that drives the resizer.
pub type Engine = engine::Engine<Resizer, Executor>;

/// The executor of the resizer's requests.
pub struct Executor {
    /// The caches that decisions read.
    pub informers: Informers,
    /// The driver.
    pub driver: Arc<DriverView>,
    timeouts: Timeouts,
    api: Api,
    /// Recorder of the events on claims.
    events: Recorder,
}

/// A resizer with empty caches.
///
/// # Errors
/// The metrics refuse the queue's name, which does not happen with any text.
pub fn engine(
    driver: &Arc<DriverView>,
    api: Api,
    events: Recorder,
    config: &Config,
    metrics: &Metrics,
    lifecycle: Lifecycle,
) -> Result<Arc<Engine>, RegisterError> {
    let (current, pacing) = (driver.current(), config.pacing);
    let queue = Queue::new(queue::Config {
        lanes: fairness::lanes(pacing.workers),
        metrics: Some(metrics.clone()),
        // Upstream gives both of its queues this name.
        ..queue::Config::new(
            format!("{}-pvc", current.name),
            pacing.workers,
            pacing.delay(),
        )
    })?;
    let resizer = Resizer::new(&current, &config.settings);
    Ok(Engine::new(resizer, vec![queue], |engine| Executor {
        informers: Informers::new(engine, Arc::clone(driver), lifecycle),
        driver: Arc::clone(driver),
        timeouts: config.timeouts,
        api,
        events,
    }))
}

impl Shell<Resizer> for Executor {
    fn informers(&self) -> &(dyn plan::Informers + 'static) {
        &self.informers
    }

    async fn execute(&self, request: Request) -> Reply {
        execute(self, request).await
    }

    fn note(&self, notice: Notice) {
        let (task, failure) = match notice {
            Notice::Processed(task) => {
                let (claim, work) = (&*task.claim, task.kind.name());
                return verbose!(4, claim, work, "Processed");
            }
            Notice::Later(task, wait) => {
                let (claim, work) = (&*task.claim, task.kind.name());
                return verbose!(
                    4,
                    claim,
                    work,
                    retry_after = ?wait,
                    "Skipping, because it previously failed with infeasible error"
                );
            }
            Notice::Waits(task, cure) => {
                let (claim, work) = (&*task.claim, task.kind.name());
                return tracing::warn!(claim, work, waits_for = ?cure, "Waiting");
            }
            Notice::Failed(task, failure) => (task, failure),
        };
        self.failed(&task, &failure, 0, Duration::ZERO);
    }

    fn failed(&self, task: &Task, failure: &Failure, _failures: u32, wait: Duration) {
        let (claim, work) = (&*task.claim, task.kind.name());
        tracing::error!(claim, work, retry_after = ?wait, err = %failure, "Error processing");
    }
}

impl execute::Executor<Resizer> for Executor {
    fn api(&self) -> &Api {
        &self.api
    }

    fn kind(&self, object: &Object) -> (&Resource, Option<&dyn OwnWrites>) {
        match object {
            Object::Claim(_) => (&CLAIMS, Some(&self.informers.claims)),
            Object::Volume(_) => (&VOLUMES, Some(&self.informers.volumes)),
        }
    }

    fn found(&self, _object: &Object, _json: &str) -> Result<(), ApiError> {
        Ok(())
    }

    async fn call(&self, call: Call) -> (Called, Duration) {
        let timeout = match &call {
            Call::Expand(_) => self.timeouts.resize,
            Call::Modify(_) => self.timeouts.modify,
        };
        call.send(&self.driver, timeout).await
    }

    fn record(&self, event: &Event) {
        let (namespace, name) = event.claim.split_once('/').unwrap_or_default();
        let about = Reference {
            api_version: "v1".into(),
            kind: "PersistentVolumeClaim".into(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: event.uid.to_string(),
            ..Reference::default()
        };
        let announcement = &event.announcement;
        let severity = if announcement.warning {
            Severity::Warning
        } else {
            Severity::Normal
        };
        let message = announcement.message.clone();
        self.events
            .record(&about, severity, announcement.reason, message);
    }
}
