//! Attempts on PersistentVolumes: from the queue, step by step, back to the queue.
//!
//! Decisions are [`delete`](crate::plan::delete)'s. What is left here is to see what the caches say,
//! have the step carried out, and tell queue, events and metrics how it ended.

use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi::DeleteVolumeRequest;
use csi_proto::csi::controller_client::ControllerClient;
use serde_json::Value;
use sidecar::csi::{Deadline, Migrated, call_with};
use sidecar::kube::api;
use sidecar::kube::cache::OwnWrite;
use sidecar::kube::key::Key;
use sidecar::kube::patch::{Part, Patch};
use sidecar::queue::Work;
use sidecar::verbose;
use tokio::time::Instant;

use super::api::{VOLUMES, key};
use super::provisioner::{Provisioner, SecretError};
use crate::model::{Text, Volume};
use crate::plan::delete::{Answer, Attempt, Failure, Refresh, Step, View};
use crate::plan::outcome::{ApiError, RpcError};

/// How an attempt ended.
enum End {
    /// Nothing is left to do.
    Done,
    /// It is to be retried.
    Failed(Failure),
}

/// An attempt and the newest that it knows of its object.
struct Run {
    name: Text,
    attempt: Attempt,
    current: Arc<Volume>,
    /// The driver has deleted the volume during this attempt.
    deleted: bool,
}

impl Provisioner {
    /// Works on volumes until the queue is shut down, then waits for what still runs.
    pub async fn serve_volumes(self: &Arc<Self>) {
        let serve = self.cluster.volume_queue.serve(|work| {
            let this = Arc::clone(self);
            async move { this.work_on_volume(work).await }
        });
        serve.await;
    }

    async fn work_on_volume(&self, work: Work<Text>) {
        let name = work.key().clone();
        let Some(current) = self.cluster.volumes.get(&name) else {
            return work.done();
        };
        if self.is_behind(&name, &current) {
            return work.done();
        }
        let started = Instant::now();
        let attempt = Attempt::new(&current);
        let mut run = Run {
            name,
            attempt,
            current,
            deleted: false,
        };
        let end = self.end_volume(&mut run).await;
        self.close_volume(work, &run, end, started.elapsed());
    }

    /// Whether this process has removed the volume, and the cache has not heard of it yet.
    fn is_behind(&self, name: &Text, current: &Volume) -> bool {
        let uid = uid(current);
        uid.is_some_and(|uid| self.cluster.memory().has_removed(name, uid))
    }

    fn close_volume(&self, work: Work<Text>, run: &Run, end: End, took: Duration) {
        let class = label(&run.current);
        match end {
            End::Done => {
                if run.deleted {
                    self.metrics.deleted(class, took);
                    tracing::info!(volume = &*run.name, "Volume deleted");
                    self.note_removed(run);
                    self.room_freed(&run.current);
                }
                match run.attempt.is_to_follow(&run.current) {
                    // Not at once: an answer may be ahead of what is known of attachments.
                    true => _ = work.retry(),
                    false => work.done(),
                }
            }
            End::Failed(failure) => {
                if failure.is_counted() {
                    self.metrics.not_deleted(class);
                }
                if failure.is_event() {
                    self.news.volume_failed(&run.name, &run.current, &failure);
                }
                if matches!(failure, Failure::AttachmentsMissed) {
                    self.cluster.wait_for_attachments(&run.name);
                }
                let wait = work.retry();
                let volume = &*run.name;
                tracing::error!(volume, retry_after = ?wait, err = %failure, "Volume deletion failed");
            }
        }
    }

    fn note_removed(&self, run: &Run) {
        let Some(uid) = uid(&run.current) else {
            return;
        };
        self.cluster.memory().removed(&run.name, uid);
        // The watch may have been faster, also while this was noted.
        if self.cluster.volumes.get(&run.name).is_none() {
            self.cluster.memory().volume_gone(&run.name);
        }
    }

    /// There is more room where the volume was.
    fn room_freed(&self, volume: &Volume) {
        if let Some(capacity) = self.cluster.capacity.get()
            && let Volume::Ending(detail) = volume
        {
            capacity.deleted(detail.affinity.as_deref());
        }
    }

