//! Carries out the controller's steps, each one request or one call, and logs what it says.

use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi::controller_client::ControllerClient;
use csi_proto::csi::group_controller_client::GroupControllerClient;
use serde_json::Value;
use sidecar::controller::engine::{self, Shell};
use sidecar::controller::{CallError, Pacing};
use sidecar::csi::Channel;
use sidecar::kube::api::{Api, ApiError, SecretError};
use sidecar::kube::events::{Recorder, Reference, Severity};
use sidecar::kube::patch::{Part, Patch};
use sidecar::metrics::RegisterError;
use sidecar::queue::{Config, Metrics, Queue};
use sidecar::verbose;
use tonic::{Response, Status};

use super::api::{Resources, key};
use super::driver::DriverView;
use super::informers::Informers;
use crate::model::{Kind, SecretRef, Text};
use crate::plan::reactor::{Notice, Request, Retry};
use crate::plan::step::{Announcement, Answer, Step};
use crate::plan::{self, Settings, Snapshotter};

/// The snapshotter, driven.
pub type Engine = engine::Engine<Snapshotter, Executor>;

/// What steps are carried out with.
pub struct Executor {
    /// What decisions look at.
    pub informers: Informers,
    /// The driver.
    pub driver: Arc<DriverView>,
    /// What is asked for.
    pub resources: Resources,
    api: Api,
    /// Where users are told.
    events: Recorder,
}

/// A snapshotter for contents of this kind, with empty caches.
///
/// # Errors
/// When the metrics refuse the queue's name, which they do for no text.
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
    let snapshotter = Snapshotter::new(settings);
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

    async fn execute(&self, request: &mut Request) -> Answer {
        let content = &request.content;
        match &request.step {
            Step::Read => done(self.read(content).await),
            Step::Patch(_, body) => done(self.patch(content, Part::Main, body).await),
            Step::PatchStatus(_, body) => done(self.patch(content, Part::Status, body).await),
            Step::Announce(announcement) => {
                self.announce(request, announcement);
                Answer::Done
            }
            Step::LoadSecret(_, reference) => self.secret(reference).await,
            Step::Create(wish) => {
                let send = async |channel, wish| {
                    let mut client = ControllerClient::new(channel);
                    client.create_snapshot(wish).await
                };
                self.ask(&**wish, send, Answer::Created).await
            }
            Step::List(wish) => {
                let send = async |channel, wish| {
                    let mut client = ControllerClient::new(channel);
                    client.list_snapshots(wish).await
                };
                self.ask(&**wish, send, Answer::Listed).await
            }
            Step::Get(wish) => {
                let send = async |channel, wish| {
                    let mut client = ControllerClient::new(channel);
                    client.get_snapshot(wish).await
                };
                self.ask(&**wish, send, Answer::Got).await
            }
            Step::Delete(wish) => {
                let send = async |channel, wish| {
                    let mut client = ControllerClient::new(channel);
                    client.delete_snapshot(wish).await
                };
                self.ask(&**wish, send, |_| Answer::Deleted).await
            }
            Step::CreateGroup(wish) => {
                let send = async |channel, wish| {
                    let mut client = GroupControllerClient::new(channel);
                    client.create_volume_group_snapshot(wish).await
                };
                self.ask(&**wish, send, Answer::GroupCreated).await
            }
            Step::GetGroup(wish) => {
                let send = async |channel, wish| {
                    let mut client = GroupControllerClient::new(channel);
                    client.get_volume_group_snapshot(wish).await
                };
                self.ask(&**wish, send, Answer::GroupGot).await
            }
            Step::DeleteGroup(wish) => {
                let send = async |channel, wish| {
                    let mut client = GroupControllerClient::new(channel);
                    client.delete_volume_group_snapshot(wish).await
                };
                self.ask(&**wish, send, |_| Answer::Deleted).await
            }
        }
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

impl Executor {
    fn announce(&self, request: &Request, announcement: &Announcement) {
        let about = Reference {
            api_version: self.resources.api_version.into(),
            kind: self.resources.kind.into(),
            name: request.content.to_string(),
            uid: request.uid.to_string(),
            ..Reference::default()
        };
        let message = announcement.message.clone();
        let reason = announcement.reason;
        self.events
            .record(&about, Severity::Warning, reason, message);
    }

    /// Reads a content and takes it into the cache, unless that knows better by now.
    async fn read(&self, name: &Text) -> Result<(), ApiError> {
        let (contents, key) = (&self.informers.contents, key(None, name)?);
        let read = contents.read_from(&self.api, &self.resources.contents, &key);
        read.await.map(drop)
    }

    /// Patches a content and takes the result into the cache.
    async fn patch(&self, name: &Text, part: Part, body: &Value) -> Result<(), ApiError> {
        let (key, patch) = (key(None, name)?, Patch::Merge(body.clone()));
        let (contents, resource) = (&self.informers.contents, &self.resources.contents);
        let patched = contents.patch_at(&self.api, resource, &key, (part, &patch));
        patched.await.map(drop)
    }

    async fn secret(&self, reference: &SecretRef) -> Answer {
        match self.api.secret_texts(reference).await {
            Ok(values) => Answer::Secret(values),
            Err(SecretError::Unread(error)) => Answer::Refused(error),
            Err(SecretError::NotText) => Answer::SecretNotText,
        }
    }

    async fn ask<M: Clone, T>(
        &self,
        wish: &M,
        send: impl AsyncFnOnce(Channel, tonic::Request<M>) -> Result<Response<T>, Status>,
        answer: impl FnOnce(T) -> Answer,
    ) -> Answer {
        let request = tonic::Request::new(wish.clone());
        match self.driver.call(self.driver.timeout(), request, send).await {
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
