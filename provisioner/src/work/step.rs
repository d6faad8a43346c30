//! The single steps of an attempt for a claim, each one request or one call.

use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi::controller_client::ControllerClient;
use csi_proto::csi::{CreateVolumeRequest, DeleteVolumeRequest};
use serde::Deserialize;
use sidecar::csi::{Channel, Deadline, Migrated, call_with};
use sidecar::error::Chain;
use sidecar::kube::api::SecretError;
use sidecar::kube::cache::Record;
use sidecar::kube::events::Severity;
use sidecar::kube::key::Key;
use sidecar::kube::reflect::Resource;
use sidecar::verbose;
use tonic::Code;

use super::api::{
    ATTRIBUTES_CLASSES, CLAIMS, CONTENTS, SNAPSHOTS, VOLUMES, edit as edit_object, key,
};
use super::executor::Executor;
use super::record::{ClaimWire, read_claim, read_volume};
use crate::model::{Claim, SecretRef, Text, Volume, VolumeDetail};
use crate::plan::claim::{Announcement, Answer, Step};
use crate::plan::edit::{Applied, Edit, Kind};
use crate::plan::identity::Identity;
use crate::plan::in_flight::Unsaved;
use crate::plan::journal::Intent;
use crate::plan::outcome::{ApiError, Refusal, RpcError};

/// How often the deletion of a volume that nobody can use is tried.
const DISCARD_TRIES: u32 = 5;
/// How long a claim whose update met another one is left alone before the next of its four rounds. The
/// scheduler and kube-controller-manager write pending claims all the time, and as long as the node stays
/// selected the driver is asked for a volume there.
const UNSELECT_PAUSES: [Duration; 3] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(250),
];

impl Executor {
    /// Carries out a step for `claim`.
    ///
    /// A request is taken out of its step: with thousands of places in it, a copy would cost as much as
    /// making it.
    pub(super) async fn for_claim(
        &self,
        step: &mut Step,
        claim: &Arc<Claim>,
        intent: Option<&Intent>,
    ) -> Answer {
        match step {
            // These are no requests.
            Step::Done(_) | Step::Fail(_) => Answer::Done,
            Step::Announce(announcement) => {
                self.announce(claim, announcement);
                Answer::Done
            }
            Step::ProtectSource(edit) | Step::ReleaseSource(edit) => {
                let result = self.edit(edit).await;
                if let Err(error) = &result {
                    let (namespace, name) = (&*edit.namespace, &*edit.name);
                    verbose!(2, namespace, name, err = %error, "Could not change the finalizers of a data source");
                }
                done(result)
            }
            Step::Intend(_) => self.intend(claim, intent).await,
            Step::Unselect(edit, _) => done(self.unselect(edit).await),
            Step::Create(prepared, request) => {
                let migrated = Migrated(prepared.blueprint.is_in_tree());
                self.create(claim, std::mem::take(request), migrated).await
            }
            Step::Discard(request, migrated) => {
                self.discard(claim, intent, (request, *migrated)).await
            }
            Step::Save(unsaved) => done(self.save(unsaved).await),
            Step::LoadSecret(reference) => self.load_secret(reference).await,
            Step::LoadSnapshot(namespace, name) => loaded(self.snapshot(namespace, name).await),
            Step::LoadContent(name) => loaded(self.content(name).await),
            Step::LoadSourceClaim(namespace, name) => {
                loaded(self.source_claim(namespace, name).await)
            }
            Step::LoadOwner(namespace, name) => loaded(self.owner(namespace, name).await),
            Step::LoadNamesake(name, volume) => loaded(self.namesake(name, volume.as_ref()).await),
            Step::LoadSourceVolume(name) => loaded(self.persistent_volume(name).await),
            Step::LoadAttributesClass(name) => loaded(self.attributes_class(name).await),
        }
    }

    fn announce(&self, claim: &Claim, announcement: &Announcement) {
        let text = announcement.text(claim);
        match announcement {
            Announcement::Provisioning | Announcement::Left(_) => {
                self.events
                    .claim(claim, Severity::Normal, "Provisioning", &text);
            }
            Announcement::Populator => self.events.left_to_populator(claim, &text),
            Announcement::Succeeded(_) => {
                self.events
                    .claim(claim, Severity::Normal, "ProvisioningSucceeded", &text);
            }
        }
    }

