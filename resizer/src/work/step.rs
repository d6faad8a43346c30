//! The single steps of an attempt, each one request or one call.

use csi_proto::csi::controller_client::ControllerClient;
use csi_proto::csi::{ControllerExpandVolumeRequest, ControllerModifyVolumeRequest};
use serde_json::Value;
use sidecar::csi::{Channel, Migrated, call, call_with};
use sidecar::error::Chain;
use sidecar::kube::api::ApiError;
use sidecar::kube::cache::{Cache, Record};
use sidecar::kube::events::{Reference, Severity};
use sidecar::kube::key::Key;
use sidecar::kube::patch::{Part, Patch};
use sidecar::kube::reflect::Resource;

use super::api::{CLAIMS, VOLUMES, key};
use super::attempt::Resizer;
use crate::model::{SecretRef, Text};
use crate::plan::Task;
use crate::plan::attempt::Attempt;
use crate::plan::outcome::RpcError;
use crate::plan::step::{Announcement, Answer, End, Step};

impl Resizer {
    /// Carries out a step; the last one says how the attempt ended.
    pub(super) async fn carry_out(&self, attempt: &Attempt, step: &Step) -> Result<Answer, End> {
        let task = attempt.task();
        Ok(match step {
            Step::End(end) => return Err(end.clone()),
            Step::Announce(announcement) => {
                self.announce(attempt, announcement);
                Answer::Done
            }
            Step::ReadClaim => done(self.read_claim(task).await),
            Step::ReadVolume(name) => done(self.read_volume(name).await),
            Step::PatchClaim(_, body) => done(self.patch_claim(task, body).await),
            Step::PatchVolume(name, _, body) => done(self.patch_volume(name, body).await),
            Step::LoadSecret(reference) => self.secret(reference).await,
            Step::Expand(request, migrated) => {
                let flight = self.take_off(&request.volume_id, task)?;
                let answer = self.expand(request, *migrated).await;
                self.land(&flight);
                answer
            }
            Step::Modify(_, request) => {
                let flight = self.take_off(&request.volume_id, task)?;
                let answer = self.modify(request).await;
                self.land(&flight);
                answer
            }
        })
    }

    fn announce(&self, attempt: &Attempt, announcement: &Announcement) {
        let task = attempt.task();
        let about = Reference {
            api_version: "v1".into(),
            kind: "PersistentVolumeClaim".into(),
            namespace: task.namespace().to_owned(),
            name: task.name().to_owned(),
            uid: attempt.uid().to_string(),
            ..Reference::default()
        };
        let severity = match announcement.warning {
            true => Severity::Warning,
            false => Severity::Normal,
        };
        let message = announcement.message.clone();
        self.events
            .record(&about, severity, announcement.reason, message);
    }

    async fn read_claim(&self, task: &Task) -> Result<(), ApiError> {
        let key = key(Some(task.namespace()), task.name())?;
        self.read(&CLAIMS, &self.cluster.claims, &key).await
    }

    async fn read_volume(&self, name: &Text) -> Result<(), ApiError> {
        self.read(&VOLUMES, &self.cluster.volumes, &key(None, name)?)
            .await
    }

    async fn patch_claim(&self, task: &Task, body: &Value) -> Result<(), ApiError> {
        let key = key(Some(task.namespace()), task.name())?;
        let cache = &self.cluster.claims;
        self.patch(&CLAIMS, cache, &key, (Part::Status, body)).await
    }

    async fn patch_volume(&self, name: &Text, body: &Value) -> Result<(), ApiError> {
        let key = key(None, name)?;
        let cache = &self.cluster.volumes;
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
            Err(error) => return Answer::Refused(error.into()),
        };
        let texts = { values.into_iter() }.map(|(key, value)| Ok((key, String::from_utf8(value)?)));
        match texts.collect::<Result<_, std::string::FromUtf8Error>>() {
            Ok(texts) => Answer::Secret(texts),
            Err(_) => Answer::SecretNotText,
        }
    }

    /// One call at a time for a volume; the end of the one in flight brings the task back.
    fn take_off(&self, handle: &str, task: &Task) -> Result<Text, End> {
        let handle = Text::from(handle);
        let mut memory = self.cluster.memory();
        let free = memory.calls.begin(&handle, task.clone());
        match free {
            true => Ok(handle),
            false => Err(End::Parked),
        }
    }

    fn land(&self, handle: &Text) {
        let waiting = self.cluster.memory().calls.end(handle);
        self.cluster.wake(waiting);
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
            Err(error) => Answer::Unsent(error),
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
            Err(error) => Answer::Unsent(error),
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
        Err(error) => Answer::Refused(error.into()),
    }
}
