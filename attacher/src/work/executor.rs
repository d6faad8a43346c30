//! Executes the controller's requests and writes its log lines.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use sidecar::controller::engine::{self, Shell};
use sidecar::controller::execute::{self, execute};
use sidecar::controller::{Calls as _, Pacing};
use sidecar::kube::api::{Api, ApiError};
use sidecar::kube::cache::OwnWrites;
use sidecar::kube::objects::{ATTACHMENTS, VOLUMES};
use sidecar::kube::reflect::Resource;
use sidecar::lifecycle::Lifecycle;
use sidecar::metrics::RegisterError;
use sidecar::queue::{Config, Metrics, Queue};
use sidecar::verbose;

use super::driver::DriverView;
use super::events::FailureEvents;
use super::informers::Informers;
use crate::model::Attachment;
use crate::plan::in_flight::Key;
use crate::plan::outcome::Direction;
use crate::plan::reactor::{Failed, Notice};
use crate::plan::request::{Call, Called, Object, Reply, Request};
use crate::plan::{self, Attacher, fairness};

/// The engine that runs the attacher.
pub type Engine = engine::Engine<Attacher, Executor>;

/// Executes requests.
pub struct Executor {
    /// The caches and the driver, as decisions read them.
    pub informers: Informers,
    /// The driver.
    pub driver: Arc<DriverView>,
    /// Writes events about lasting failures.
    pub failure_events: FailureEvents,
    api: Api,
}

/// An attacher with empty caches.
///
/// # Errors
/// Only if the metrics reject a queue name, which does not happen.
pub fn engine(
    driver: &Arc<DriverView>,
    api: Api,
    pacing: Pacing,
    metrics: &Metrics,
    lifecycle: &Lifecycle,
) -> Result<Arc<Engine>, RegisterError> {
    let (lanes, shared) = fairness::lanes(pacing.workers);
    let attachments = Queue::new(Config {
        name: "csi-attacher-va".into(),
        lanes,
        shared,
        delay: pacing.delay(),
        metrics: Some(metrics.clone()),
    })?;
    let releases = Queue::new(Config {
        metrics: Some(metrics.clone()),
        ..Config::new("csi-attacher-pv", pacing.workers, pacing.delay())
    })?;
    // In the order of `plan::reactor::ATTACHMENTS` and `RELEASES`.
    let queues = vec![attachments, releases];
    Ok(Engine::new(Attacher::default(), queues, |engine| {
        Executor {
            informers: Informers::new(engine, Arc::clone(driver), lifecycle),
            driver: Arc::clone(driver),
            failure_events: FailureEvents::default(),
            api,
        }
    }))
}

impl Shell<Attacher> for Executor {
    fn informers(&self) -> &(dyn plan::Informers + 'static) {
        &self.informers
    }

    async fn execute(&self, request: Request) -> Reply {
        execute(self, request).await
    }

    fn note(&self, notice: Notice) {
        match notice {
            Notice::Orphaned(orphan) => tracing::warn!(
                attachment = &*orphan.attachment,
                node = &*orphan.node,
                volume_handle = &*orphan.target.volume,
                "VolumeAttachment is gone and its volume may still be attached, detaching"
            ),
            Notice::Undetachable(gone, failure) => tracing::error!(
                attachment = &*gone.name,
                node = &*gone.node,
                err = %failure,
                "VolumeAttachment is gone and its volume may still be attached, cannot detach it"
            ),
            Notice::Unexplained(gone) => tracing::warn!(
                attachment = &*gone.name,
                node = &*gone.node,
                "VolumeAttachment disappeared without a deletion timestamp; its volume may be in use and stays attached"
            ),
            Notice::OfAnother(attachment) => {
                let attachment = &*attachment;
                verbose!(
                    4,
                    attachment,
                    "Skipping VolumeAttachment of another attacher"
                );
            }
            Notice::Unrecorded(attachment, error) => {
                let attachment = &*attachment;
                verbose!(2, attachment, err = %error, "Failed to save the error to VolumeAttachment");
            }
            Notice::Incomparable(attachment, failure) => tracing::error!(
                attachment = &*attachment,
                err = %failure,
                "Failed to reconcile VolumeAttachment"
            ),
            Notice::Contradicted(entry) => tracing::warn!(
                attachment = &*entry.name,
                volume_handle = &*entry.handle,
                node_id = &*entry.node_id,
                attached = entry.attached,
                "ListVolumes contradicts the VolumeAttachment, processing it again"
            ),
        }
    }

    fn failed(&self, key: &Key, failed: &Failed, failures: u32, wait: Duration) {
        let Failed { about, failure } = failed;
        match (key, about) {
            (Key::Attachment(name), None) => {
                let attachment = &**name;
                tracing::error!(attachment, retry_after = ?wait, err = %failure, "Error processing");
            }
            (Key::Attachment(_), Some((attachment, volume))) => {
                tracing::error!(
                    attachment = &*attachment.name,
                    node = &*attachment.node,
                    direction = Direction::of(attachment).name(),
                    failures,
                    retry_after = ?wait,
                    err = %failure,
                    "Error processing"
                );
                self.failure_events
                    .failed(attachment, volume.as_deref(), failure, failures);
            }
            (Key::Orphan(target), _) => tracing::error!(
                volume_handle = &*target.volume,
                node_id = &*target.node,
                retry_after = ?wait,
                err = %failure,
                "Cannot detach the volume of a VolumeAttachment that is gone"
            ),
            (Key::Volume(name), _) => tracing::error!(
                volume = &**name,
                retry_after = ?wait,
                err = %failure,
                "Failed to remove finalizer from PersistentVolume"
            ),
        }
    }
}

impl execute::Executor<Attacher> for Executor {
    fn api(&self) -> &Api {
        &self.api
    }

    fn kind(&self, object: &Object) -> (&Resource, Option<&dyn OwnWrites>) {
        match object {
            Object::Attachment(_) => (&ATTACHMENTS, Some(&self.informers.attachments)),
            Object::Volume(_) => (&VOLUMES, Some(&self.informers.volumes)),
        }
    }

    fn found(&self, object: &Object, json: &str) -> Result<Option<Arc<Attachment>>, ApiError> {
        match object {
            Object::Attachment(_) => self.informers.attachments.decode(json).map(Some),
            Object::Volume(_) => Ok(None),
        }
    }

    async fn call(&self, call: Call) -> (Called, Duration) {
        call.send(&self.driver, self.driver.timeout()).await
    }

    fn record(&self, event: &Infallible) {
        match *event {}
    }
}
