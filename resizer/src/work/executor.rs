//! Carries out the controller's steps, each one request or one call, and logs what it says.

use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi::controller_client::ControllerClient;
use serde_json::Value;
use sidecar::controller::CallError;
use sidecar::controller::engine::{self, Shell};
use sidecar::csi::Channel;
use sidecar::kube::api::{Api, ApiError, SecretError, key};
use sidecar::kube::cache::{Cache, Record};
use sidecar::kube::events::{Recorder, Reference, Severity};
use sidecar::kube::key::Key;
use sidecar::kube::objects::{CLAIMS, VOLUMES};
use sidecar::kube::patch::{Part, Patch};
use sidecar::kube::reflect::Resource;
use sidecar::metrics::RegisterError;
use sidecar::queue::{self, Metrics, Queue};
use sidecar::verbose;
use tonic::{Request as Call, Response, Status};

use super::driver::DriverView;
use super::informers::Informers;
use crate::args::{Config, Timeouts};
use crate::model::{SecretRef, Text};
use crate::plan::outcome::Failure;
use crate::plan::reactor::{Notice, Request};
use crate::plan::step::{Announcement, Answer, Step};
use crate::plan::{self, Resizer, Task, fairness};

/// The resizer, driven.
pub type Engine = engine::Engine<Resizer, Executor>;

/// What steps are carried out with.
pub struct Executor {
    /// What decisions look at.
    pub informers: Informers,
    /// The driver.
    pub driver: Arc<DriverView>,
    timeouts: Timeouts,
    api: Api,
    /// Where users are told.
    events: Recorder,
}

/// A resizer with empty caches.
///
/// # Errors
/// When the metrics refuse the queue's name, which they do for no text.
pub fn engine(
    driver: &Arc<DriverView>,
    (api, events): (Api, Recorder),
    config: &Config,
    metrics: &Metrics,
) -> Result<Arc<Engine>, RegisterError> {
    let (current, pacing) = (driver.current(), config.pacing);
    let queue = Queue::new(queue::Config {
        lanes: fairness::lanes(pacing.workers),
        metrics: Some(metrics.clone()),
        // Under the name that upstream gives both of its queues.
        ..queue::Config::new(
            format!("{}-pvc", current.name),
            pacing.workers,
            pacing.delay(),
        )
    })?;
    let resizer = Resizer::new(&current, &config.settings);
    Ok(Engine::new(resizer, vec![queue], |engine| Executor {
        informers: Informers::new(engine, Arc::clone(driver)),
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

    async fn execute(&self, request: &mut Request) -> Answer {
        let task = &request.task;
        match &request.step {
            // The controller keeps this to itself.
            Step::End(_) => Answer::Done,
            Step::Announce(announcement) => {
                self.announce(request, announcement);
                Answer::Done
            }
            Step::ReadClaim => done(self.read_claim(task).await),
            Step::ReadVolume(name) => done(self.read_volume(name).await),
            Step::PatchClaim(_, body) => done(self.patch_claim(task, body).await),
            Step::PatchVolume(name, _, body) => done(self.patch_volume(name, body).await),
            Step::LoadSecret(reference) => self.secret(reference).await,
            Step::Expand(request, migrated) => {
                let send = async |channel, request| {
                    let mut client = ControllerClient::new(channel);
                    client.controller_expand_volume(request).await
                };
                let request = migrated.mark((**request).clone());
                self.ask((request, self.timeouts.resize), send, Answer::Expanded)
                    .await
            }
            Step::Modify(_, request) => {
                let send = async |channel, request| {
                    let mut client = ControllerClient::new(channel);
                    client.controller_modify_volume(request).await
                };
                let request = Call::new((**request).clone());
                self.ask((request, self.timeouts.modify), send, |_| Answer::Modified)
                    .await
            }
        }
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

impl Executor {
    fn announce(&self, request: &Request, announcement: &Announcement) {
        let about = Reference {
            api_version: "v1".into(),
            kind: "PersistentVolumeClaim".into(),
            namespace: request.task.namespace().to_owned(),
            name: request.task.name().to_owned(),
            uid: request.uid.to_string(),
            ..Reference::default()
        };
        let severity = if announcement.warning {
            Severity::Warning
        } else {
            Severity::Normal
        };
        let message = announcement.message.clone();
        self.events
            .record(&about, severity, announcement.reason, message);
    }

    async fn read_claim(&self, task: &Task) -> Result<(), ApiError> {
        let key = key(Some(task.namespace()), task.name())?;
        let read = self.informers.claims.read_from(&self.api, &CLAIMS, &key);
        read.await.map(drop)
    }

    async fn read_volume(&self, name: &Text) -> Result<(), ApiError> {
        let (volumes, key) = (&self.informers.volumes, key(None, name)?);
        let read = volumes.read_from(&self.api, &VOLUMES, &key);
        read.await.map(drop)
    }

    async fn patch_claim(&self, task: &Task, body: &Value) -> Result<(), ApiError> {
        let key = key(Some(task.namespace()), task.name())?;
        let cache = &self.informers.claims;
        self.patch(&CLAIMS, cache, &key, (Part::Status, body)).await
    }

    async fn patch_volume(&self, name: &Text, body: &Value) -> Result<(), ApiError> {
        let key = key(None, name)?;
        let cache = &self.informers.volumes;
        self.patch(&VOLUMES, cache, &key, (Part::Main, body)).await
    }

    /// Patches an object and takes the result into the cache.
    async fn patch<R: Record>(
        &self,
        resource: &Resource,
        cache: &Cache<R>,
        key: &Key,
        (part, body): (Part, &Value),
    ) -> Result<(), ApiError> {
        let patch = Patch::Strategic(body.clone());
        let patched = cache.patch_at(&self.api, resource, key, (part, &patch));
        patched.await.map(drop)
    }

    async fn secret(&self, reference: &SecretRef) -> Answer {
        match self.api.secret_texts(reference).await {
            Ok(values) => Answer::Secret(values),
            Err(SecretError::Unread(error)) => Answer::Refused(error),
            Err(SecretError::NotText) => Answer::SecretNotText,
        }
    }

    async fn ask<M, T>(
        &self,
        (request, timeout): (Call<M>, Duration),
        send: impl AsyncFnOnce(Channel, Call<M>) -> Result<Response<T>, Status>,
        answer: impl FnOnce(T) -> Answer,
    ) -> Answer {
        match self.driver.call(timeout, request, send).await {
            Ok(answered) => answer(answered),
            Err(CallError::Unreachable(error)) => Answer::Unreachable(error),
            Err(CallError::Failed(error)) => Answer::Failed(error),
        }
    }
}

fn done(result: Result<(), ApiError>) -> Answer {
    match result {
        Ok(()) => Answer::Done,
        Err(error) => Answer::Refused(error),
    }
}
