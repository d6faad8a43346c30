//! The single steps of an attempt, each one request or one call.

use std::sync::Arc;

use csi_proto::csi::controller_client::ControllerClient;
use csi_proto::csi::{ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest};
use jiff::Timestamp;
use serde_json::Value;
use sidecar::csi::{Channel, Migrated, call_with};
use sidecar::error::Chain;
use sidecar::kube::cache::Record;
use sidecar::kube::key::Key;
use sidecar::kube::patch::{Part, Patch};
use sidecar::verbose;
use tokio::time::Instant;

use super::api::{self, ATTACHMENTS, VOLUMES};
use super::attachment::Attacher;
use crate::model::{Attachment, Text};
use crate::plan::attachment::{Answer, Attempt, Step};
use crate::plan::flight::Target;
use crate::plan::memory::{Item, Waiter};
use crate::plan::outcome::{ApiError, Direction, Failure, RpcError};
use crate::plan::wake::End;
use crate::plan::{Driver, trivial};

/// An attempt and the newest that it knows of its object.
pub(super) struct Run {
    pub(super) attempt: Attempt,
    pub(super) current: Arc<Attachment>,
}

/// What came of a step.
pub(super) enum Carried {
    /// Decide again.
    On,
    /// The attempt is over.
    Ended(End),
    /// The attempt is over, and this is to be recorded.
    Failed(Failure),
}

impl Attacher {
    pub(super) async fn carry_out(&self, run: &mut Run, step: Step) -> Carried {
        let answer = match &step {
            Step::Done => return Carried::Ended(End::Done),
            Step::Again => return Carried::Ended(End::Again),
            Step::Fail(failure) => return Carried::Failed(failure.clone()),
            Step::Protect(volume, patch) => match self.protect(run, volume, patch).await {
                Some(answer) => answer,
                None => return Carried::Ended(End::Waits),
            },
            Step::LoadSecret(reference) => api::secret(&self.api, reference).await,
            Step::Prepare(patch) | Step::Release(patch) => {
                written(self.patch(run, Part::Main, patch).await)
            }
            Step::MarkAttached(patch) | Step::MarkDetached(patch) => {
                written(self.patch(run, Part::Status, patch).await)
            }
            Step::Publish(request, migrated) => {
                let target = target(&request.volume_id, &request.node_id);
                match self.take_off(run, &target) {
                    true => self.land(&target, self.publish(request, *migrated).await),
                    false => return Carried::Ended(End::Waits),
                }
            }
            Step::Unpublish(request, migrated) => {
                let target = target(&request.volume_id, &request.node_id);
                match self.take_off(run, &target) {
                    true => self.land(&target, self.unpublish(request, *migrated).await),
                    false => return Carried::Ended(End::Waits),
                }
            }
        };
        match run.attempt.fold(&step, answer) {
            Ok(()) => {
                let driver = self.driver.current();
                self.cluster.memory().took(&step, &run.current, &driver);
                Carried::On
            }
            Err(failure) => Carried::Failed(failure),
        }
    }

    /// Adds the volume's finalizer; `None` while another patch of the volume is under way, whose
    /// end brings this attempt back.
    async fn protect(&self, run: &Run, volume: &Text, patch: &Value) -> Option<Answer> {
        let waiter = Waiter::Attachment(run.current.name.clone());
        if !self.cluster.memory().patches.begin(volume, waiter) {
            return None;
        }
        let result = self.patch_volume(volume, patch).await;
        self.cluster.volume_patched(volume);
        Some(written(result))
    }

    /// Patches a volume and takes the result into the cache.
    pub(super) async fn patch_volume(&self, volume: &Text, patch: &Value) -> Result<(), ApiError> {
        let key = key(volume)?;
        let own = self.cluster.volumes.begin_write(&key);
        let patch = Patch::Json(patch.clone());
        let json = self.api.patch(&VOLUMES, &key, Part::Main, &patch).await?;
        let taken = own.answered(json.get());
        taken.map(drop).map_err(|error| unreadable(&Chain(&error)))
    }

    /// Patches the attachment and goes on with the answer, which the cache may not take: the patch
    /// that removes the last finalizer is answered with an object that is gone.
    async fn patch(&self, run: &mut Run, part: Part, patch: &Value) -> Result<(), ApiError> {
        let key = key(&run.current.name)?;
        let own = self.cluster.attachments.begin_write(&key);
        // The next attachment of the volume to the node has the same name.
        let patch = Patch::Merge(patch.clone()).only_for(&run.current.uid);
        let json = self.api.patch(&ATTACHMENTS, &key, part, &patch).await?;
        let answered = self.read(json.get())?;
        if answered.version == 0 || answered.version >= run.current.version {
            let mut memory = self.cluster.memory();
            memory.works_on(&answered.name, answered.volume.as_ref());
            drop(memory);
            run.current = Arc::new(answered);
        }
        let taken = own.answered(json.get());
        taken.map(drop).map_err(|error| unreadable(&Chain(&error)))
    }

