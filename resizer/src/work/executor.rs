//! Carries out the controller's steps, each one request or one call, and logs what it says.

use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi::controller_client::ControllerClient;
use csi_proto::csi::{ControllerExpandVolumeRequest, ControllerModifyVolumeRequest};
use serde_json::Value;
use sidecar::controller::engine::{self, Shell};
use sidecar::csi::{Channel, Migrated, call, call_with};
use sidecar::error::Chain;
use sidecar::kube::api::{Api, ApiError};
use sidecar::kube::cache::{Cache, Record};
use sidecar::kube::events::{Recorder, Reference, Severity};
use sidecar::kube::key::Key;
use sidecar::kube::patch::{Part, Patch};
use sidecar::kube::reflect::Resource;
use sidecar::metrics::RegisterError;
use sidecar::queue::{Config, Metrics, Queue, exponential};
use sidecar::verbose;

use super::api::{CLAIMS, VOLUMES, key};
use super::driver::DriverView;
use super::informers::Informers;
use crate::model::{SecretRef, Text};
use crate::plan::outcome::{Failure, RpcError};
use crate::plan::reactor::{Notice, Request};
use crate::plan::step::{Announcement, Answer, Step};
use crate::plan::{self, Resizer, Settings, Task, fairness};

/// The resizer, driven.
pub type Engine = engine::Engine<Resizer, Executor>;

/// What steps are carried out with.
pub struct Executor {
    /// What decisions look at.
    pub informers: Informers,
    /// The driver.
    pub driver: Arc<DriverView>,
    api: Api,
    /// Where users are told.
    events: Recorder,
}

/// How often and how much at a time is worked.
#[derive(Clone, Copy, Debug)]
pub struct Pacing {
    /// `--workers`
    pub workers: usize,
    /// `--retry-interval-start`
    pub retry_start: Duration,
    /// `--retry-interval-max`
    pub retry_max: Duration,
}

/// A resizer with empty caches.
///
/// # Errors
/// When the metrics refuse the queue's name, which they do for no text.
pub fn engine(
    driver: &Arc<DriverView>,
    (api, events): (Api, Recorder),
    (pacing, settings): (Pacing, &Settings),
    metrics: &Metrics,
) -> Result<Arc<Engine>, RegisterError> {
    let current = driver.current();
    let delay = exponential(pacing.retry_start, pacing.retry_max);
    let queue = Queue::new(Config {
        lanes: fairness::lanes(pacing.workers),
        metrics: Some(metrics.clone()),
        // Under the name that upstream gives both of its queues.
        ..Config::new(format!("{}-pvc", current.name), pacing.workers, delay)
    })?;
    let resizer = Resizer::new(&current, settings);
    Ok(Engine::new(resizer, vec![queue], |engine| Executor {
        informers: Informers::new(engine, Arc::clone(driver)),
        driver: Arc::clone(driver),
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
            Step::Expand(request, migrated) => self.expand(request, *migrated).await,
            Step::Modify(_, request) => self.modify(request).await,
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
        self.read(&CLAIMS, &self.informers.claims, &key).await
    }

    async fn read_volume(&self, name: &Text) -> Result<(), ApiError> {
        self.read(&VOLUMES, &self.informers.volumes, &key(None, name)?)
            .await
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

    /// Reads an object and takes it into the cache, unless that knows better by now.
    async fn read<R: Record>(
        &self,
        resource: &Resource,
        cache: &Cache<R>,
        key: &Key,
    ) -> Result<(), ApiError> {
        let own = cache.begin_write(key);
        let json = self.api.get(resource, key).await?;
        let taken = own.answered(&json);
        taken
            .map(drop)
            .map_err(|error| ApiError::unreadable(&Chain(&error)))
    }

    /// Patches an object and takes the result into the cache.
    async fn patch<R: Record>(
        &self,
        resource: &Resource,
        cache: &Cache<R>,
        key: &Key,
        (part, body): (Part, &Value),
    ) -> Result<(), ApiError> {
        let own = cache.begin_write(key);
        let patch = Patch::Strategic(body.clone());
        let json = self.api.patch(resource, key, part, &patch).await?;
        let taken = own.answered(json.get());
        taken
            .map(drop)
            .map_err(|error| ApiError::unreadable(&Chain(&error)))
    }

    async fn secret(&self, reference: &SecretRef) -> Answer {
        let found = self.api.secret(&reference.namespace, &reference.name);
        let values = match found.await {
            Ok(values) => values,
            Err(error) => return Answer::Refused(error),
        };
        let texts = values
            .into_iter()
            .map(|(key, value)| Ok((key, String::from_utf8(value)?)));
        match texts.collect::<Result<_, std::string::FromUtf8Error>>() {
            Ok(texts) => Answer::Secret(texts),
            Err(_) => Answer::SecretNotText,
        }
    }

    async fn expand(&self, request: &ControllerExpandVolumeRequest, migrated: Migrated) -> Answer {
        let send = async |channel: Channel| {
            let mut client = ControllerClient::new(channel);
            let request = migrated.mark(request.clone());
            call_with(self.driver.timeout(), request, async |request| {
                client.controller_expand_volume(request).await
            })
            .await
        };
        match self.driver.channel().await {
            Err(error) => Answer::Unreachable(error),
            Ok(channel) => match send(channel).await {
                Ok(answer) => Answer::Expanded(answer),
                Err(status) => Answer::Failed(RpcError::from(&status)),
            },
        }
    }

    async fn modify(&self, request: &ControllerModifyVolumeRequest) -> Answer {
        let send = async |channel: Channel| {
            let mut client = ControllerClient::new(channel);
            call(self.driver.timeout(), request.clone(), async |request| {
                client.controller_modify_volume(request).await
            })
            .await
        };
        match self.driver.channel().await {
            Err(error) => Answer::Unreachable(error),
            Ok(channel) => match send(channel).await {
                Ok(_) => Answer::Modified,
                Err(status) => Answer::Failed(RpcError::from(&status)),
            },
        }
    }
}

fn done(result: Result<(), ApiError>) -> Answer {
    match result {
        Ok(()) => Answer::Done,
        Err(error) => Answer::Refused(error),
    }
}