    async fn snapshot(&self, namespace: &str, name: &str) -> Result<Answer, ApiError> {
        let json = self.get(&SNAPSHOTS, Some(namespace), name).await?;
        Ok(Answer::Snapshot(Box::new(self.record(&json)?)))
    }

    async fn content(&self, name: &str) -> Result<Answer, ApiError> {
        let json = self.get(&CONTENTS, None, name).await?;
        Ok(Answer::Content(Box::new(self.record(&json)?)))
    }

    pub(super) async fn attributes_class(&self, name: &str) -> Result<Answer, ApiError> {
        let json = self.get(&ATTRIBUTES_CLASSES, None, name).await?;
        Ok(Answer::AttributesClass(Box::new(self.record(&json)?)))
    }

    async fn source_claim(&self, namespace: &str, name: &str) -> Result<Answer, ApiError> {
        let json = self.get(&CLAIMS, Some(namespace), name).await?;
        let claim = read_claim(wire(&json)?, &self.informers.strings);
        Ok(Answer::SourceClaim(Box::new(claim)))
    }

    /// Bound claims are not cached. Uses LIST, which the watch already requires.
    async fn owner(&self, namespace: &str, name: &str) -> Result<Answer, ApiError> {
        #[derive(Deserialize)]
        struct List<'a> {
            #[serde(borrow)]
            items: Vec<ClaimWire<'a>>,
        }
        let key = key(Some(namespace), name)?;
        let path = format!(
            "/api/v1/namespaces/{namespace}/persistentvolumeclaims?fieldSelector=metadata.name%3D{name}"
        );
        let json = self.api.read(&path).await?;
        let List { items } = wire(&json)?;
        let claim = items.into_iter().next().ok_or_else(|| another(&key))?;
        let claim = read_claim(claim, &self.informers.strings);
        Ok(Answer::SourceClaim(Box::new(claim)))
    }

    async fn persistent_volume(&self, name: &str) -> Result<Answer, ApiError> {
        let volume = self.volume(name).await?;
        Ok(Answer::PersistentVolume(Box::new(volume)))
    }

    async fn volume(&self, name: &str) -> Result<VolumeDetail, ApiError> {
        let json = self.get(&VOLUMES, None, name).await?;
        Ok(read_volume(wire(&json)?, &self.informers.strings))
    }

    /// The PersistentVolume of `volume`, whatever its name, or else the one that is called `name`. Caches
    /// keep no handles, and this is asked once in a long while.
    ///
    /// The cache takes in what has the name: whoever saved it may not have been heard, and until the watch
    /// tells it the claim would look as if it needed a volume.
    async fn namesake(&self, name: &Text, volume: Option<&Identity>) -> Result<Answer, ApiError> {
        let key = key(None, name)?;
        let own = self.informers.volumes.begin_write(&key);
        let found = match volume {
            Some(volume) => self.holder(volume).await?,
            None => None,
        };
        let found = match found {
            Some(found) => found,
            None => self.volume(name).await?,
        };
        // One that is to be deleted is not taken in: what its attachments are this process learns from a
        // watch that may be behind this answer.
        let kept = found.clone().keep();
        if found.name == *name && !found.deleting && !matches!(kept, Volume::Deletable(_)) {
            own.answered_with(Some(kept), found.version);
        }
        Ok(Answer::PersistentVolume(Box::new(found)))
    }

    fn record<R: Record>(&self, json: &str) -> Result<R, ApiError> {
        let record = R::from_wire(wire(json)?, &self.informers.strings);
        record.ok_or_else(|| ApiError::unreadable(&"it is about something else"))
    }

    async fn get(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<String, ApiError> {
        self.api.get(resource, &key(namespace, name)?).await
    }

    async fn load_secret(&self, reference: &SecretRef) -> Answer {
        match self.api.secret_texts(reference).await {
            Ok(values) => Answer::Secret(values),
            Err(SecretError::Unread(error)) => Answer::Refused(error),
            Err(SecretError::NotText) => Answer::SecretNotText,
        }
    }

    /// Takes the selected node off a claim, again where another update came between.
    async fn unselect(&self, edit: &Edit) -> Result<Applied, ApiError> {
        for pause in UNSELECT_PAUSES {
            match self.edit(edit).await {
                Err(error) if error.is_conflict() => tokio::time::sleep(pause).await,
                result => return result,
            }
        }
        self.edit(edit).await
    }

    /// Changes an object as it is now.
    pub(super) async fn edit(&self, edit: &Edit) -> Result<Applied, ApiError> {
        let resource = match edit.kind {
            Kind::Claim => &CLAIMS,
            Kind::Snapshot => &SNAPSHOTS,
        };
        let key = key(Some(&edit.namespace), &edit.name)?;
        let own = (edit.kind == Kind::Claim).then(|| self.informers.claims.begin_write(&key));
        let mut applied = Applied::Another;
        let written = edit_object(&self.api, resource, &key, |object| {
            applied = edit.apply(object);
            applied == Applied::Changed
        });
        let object = written.await?;
        if applied == Applied::Another {
            return Err(another(&key));
        }
        if let Some(own) = own
            && !is_gone(&object)
        {
            own.take(&object)?;
        }
        Ok(applied)
    }

    async fn create(
        &self,
        claim: &Claim,
        request: Box<CreateVolumeRequest>,
        migrated: Migrated,
    ) -> Answer {
        let send = async |channel: Channel| {
            let mut client = ControllerClient::new(channel);
            let request = migrated.mark(*request);
            call_with(self.driver.timeout(), request, async |request| {
                client.create_volume(request).await
            })
            .await
        };
        let channel = match self.driver.channel().await {
            Ok(channel) => channel,
            Err(error) => return Answer::Unreachable(error),
        };
        // The driver was waited for; somebody else may lead by now, and be done with the claim.
        if !self.may_call(claim) {
            return Answer::Unreachable(not_now());
        }
        match send(channel).await {
            Ok(answer) => Answer::Created(Box::new(answer)),
            Err(status) => Answer::Failed(RpcError::from(&status)),
        }
    }

    async fn discard(
        &self,
        claim: &Claim,
        intent: Option<&Intent>,
        (request, migrated): (&DeleteVolumeRequest, Migrated),
    ) -> Answer {
        // Whoever leads now may have saved the volume.
        if intent.is_some() && !matches!(self.intend(claim, intent).await, Answer::Done) {
            return Answer::Unreachable(not_now());
        }
        let deadline = Deadline::after(self.driver.timeout());
        let mut tries = 0;
        loop {
            tries += 1;
            match self.delete_within(deadline, request, migrated).await {
                Ok(()) => return Answer::Done,
                Err(error) if tries == DISCARD_TRIES => return Answer::Failed(error),
                Err(_) => {}
            }
        }
    }

    async fn delete_within(
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

    /// Creates the PersistentVolume.
    async fn save(&self, unsaved: &Unsaved) -> Result<(), ApiError> {
        let key = key(None, &unsaved.name)?;
        let own = self.informers.volumes.begin_write(&key);
        let json = self.api.create(&VOLUMES, None, &*unsaved.object).await?;
        if let Err(error) = own.answered(&json) {
            // It is there; the watch will say what it is.
            let err = Chain(&error);
            verbose!(2, volume = %key, %err, "Cannot decode the response to a write");
        }
        Ok(())
    }
}

/// It is not certain that nobody else leads.
fn not_now() -> RpcError {
    RpcError {
        code: Code::Unavailable,
        message: "not calling the driver until it is certain that no other process leads".into(),
    }
}

fn done<T>(result: Result<T, ApiError>) -> Answer {
    match result {
        Ok(_) => Answer::Done,
        Err(error) => Answer::Refused(error),
    }
}

fn loaded(result: Result<Answer, ApiError>) -> Answer {
    result.unwrap_or_else(Answer::Refused)
}

pub(super) fn wire<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, ApiError> {
    serde_json::from_str(json).map_err(|error| ApiError::unreadable(&error))
}

/// The object that was meant is gone, and another one has its name.
fn another(key: &Key) -> ApiError {
    ApiError {
        message: format!("{key} is another object by now"),
        refusal: Refusal::NotFound,
    }
}

/// Whether a write was the last one: nothing keeps a deleted object any more. The cache must not
/// take it back in.
fn is_gone(json: &str) -> bool {
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        deletion_timestamp: Option<serde::de::IgnoredAny>,
        finalizers: Option<Vec<serde::de::IgnoredAny>>,
    }
    let object: Result<Object, _> = serde_json::from_str(json);
    object.is_ok_and(|object| {
        let Metadata {
            deletion_timestamp,
            finalizers,
        } = object.metadata;
        deletion_timestamp.is_some() && finalizers.is_none_or(|list| list.is_empty())
    })
}
