//! Carries out the controller's steps, each one request or one call, and logs what it says.

use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi::ControllerPublishVolumeResponse;
use csi_proto::csi::controller_client::ControllerClient;
use serde_json::Value;
use sidecar::controller::Pacing;
use sidecar::controller::engine::{self, Shell};
use sidecar::csi::{Channel, call_with};
use sidecar::kube::api::{Api, SecretError, key};
use sidecar::kube::cache::Record;
use sidecar::kube::objects::{ATTACHMENTS, VOLUMES};
use sidecar::kube::patch::{Part, Patch};
use sidecar::metrics::RegisterError;
use sidecar::queue::{Config, Metrics, Queue};
use sidecar::verbose;
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use super::driver::DriverView;
use super::events::FailureEvents;
use super::informers::Informers;
use crate::model::{Attachment, SecretRef, Text};
use crate::plan::attachment::Answer;
use crate::plan::in_flight::Key;
use crate::plan::outcome::{ApiError, Direction, RpcError};
use crate::plan::reactor::{Answered, Failed, Notice, Step};
use crate::plan::{self, Attacher, fairness};

/// The attacher, driven.
pub type Engine = engine::Engine<Attacher, Executor>;

/// What steps are carried out with.
pub struct Executor {
    /// What decisions look at.
    pub informers: Informers,
    /// The driver.
    pub driver: Arc<DriverView>,
    /// Where lasting failures are made known.
    pub failure_events: FailureEvents,
    api: Api,
}

/// An attacher with empty caches.
///
/// # Errors
/// When the metrics refuse the queues' names, which they do for no text.
pub fn engine(
    driver: &Arc<DriverView>,
    api: Api,
    pacing: Pacing,
    metrics: &Metrics,
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
            informers: Informers::new(engine, Arc::clone(driver)),
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

    async fn execute(&self, step: &mut Step) -> Answered {
        let answer = match step {
            Step::Read(name) => return answered(self.read(name).await),
            Step::PatchAttachment(of, patch) => {
                return answered(self.patch(of, Part::Main, patch).await.map(Some));
            }
            Step::PatchStatus(of, patch) => {
                return answered(self.patch(of, Part::Status, patch).await.map(Some));
            }
            Step::ReadVolume(name) => match self.read_volume(name).await {
                Ok(()) => Answer::Written,
                Err(error) => Answer::Refused(error),
            },
            Step::PatchVolume(volume, patch) => match self.patch_volume(volume, patch).await {
                Ok(()) => Answer::Written,
                Err(error) => Answer::Refused(error),
            },
            Step::LoadSecret(reference) => self.secret(reference).await,
            Step::Publish(request, migrated) => {
                let send = async |channel, request| {
                    let mut client = ControllerClient::new(channel);
                    client.controller_publish_volume(request).await
                };
                let answer = |answer: ControllerPublishVolumeResponse| {
                    Answer::Published(answer.publish_context)
                };
                return self
                    .ask(migrated.mark((**request).clone()), send, answer)
                    .await;
            }
            Step::Unpublish(request, migrated) => {
                let send = async |channel, request| {
                    let mut client = ControllerClient::new(channel);
                    client.controller_unpublish_volume(request).await
                };
                let request = migrated.mark((**request).clone());
                return self.ask(request, send, |_| Answer::Unpublished).await;
            }
        };
        answer.into()
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
        match (failed, key) {
            (Failed::Unread(failure), Key::Attachment(name)) => {
                let attachment = &**name;
                tracing::error!(attachment, retry_after = ?wait, err = %failure, "Error processing");
            }
            (Failed::Attachment(attachment, volume, failure), _) => {
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
            (Failed::Orphan(failure), Key::Orphan(target)) => tracing::error!(
                volume_handle = &*target.volume,
                node_id = &*target.node,
                retry_after = ?wait,
                err = %failure,
                "Cannot detach the volume of a VolumeAttachment that is gone"
            ),
            (Failed::Volume(error), Key::Volume(name)) => tracing::error!(
                volume = &**name,
                retry_after = ?wait,
                err = %error,
                "Failed to remove finalizer from PersistentVolume"
            ),
            // No key fails as one of another kind.
            (Failed::Unread(_) | Failed::Orphan(_) | Failed::Volume(_), _) => {}
        }
    }
}

impl Executor {
    /// Reads a volume into the cache.
    async fn read_volume(&self, name: &Text) -> Result<(), ApiError> {
        let (volumes, key) = (&self.informers.volumes, key(None, name)?);
        let read = volumes.read_from(&self.api, &VOLUMES, &key);
        read.await.map(drop)
    }

    /// Patches a volume and takes the result into the cache.
    async fn patch_volume(&self, volume: &Text, patch: &Value) -> Result<(), ApiError> {
        let (key, patch) = (key(None, volume)?, Patch::Json(patch.clone()));
        let volumes = &self.informers.volumes;
        let patched = volumes.patch_at(&self.api, &VOLUMES, &key, (Part::Main, &patch));
        patched.await.map(drop)
    }

    /// Patches the attachment and returns the answer, which the cache may not take: the patch that
    /// removes the last finalizer is answered with an object that is gone.
    async fn patch(
        &self,
        of: &Attachment,
        part: Part,
        patch: &Value,
    ) -> Result<Arc<Attachment>, ApiError> {
        let key = key(None, &of.name)?;
        let own = self.informers.attachments.begin_write(&key);
        // The next attachment of the volume to the node has the same name.
        let patch = Patch::Merge(patch.clone()).only_for(&of.uid);
        let json = self.api.patch(&ATTACHMENTS, &key, part, &patch).await?;
        let wire =
            serde_json::from_str(json.get()).map_err(|error| ApiError::unreadable(&error))?;
        let answered = Attachment::from_wire(wire, &self.informers.strings)
            .ok_or_else(|| ApiError::unreadable(&"no VolumeAttachment"))?;
        own.take(json.get())?;
        Ok(Arc::new(answered))
    }

    /// Reads the attachment into the cache. What the cache has then, if anything.
    async fn read(&self, name: &Text) -> Result<Option<Arc<Attachment>>, ApiError> {
        let (attachments, key) = (&self.informers.attachments, key(None, name)?);
        let read = attachments.read_from(&self.api, &ATTACHMENTS, &key);
        read.await
    }

    async fn secret(&self, reference: &SecretRef) -> Answer {
        match self.api.secret_texts(reference).await {
            Ok(values) => Answer::Secret(values),
            Err(SecretError::Unread(error)) => Answer::Refused(error),
            Err(SecretError::NotText) => Answer::SecretNotText,
        }
    }

    /// Calls the driver. The wait for one that restarts is no part of what the call took.
    async fn ask<M, T>(
        &self,
        request: Request<M>,
        send: impl AsyncFnOnce(Channel, Request<M>) -> Result<Response<T>, Status>,
        answer: impl FnOnce(T) -> Answer,
    ) -> Answered {
        let channel = match self.driver.channel().await {
            Ok(channel) => channel,
            Err(error) => return Answer::Unreachable(error).into(),
        };
        let started = Instant::now();
        let send = async |request| send(channel, request).await;
        let answer = match call_with(self.driver.timeout(), request, send).await {
            Ok(answered) => answer(answered),
            Err(status) => Answer::Failed(RpcError::from(&status)),
        };
        Answered {
            took: started.elapsed(),
            ..answer.into()
        }
    }
}

fn answered(result: Result<Option<Arc<Attachment>>, ApiError>) -> Answered {
    match result {
        Ok(attachment) => Answered {
            attachment,
            ..Answer::Written.into()
        },
        Err(error) => Answer::Refused(error).into(),
    }
}
