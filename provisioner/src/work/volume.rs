//! The single steps of an attempt on a PersistentVolume, each one request or one call.

use std::sync::Arc;

use csi_proto::csi::DeleteVolumeRequest;
use csi_proto::csi::controller_client::ControllerClient;
use serde_json::Value;
use sidecar::csi::{Deadline, Migrated, call_with};
use sidecar::kube::api::SecretError;
use sidecar::kube::cache::OwnWrite;
use sidecar::kube::key::Key;
use sidecar::kube::patch::{Part, Patch};

use super::api::{VOLUMES, key};
use super::executor::Executor;
use crate::model::{Text, Volume};
use crate::plan::delete::{Answer, Step};
use crate::plan::outcome::{ApiError, RpcError};

impl Executor {
    /// Carries out a step for the PersistentVolume `name`. With the volume, if a write was answered.
    pub(super) async fn for_volume(
        &self,
        step: &Step,
        name: &Text,
        uid: Option<&Text>,
    ) -> (Answer, Option<Arc<Volume>>) {
        let answer = match step {
            // These are no requests.
            Step::Done | Step::Ignored | Step::Fail(_) => Answer::Written,
            Step::FinalizerAction(patch) | Step::Release(patch) => {
                return written(self.patch_volume(name, uid, patch).await);
            }
            Step::Remove { uid } => return written(self.remove_volume(name, uid).await),
            Step::LoadSecret(reference) => match self.api.secret_texts(reference).await {
                Ok(values) => Answer::Secret(values),
                Err(SecretError::NotText) => Answer::SecretNotText,
                Err(SecretError::Unread(error)) => {
                    let volume = &**name;
                    tracing::error!(volume, err = %error, "Failed to get the secret, deleting without");
                    Answer::Refused(error)
                }
            },
            Step::Delete(request, migrated) => match self.delete(request, *migrated).await {
                Ok(()) => Answer::Deleted,
                Err(error) => Answer::Failed(error),
            },
        };
        (answer, None)
    }

    async fn patch_volume(
        &self,
        name: &Text,
        uid: Option<&Text>,
        patch: &Value,
    ) -> Result<Option<Arc<Volume>>, ApiError> {
        let key = key(None, name)?;
        let own = self.informers.volumes.begin_write(&key);
        let mut patch = Patch::Strategic(patch.clone());
        // Of a volume that nothing is to become of, no more is known than its name.
        if let Some(uid) = uid {
            patch = patch.only_for(uid);
        }
        let json = self.api.patch(&VOLUMES, &key, Part::Main, &patch).await?;
        self.take(&key, own, json.get())
    }

    async fn remove_volume(&self, name: &Text, uid: &str) -> Result<Option<Arc<Volume>>, ApiError> {
        let key = key(None, name)?;
        let own = self.informers.volumes.begin_write(&key);
        let json = self.api.delete(&VOLUMES, &key, Some(uid)).await?;
        self.take(&key, own, &json)
    }

    /// What an attempt goes on with: the answer to a write. The last write is answered with an object that
    /// is gone, which the cache must not keep: the watch tells it.
    fn take(
        &self,
        key: &Key,
        own: OwnWrite<Volume>,
        json: &str,
    ) -> Result<Option<Arc<Volume>>, ApiError> {
        let answered = self.informers.read_volume(key, json);
        let answered = answered.map_err(|error| ApiError::unreadable(&error))?;
        let Some(answered) = answered else {
            return Ok(None);
        };
        let gone = answered.deleting && answered.finalizers.is_empty();
        let version = answered.version;
        let record = answered.keep();
        let current = Arc::new(record.clone());
        if !gone {
            own.answered_with(Some(record), version);
        }
        Ok(Some(current))
    }

    async fn delete(
        &self,
        request: &DeleteVolumeRequest,
        migrated: Migrated,
    ) -> Result<(), RpcError> {
        let deadline = Deadline::after(self.driver.timeout());
        self.delete_within(deadline, request, migrated).await
    }

    /// `DeleteVolume`.
    pub(super) async fn delete_within(
        &self,
        deadline: Deadline,
        request: &DeleteVolumeRequest,
        migrated: Migrated,
    ) -> Result<(), RpcError> {
        let channel = self.driver.channel().await?;
        let mut client = ControllerClient::new(channel);
        let request = migrated.mark(request.clone());
        let answer = call_with(deadline, request, async |request| {
            client.delete_volume(request).await
        });
        answer
            .await
            .map(drop)
            .map_err(|status| RpcError::from(&status))
    }
}

fn written(result: Result<Option<Arc<Volume>>, ApiError>) -> (Answer, Option<Arc<Volume>>) {
    match result {
        Ok(current) => (Answer::Written, current),
        Err(error) => (Answer::Refused(error), None),
    }
}
