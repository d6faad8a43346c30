//! Executes the controller's requests and writes its log lines.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sidecar::controller::Calls as _;
use sidecar::controller::engine::{self, Shell};
use sidecar::controller::execute::{self, execute};
use sidecar::kube::api::{Api, ApiError};
use sidecar::kube::cache::OwnWrites;
use sidecar::kube::events::{Recorder, Reference, Severity};
use sidecar::kube::objects::{CLAIMS, EVENTS};
use sidecar::kube::reflect::Resource;
use sidecar::metrics::RegisterError;
use sidecar::queue::{self, Queue};
use sidecar::refusal::Refusal;

use super::driver::DriverView;
use super::informers::Informers;
use super::metrics::Metrics;
use super::record;
use crate::args::Config;
use crate::plan::event::{ABNORMAL, NORMAL, RETURNED, Tell};
use crate::plan::mode::Mode;
use crate::plan::reactor::{Failed, Notice};
use crate::plan::request::{Call, Called, Event, Found, Object, Reply, Request};
use crate::plan::{self, HealthMonitor, Key};

/// The engine that runs the health monitor.
pub type Engine = engine::Engine<HealthMonitor, Executor>;

/// Executes requests.
pub struct Executor {
    /// The caches and the driver, as decisions read them.
    pub informers: Informers,
    /// The driver.
    pub driver: Arc<DriverView>,
    /// Writes events about claims.
    pub events: OnceLock<Recorder>,
    metrics: Metrics,
    api: Api,
}

/// `source.component` of our events, equal to upstream's.
#[must_use]
pub fn component(driver: &str) -> String {
    format!("csi-pv-monitor-controller-{driver}")
}

/// A health monitor with empty caches.
///
/// # Errors
/// Only if the metrics reject a queue name, which does not happen.
pub fn engine(
    driver: &Arc<DriverView>,
    api: Api,
    config: &Config,
    metrics: Metrics,
    queues: &queue::Metrics,
) -> Result<Arc<Engine>, RegisterError> {
    let queue = |name: &'static str, workers| {
        Queue::new(queue::Config {
            metrics: Some(queues.clone()),
            ..queue::Config::new(name, workers, config.pacing.delay())
        })
    };
    // In the order of `plan::reactor::CYCLES` and `VOLUMES`.
    let all = vec![
        queue("csi-health-monitor-cycle", 1)?,
        queue("csi-health-monitor-volumes", config.pacing.workers)?,
    ];
    let monitor = HealthMonitor::new(config.settings);
    Ok(Engine::new(monitor, all, |engine| Executor {
        informers: Informers::new(engine, Arc::clone(driver)),
        driver: Arc::clone(driver),
        events: OnceLock::new(),
        metrics,
        api,
    }))
}

impl Shell<HealthMonitor> for Executor {
    fn informers(&self) -> &(dyn plan::Informers + 'static) {
        &self.informers
    }

    async fn execute(&self, request: Request) -> Reply {
        execute(self, request).await
    }