    fn read(&self, json: &str) -> Result<Attachment, ApiError> {
        let wire = serde_json::from_str(json).map_err(|error| unreadable(&error))?;
        Attachment::from_wire(wire, &self.cluster.strings)
            .ok_or_else(|| unreadable(&"no VolumeAttachment"))
    }

    /// After a write of which nobody knows whether it was applied: reads the attachment before
    /// anything else is done. Whether there is something to work on.
    pub(super) async fn read_again(&self, name: &Text) -> Result<bool, ApiError> {
        let key = key(name)?;
        let own = self.cluster.attachments.begin_write(&key);
        match self.api.get(&ATTACHMENTS, &key).await {
            Ok(json) => match own.answered(&json) {
                Ok(found) => Ok(found.is_some()),
                Err(error) => Err(unreadable(&Chain(&error))),
            },
            // Its deletion is on the way as an event.
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn take_off(&self, run: &Run, target: &Target) -> bool {
        let item = Item::Attachment(run.current.name.clone());
        self.cluster.memory().calls.begin(target, item)
    }

    /// A call ended: who waited for that goes on.
    pub(super) fn land<T>(&self, target: &Target, answer: T) -> T {
        let waiting = self.cluster.memory().calls.end(target);
        self.cluster.wake_all(waiting);
        answer
    }

    async fn publish(
        &self,
        request: &ControllerPublishVolumeRequest,
        migrated: Migrated,
    ) -> Answer {
        let send = async |channel: Channel| {
            let mut client = ControllerClient::new(channel);
            let request = migrated.mark(request.clone());
            call_with(self.driver.timeout(), request, async |request| {
                client.controller_publish_volume(request).await
            })
            .await
        };
        match self.driver.channel().await {
            Err(error) => Answer::Away(error),
            Ok(channel) => match self.timed(Direction::Attach, send(channel)).await {
                Ok(answer) => Answer::Published(answer.publish_context),
                Err(status) => Answer::Failed(RpcError::from(&status)),
            },
        }
    }

    pub(super) async fn unpublish(
        &self,
        request: &ControllerUnpublishVolumeRequest,
        migrated: Migrated,
    ) -> Answer {
        let send = async |channel: Channel| {
            let mut client = ControllerClient::new(channel);
            let request = migrated.mark(request.clone());
            call_with(self.driver.timeout(), request, async |request| {
                client.controller_unpublish_volume(request).await
            })
            .await
        };
        match self.driver.channel().await {
            Err(error) => Answer::Away(error),
            Ok(channel) => match self.timed(Direction::Detach, send(channel)).await {
                Ok(_) => Answer::Unpublished,
                Err(status) => Answer::Failed(RpcError::from(&status)),
            },
        }
    }

    /// Makes a call, and remembers how long a successful one took.
    async fn timed<T, E>(
        &self,
        direction: Direction,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let started = Instant::now();
        let result = call.await;
        if result.is_ok() {
            self.observe(direction, started.elapsed());
        }
        result
    }

    /// Records a failure on the object, as far as that is possible; the failure itself decides
    /// about the retry.
    pub(super) async fn record_failure(&self, run: &mut Run, failure: &Failure, driver: &Driver) {
        let time = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let direction = run.attempt.direction();
        let Some(patch) = failure.status_patch(&run.current, direction, driver, &time) else {
            return;
        };
        if let Err(error) = self.patch(run, Part::Status, &patch).await {
            let attachment = &*run.current.name;
            verbose!(2, attachment, err = %error, "Failed to save the error to VolumeAttachment");
        }
    }

    /// For a driver that has nothing to publish.
    pub(super) async fn mark_trivial(&self, run: &mut Run) -> End {
        let Some(patch) = trivial::decide(&run.current) else {
            return End::Done;
        };
        match self.patch(run, Part::Status, &patch).await {
            Ok(()) => End::Done,
            Err(error) if error.not_found => End::Done,
            Err(error) => End::Failed(Failure::MarkTrivial(error)),
        }
    }
}

fn target(volume: &str, node: &str) -> Target {
    Target {
        volume: volume.into(),
        node: node.into(),
    }
}

fn written(result: Result<(), ApiError>) -> Answer {
    match result {
        Ok(()) => Answer::Written,
        Err(error) => Answer::Refused(error),
    }
}

fn key(name: &Text) -> Result<Key, ApiError> {
    Key::new(None, name).ok_or_else(|| ApiError {
        message: format!("{name:?} is no object name"),
        not_found: false,
        unknown: false,
    })
}

/// The write was applied, but what is there now is not known.
fn unreadable(error: &dyn std::fmt::Display) -> ApiError {
    ApiError {
        message: format!("the API server's answer cannot be read: {error}"),
        not_found: false,
        unknown: true,
    }
}