    /// Steps until there is none.
    async fn end_volume(&self, run: &mut Run) -> End {
        loop {
            let cached = self.cluster.volumes.get(&run.name);
            match (run.attempt.refresh(&run.current, cached.as_deref()), cached) {
                (Refresh::Take, Some(cached)) => run.current = cached,
                (Refresh::Gone, _) => return End::Done,
                (Refresh::Keep, _) | (Refresh::Take, None) => {}
            }
            let step = self.decide_volume(run);
            let answer = match &step {
                Step::Done => return End::Done,
                Step::Ignored => {
                    verbose!(3, volume = &*run.name, "The volume is another node's");
                    return End::Done;
                }
                Step::Fail(failure) => return End::Failed(failure.clone()),
                Step::Upkeep(patch) | Step::Release(patch) => {
                    written(self.patch_volume(run, patch).await)
                }
                Step::Remove { uid } => written(self.remove_volume(run, uid).await),
                Step::LoadSecret(reference) => match self.secret(reference).await {
                    Ok(values) => Answer::Secret(values),
                    Err(SecretError::NotText) => Answer::SecretNotText,
                    Err(SecretError::Unread(error)) => {
                        let volume = &*run.name;
                        tracing::error!(volume, err = %error, "Failed to get the secret, deleting without");
                        Answer::Refused(error)
                    }
                },
                Step::Delete(request, migrated) => match self.delete(request, *migrated).await {
                    Ok(()) => {
                        run.deleted = true;
                        Answer::Deleted
                    }
                    Err(error) => Answer::Failed(error),
                },
            };
            if let Err(failure) = run.attempt.fold(&step, answer) {
                return End::Failed(failure);
            }
        }
    }

    /// Looks and decides, in one go.
    fn decide_volume(&self, run: &Run) -> Step {
        let class = self.cluster.classes.get(class(&run.current));
        // In this order: a list that ends in between shows what was missed to neither otherwise.
        let attachments_missed = self.cluster.misses_attachments();
        let attached_to = self.cluster.attached_to(&run.name);
        run.attempt.decide(&View {
            driver: &self.driver.current(),
            volume: &run.current,
            class: class.as_deref(),
            attached_to: attached_to.as_ref(),
            attachments_missed,
            node: self.node.as_ref(),
        })
    }

    async fn patch_volume(&self, run: &mut Run, patch: &Value) -> Result<(), ApiError> {
        let key = key(None, &run.name)?;
        let own = self.cluster.volumes.begin_write(&key);
        let mut patch = Patch::Strategic(patch.clone());
        // Of a volume that nothing is to become of, no more is known than its name.
        if let Some(uid) = uid(&run.current) {
            patch = patch.only_for(uid);
        }
        let json = self.api.patch(&VOLUMES, &key, Part::Main, &patch).await?;
        self.take(run, &key, own, json.get())
    }

    async fn remove_volume(&self, run: &mut Run, uid: &str) -> Result<(), ApiError> {
        let key = key(None, &run.name)?;
        let own = self.cluster.volumes.begin_write(&key);
        let json = self.api.delete(&VOLUMES, &key, Some(uid)).await?;
        self.take(run, &key, own, &json)
    }

    /// Goes on with the answer to a write. The last write is answered with an object that is gone,
    /// which the cache must not keep: the watch tells it.
    fn take(
        &self,
        run: &mut Run,
        key: &Key,
        own: OwnWrite<Volume>,
        json: &str,
    ) -> Result<(), ApiError> {
        let answered = self.cluster.read_volume(key, json);
        let answered = answered.map_err(|error| api::ApiError::unreadable(&error))?;
        let Some(answered) = answered else {
            return Ok(());
        };
        let gone = answered.deleting && answered.finalizers.is_empty();
        let version = answered.version;
        let record = answered.keep();
        run.current = Arc::new(record.clone());
        if !gone {
            own.answered_with(Some(record), version);
        }
        Ok(())
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

fn uid(volume: &Volume) -> Option<&Text> {
    match volume {
        Volume::Ending(detail) => Some(&detail.uid),
        Volume::Quiet | Volume::Finalizer(..) => None,
    }
}

fn class(volume: &Volume) -> &str {
    match volume {
        Volume::Ending(detail) => &detail.class,
        Volume::Quiet | Volume::Finalizer(..) => "",
    }
}

/// Label of the metrics.
fn label(volume: &Volume) -> &str {
    match volume {
        Volume::Ending(detail) => &detail.class_field,
        Volume::Quiet | Volume::Finalizer(..) => "",
    }
}

fn written(result: Result<(), ApiError>) -> Answer {
    match result {
        Ok(()) => Answer::Written,
        Err(error) => Answer::Refused(error),
    }
}