    fn note(&self, notice: Notice) {
        let driver = &*self.driver.current().name;
        match notice {
            Notice::Mode(Mode::Nothing) => tracing::warn!(
                driver,
                "The driver reports no volume health: it has none of the controller capabilities LIST_VOLUME_HEALTH, \
                 GET_VOLUME_HEALTH, and, of CSI 1.12 and older, VOLUME_CONDITION with LIST_VOLUMES or GET_VOLUME"
            ),
            Notice::Mode(mode) => tracing::info!(driver, ?mode, "Monitoring volume health"),
            Notice::Refuses => tracing::warn!(
                driver,
                "The driver answers Unimplemented to the call that its capabilities announce; it is not asked again \
                 before it restarts"
            ),
            // The server's refusal of the first event is the error line for both.
            Notice::NoHistory(error) if error.refusal == Refusal::Forbidden => sidecar::verbose!(
                2,
                err = %error,
                "May not list earlier events; volumes that are healthy again get no event"
            ),
            Notice::NoHistory(error) => tracing::error!(
                err = %error,
                "Failed to list earlier events; volumes that are healthy again get no event"
            ),
            Notice::Incomplete(gap) => {
                tracing::error!(driver, err = %gap, "Failed to list the health of all volumes")
            }
            Notice::Instead => tracing::warn!(
                driver,
                "Lists of volume health keep failing, asking about each volume instead"
            ),
            Notice::Lists => tracing::info!(driver, "Lists of volume health work again"),
            Notice::Slow(length) => tracing::warn!(
                driver,
                ?length,
                "Asking about all volumes takes longer than --monitor-interval; raise --worker-threads"
            ),
            Notice::Cycle(took) => self.metrics.cycle(took),
            Notice::Health(before, after) => self.metrics.health(&before, &after),
            Notice::LeftOut(conditions) => self.metrics.left_out(conditions),
            Notice::Unknown(status) => tracing::warn!(
                driver,
                status,
                "The driver reports a volume health status that CSI 1.13 does not have; it is left out"
            ),
            Notice::Surplus(handle, surplus) => tracing::warn!(
                volume_handle = &*handle,
                surplus,
                "The volume has more health conditions than a claim can have; the least severe are left out"
            ),
            Notice::Dropped(is_news) => {
                self.metrics.dropped();
                if is_news {
                    tracing::warn!(
                        "The API server drops status.healthStatus of claims: it is older than Kubernetes 1.37, or \
                         its feature gate CSIVolumeHealth is off; trying again every 10 minutes"
                    );
                }
            }
            Notice::Kept => tracing::info!("The API server keeps status.healthStatus of claims"),
            Notice::Another(claim) => tracing::warn!(
                claim = &*claim,
                "The claim is not the one that its volume is bound to; its status is left alone"
            ),
        }
    }

    fn failed(&self, key: &Key, failed: &Failed, _failures: u32, wait: Duration) {
        match (failed, key) {
            (Failed::Unanswered(error), Key::Volume(handle)) => tracing::error!(
                volume_handle = &**handle,
                retry_after = ?wait,
                err = %error,
                "Failed to get the health of the volume"
            ),
            (Failed::Unwritten(claim, error), _) => tracing::error!(
                claim = &**claim,
                retry_after = ?wait,
                err = %error,
                "Failed to write status.healthStatus of the claim"
            ),
            // Attempts on the cycle never fail.
            (Failed::Unanswered(_), Key::Cycle) => {}
        }
    }
}

impl execute::Executor<HealthMonitor> for Executor {
    fn api(&self) -> &Api {
        &self.api
    }

    fn kind(&self, object: &Object) -> (&Resource, Option<&dyn OwnWrites>) {
        match object {
            Object::Claim(_) => (&CLAIMS, Some(&self.informers.claims)),
            Object::Events => (&EVENTS, None),
        }
    }

    fn found(&self, object: &Object, json: &str) -> Result<Found, ApiError> {
        let found = match object {
            Object::Claim(_) => {
                record::is_unhealthy(json).map(|unhealthy| Found::Claim { unhealthy })
            }
            Object::Events => {
                let component = component(&self.driver.current().name);
                record::told_of(json, &component).map(Found::Events)
            }
        };
        found.map_err(|error| ApiError::unreadable(&error))
    }

    async fn call(&self, call: Call) -> (Called, Duration) {
        let (called, took) = call.send(&self.driver, self.driver.timeout()).await;
        let (method, ok) = match &called {
            Called::ListHealth(_, result) => ("ControllerListVolumeHealth", result.is_ok()),
            Called::GetHealth(_, result) => ("ControllerGetVolumeHealth", result.is_ok()),
            Called::ListConditions(_, result) => ("ListVolumes", result.is_ok()),
            Called::GetCondition(_, result) => ("ControllerGetVolume", result.is_ok()),
        };
        self.metrics.probe(method, ok);
        (called, took)
    }

    fn record(&self, event: &Event) {
        let Some(recorder) = self.events.get() else {
            return;
        };
        let (namespace, name) = event.claim.split_once('/').unwrap_or_default();
        let about = Reference {
            api_version: "v1".into(),
            kind: "PersistentVolumeClaim".into(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: event.uid.to_string(),
            ..Reference::default()
        };
        match &event.tell {
            Tell::Abnormal(message) => {
                recorder.record(&about, Severity::Warning, ABNORMAL, &**message)
            }
            Tell::Normal => recorder.record(&about, Severity::Normal, NORMAL, RETURNED),
        }
    }
}
