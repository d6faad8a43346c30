//! Executes the controller's requests and writes its log lines.

use std::sync::Arc;
use std::time::Duration;

use sidecar::controller::engine::{self, Shell};
use sidecar::controller::execute::{self, execute};
use sidecar::controller::{Calls as _, Pacing};
use sidecar::kube::api::{Api, ApiError};
use sidecar::kube::cache::OwnWrites;
use sidecar::kube::events::{Recorder, Reference, Severity};
use sidecar::kube::reflect::Resource;
use sidecar::metrics::RegisterError;
use sidecar::queue::{Config, Metrics, Queue};
use sidecar::verbose;

use super::api::Resources;
use super::driver::DriverView;
use super::informers::Informers;
use crate::model::{Kind, Text};
use crate::plan::reactor::{Notice, Retry};
use crate::plan::request::{Call, Called, Event, Reply, Request};
use crate::plan::{self, Settings, Snapshotter};

/// The engine that drives the snapshotter.
pub type Engine = engine::Engine<Snapshotter, Executor>;

/// The executor of the snapshotter's requests.
pub struct Executor {
    /// The caches that decisions read.
    pub informers: Informers,
    /// The driver.
    pub driver: Arc<DriverView>,
    /// The API kinds.
    pub resources: Resources,
    api: Api,
    /// Recorder of the events on contents.
    events: Recorder,
}

/// An engine for contents of this kind, with empty caches.
///
/// # Errors
/// The metrics refuse the queue's name, which does not happen with any text.
pub fn engine(
    kind: Kind,
    driver: &Arc<DriverView>,
    (api, events): (Api, Recorder),
    (pacing, settings): (Pacing, &Settings),
    metrics: &Metrics,
) -> Result<Arc<Engine>, RegisterError> {
    let resources = Resources::of(kind);
    let queue = Queue::new(Config {
        metrics: Some(metrics.clone()),
        ..Config::new(resources.queue, pacing.workers, pacing.delay())
    })?;
    let snapshotter = Snapshotter::new(kind, settings);
    Ok(Engine::new(snapshotter, vec![queue], |engine| Executor {
        informers: Informers::new(engine, Arc::clone(driver)),
        driver: Arc::clone(driver),
        resources,
        api,
        events,
    }))
}

impl Shell<Snapshotter> for Executor {
    fn informers(&self) -> &(dyn plan::Informers + 'static) {
        &self.informers
    }

    async fn execute(&self, request: Request) -> Reply {
        execute(self, request).await
    }

    fn note(&self, notice: Notice) {
        match notice {
            Notice::Processed(content) => {
                let content = &*content;
                verbose!(4, content, "Processed");
            }
            Notice::Lost(content, handle) => tracing::error!(
                content = &*content,
                snapshot_handle = &*handle,
                "The VolumeSnapshotContent is gone but its snapshot is not; nobody will delete the snapshot"
            ),
            Notice::OtherHandle(content, asked, answered) => tracing::warn!(
                content = &*content,
                asked = &*asked,
                answered = &*answered,
                "The driver returned the snapshot handle in another spelling; its spelling is stored only where the content's status has none"
            ),
        }
    }

    fn failed(&self, content: &Text, retry: &Retry, _failures: u32, wait: Duration) {
        let content = &**content;
        match retry {
            Retry::NotReady => {
                verbose!(4, content, retry_after = ?wait, "The snapshot is not ready");
            }
            Retry::Awaits => {
                verbose!(4, content, retry_after = ?wait, "Waiting for the status of a member of the group snapshot");
            }
            Retry::Failed(failure) => {
                tracing::error!(content, retry_after = ?wait, err = %failure, "Error processing");
            }
        }
    }
}

impl execute::Executor<Snapshotter> for Executor {
    fn api(&self) -> &Api {
        &self.api
    }

    fn kind(&self, _content: &Text) -> (&Resource, Option<&dyn OwnWrites>) {
        (&self.resources.contents, Some(&self.informers.contents))
    }

    fn found(&self, _content: &Text, _json: &str) -> Result<(), ApiError> {
        Ok(())
    }

    async fn call(&self, call: Call) -> (Called, Duration) {
        call.send(&self.driver, self.driver.timeout()).await
    }

    fn record(&self, event: &Event) {
        let about = Reference {
            api_version: self.resources.api_version.into(),
            kind: self.resources.kind.into(),
            name: event.content.to_string(),
            uid: event.uid.to_string(),
            ..Reference::default()
        };
        let announcement = &event.announcement;
        let message = &*announcement.message;
        self.events
            .record(&about, Severity::Warning, announcement.reason, message);
    }
}
