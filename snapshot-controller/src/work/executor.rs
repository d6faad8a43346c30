//! Executes the controller's requests, records its events and writes its log lines.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;
use sidecar::controller::Seat;
use sidecar::controller::engine::{self, Shell};
use sidecar::controller::execute::{self, execute};
use sidecar::error::Chain;
use sidecar::kube::api::{Api, ApiError};
use sidecar::kube::cache::OwnWrites;
use sidecar::kube::events::{Recorder, Reference, Severity};
use sidecar::kube::lean::{Parts, nullable};
use sidecar::kube::reflect::Resource;
use sidecar::metrics::RegisterError;
use sidecar::queue::{Config as QueueConfig, Queue};
use sidecar::snapshot::VERSION;
use tokio::time::Instant;

use super::api::{CLAIMS, CONTENTS, GROUP_CONTENTS, GROUP_SNAPSHOTS, SNAPSHOTS, VOLUMES};
use super::informers::Informers;
use super::metrics::Metrics;
use crate::args::Config;
use crate::model::Text;
use crate::plan::in_flight::Key;
use crate::plan::lifecycle;
use crate::plan::reactor::{Event, Failed, Notice};
use crate::plan::request::{Object, Reply, Request};
use crate::plan::{self, Controller};

/// The engine that drives the controller.
pub type Engine = engine::Engine<Controller, Executor>;

/// Executes requests.
pub struct Executor {
    /// The caches that decisions read.
    pub informers: Informers,
    api: Api,
    /// Records events for users.
    events: Recorder,
    metrics: Metrics,
}

/// The names of a list's items.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NamesWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    items: Vec<Parts<'a, IgnoredAny>>,
}

/// A controller with empty caches.
///
/// # Errors
/// The metrics refuse the queues' names, which does not happen.
pub fn engine(
    seat: &Seat,
    config: &Config,
    events: Recorder,
    metrics: &Metrics,
) -> Result<Arc<Engine>, RegisterError> {
    let queue = |name: &'static str| {
        Queue::new(QueueConfig {
            metrics: Some(seat.queues().clone()),
            ..QueueConfig::new(name, config.pacing.workers, config.pacing.delay())
        })
    };
    // In the order of `plan::reactor::SNAPSHOTS` and the following.
    let queues = vec![
        queue("snapshot-controller-snapshot")?,
        queue("snapshot-controller-content")?,
        queue("snapshot-controller-claim")?,
        queue("snapshot-controller-group-snapshot")?,
        queue("snapshot-controller-group-content")?,
    ];
    let lifecycle = seat.lifecycle("", lifecycle::STAGES);
    Ok(Engine::new(Controller::default(), queues, |engine| {
        Executor {
            informers: Informers::new(engine, config.settings, lifecycle),
            api: seat.api(),
            events,
            metrics: metrics.clone(),
        }
    }))
}

impl Shell<Controller> for Executor {
    fn informers(&self) -> &(dyn plan::Informers + 'static) {
        &self.informers
    }

    async fn execute(&self, request: Request) -> Reply {
        execute(self, request).await
    }

    fn note(&self, notice: Notice) {
        match notice {
            Notice::Event(event) => self.record_event(*event),
            Notice::Sample(sample) => self.metrics.observe(&sample, Instant::now().into_std()),
            Notice::InFlight(number) => self.metrics.in_flight(number),
        }
    }

    fn failed(&self, key: &Key, failed: &Failed, failures: u32, wait: Duration) {
        let (kind, key) = match key {
            Key::Snapshot(key) => ("VolumeSnapshot", key),
            Key::Content(name) => ("VolumeSnapshotContent", name),
            Key::Claim(key) => ("PersistentVolumeClaim", key),
            Key::Group(key) => ("VolumeGroupSnapshot", key),
            Key::GroupContent(name) => ("VolumeGroupSnapshotContent", name),
        };
        tracing::error!(
            kind,
            key = &**key,
            what = failed.what,
            failures,
            retry_after = ?wait,
            err = failed.error,
            "Error processing"
        );
    }
}

impl execute::Executor<Controller> for Executor {
    fn api(&self) -> &Api {
        &self.api
    }

    fn kind(&self, object: &Object) -> (&Resource, Option<&dyn OwnWrites>) {
        let caches = &self.informers;
        match object {
            Object::Snapshot(_) => (&SNAPSHOTS, Some(&caches.snapshots)),
            Object::Content(_) => (&CONTENTS, Some(&caches.contents)),
            Object::Claim(_) | Object::Claims(..) => (&CLAIMS, Some(&caches.claims)),
            Object::Volume(_) => (&VOLUMES, Some(&caches.volumes)),
            Object::Group(_) => (&GROUP_SNAPSHOTS, Some(&caches.groups)),
            Object::GroupContent(_) => (&GROUP_CONTENTS, Some(&caches.group_contents)),
        }
    }

    fn found(&self, object: &Object, json: &str) -> Result<Option<Text>, ApiError> {
        match object {
            Object::Claim(_) => Ok(Some(json.into())),
            Object::Claims(..) => names(json).map(Some),
            Object::Snapshot(_)
            | Object::Content(_)
            | Object::Volume(_)
            | Object::Group(_)
            | Object::GroupContent(_) => Ok(None),
        }
    }

    async fn call(&self, call: Infallible) -> (Infallible, Duration) {
        match call {}
    }

    fn record(&self, event: &Infallible) {
        match *event {}
    }
}

/// Names of the objects of a list, one a line.
fn names(json: &str) -> Result<Text, ApiError> {
    let list: NamesWire<'_> =
        serde_json::from_str(json).map_err(|error| ApiError::unreadable(&Chain(&error)))?;
    let names = list
        .items
        .iter()
        .map(|item| item.metadata.name.as_deref().unwrap_or_default());
    Ok(names.collect::<Vec<_>>().join("\n").into())
}

impl Executor {
    fn record_event(&self, event: Event) {
        let about = Reference {
            api_version: format!("{}/{VERSION}", event.about.kind.group).into(),
            kind: event.about.kind.kind.into(),
            namespace: event.about.namespace.to_string(),
            name: event.about.name.to_string(),
            uid: event.about.uid.to_string(),
            resource_version: event.about.version.to_string(),
        };
        let severity = if event.warning {
            Severity::Warning
        } else {
            Severity::Normal
        };
        self.events
            .record(&about, severity, event.reason, event.message);
    }
}
