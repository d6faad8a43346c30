//! Steps for claims that take more than one request, and calls to the driver for claims.

use std::sync::Arc;

use csi_proto::csi::controller_client::ControllerClient;
use csi_proto::csi::{
    CreateVolumeRequest, CreateVolumeResponse, DeleteVolumeRequest, DeleteVolumeResponse,
};
use serde::Deserialize;
use sidecar::controller::{Call, CallError};
use sidecar::csi::{Deadline, Migrated, call_with};
use sidecar::kube::cache::Record;
use sidecar::kube::events::Severity;
use sidecar::lifecycle::Look;
use sidecar::trace;
use tonic::Code;

use super::api::{VOLUMES, key};
use super::executor::Executor;
use super::record::read_volume;
use crate::model::{Claim, Text, Volume, VolumeDetail};
use crate::plan::claim::{Announcement, ClaimReply, ClaimStep};
use crate::plan::identity::Identity;
use crate::plan::outcome::{ApiError, RpcError};
use crate::plan::request::{Discard, PinnedRequest};

/// How often the deletion of an unusable volume is tried.
const DISCARD_TRIES: u32 = 5;

impl Executor {
    pub(super) async fn for_claim(&self, step: ClaimStep) -> ClaimReply {
        match step {
            ClaimStep::Intend(prepared, intent) => {
                let intending = self.intend(&prepared, intent);
                let intended = trace::step("journal", intending).await;
                ClaimReply::Intended(prepared, intended)
            }
            ClaimStep::LoadExistingPv(name, volume) => {
                let found = self.existing_pv(&name, volume.as_ref()).await;
                ClaimReply::ExistingPv(name, found.map(Box::new))
            }
        }
    }

    pub(super) fn announce(&self, claim: &Claim, announcement: &Announcement) {
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

    /// The PersistentVolume that refers to `volume`, whatever its name, or else the one called `name`. Caches keep no
    /// handles, and this is rarely needed.
    ///
    /// The cache takes in the one called `name`: the write that saved it may have had no answer, and until the watch
    /// reports it the claim would seem to need a volume.
    async fn existing_pv(
        &self,
        name: &Text,
        volume: Option<&Identity>,
    ) -> Result<VolumeDetail, ApiError> {
        let key = key(None, name)?;
        let own = self.informers.volumes.begin_write(&key);
        let found = match volume {
            Some(volume) => self.holder(volume).await?,
            None => None,
        };
        let found = match found {
            Some(found) => found,
            None => {
                let json = self.api.get(&VOLUMES, &key).await?;
                let wire = wire(&json)?;
                // The watch does not report again what is taken in below.
                self.informers.volumes.look(&wire, Look::First);
                read_volume(wire, &self.informers.strings)
            }
        };
        // A volume that has to be deleted is not taken in: this process learns its attachments from a watch that may be
        // behind this reply.
        let kept = found.clone().keep();
        if found.name == *name && !found.deleting && !matches!(kept, Volume::Deletable(_)) {
            own.answered_with(Some(kept), found.version);
        }
        Ok(found)
    }

    pub(super) fn decode<R: Record>(&self, json: &str) -> Result<R, ApiError> {
        let record = R::from_wire(wire(json)?, &self.informers.strings);
        record.ok_or_else(|| ApiError::unreadable(&"it is about something else"))
    }

    /// Takes the message out of the call: with thousands of topologies in it, a copy would cost as much as building it.
    pub(super) async fn create(
        &self,
        call: &mut Call<CreateVolumeRequest, Arc<PinnedRequest>>,
    ) -> Result<CreateVolumeResponse, CallError> {
        let channel = self.driver.channel().await;
        let channel = channel.map_err(CallError::Unreachable)?;
        // This has waited for the driver; another process may lead by now, and may have finished with the claim.
        if !self.may_call(&call.about.pv_template.claim.uid) {
            return Err(CallError::Unreachable(not_now()));
        }
        let migrated = Migrated(call.about.pv_template.is_in_tree());
        let request = migrated.mark(std::mem::take(&mut **call));
        let mut client = ControllerClient::new(channel);
        let response = call_with(self.driver.timeout(), request, async |request| {
            client.create_volume(request).await
        });
        let response = response.await;
        response.map_err(|status| CallError::Failed(RpcError::from(&status)))
    }

    /// Makes up to five calls in a row, within the time limit of one.
    pub(super) async fn discard(
        &self,
        call: &Call<DeleteVolumeRequest, Discard>,
    ) -> Result<DeleteVolumeResponse, CallError> {
        let Discard { intent, migrated } = &call.about;
        if let Some((prepared, intent)) = intent
            && self.intend(prepared, intent.clone()).await.is_err()
        {
            return Err(CallError::Unreachable(not_now()));
        }
        let deadline = Deadline::after(self.driver.timeout());
        let mut tries = 0;
        loop {
            tries += 1;
            match self.delete_within(deadline, call, *migrated).await {
                Ok(response) => return Ok(response),
                Err(error) if tries == DISCARD_TRIES => return Err(CallError::Failed(error)),
                Err(_) => {}
            }
        }
    }

    async fn delete_within(
        &self,
        deadline: Deadline,
        request: &DeleteVolumeRequest,
        migrated: Migrated,
    ) -> Result<DeleteVolumeResponse, RpcError> {
        let channel = self.driver.channel().await?;
        let mut client = ControllerClient::new(channel);
        let request = migrated.mark(request.clone());
        let answer = call_with(deadline, request, async |request| {
            client.delete_volume(request).await
        });
        answer.await.map_err(|status| RpcError::from(&status))
    }
}

/// Error while it is not certain that no other process leads.
fn not_now() -> RpcError {
    RpcError {
        code: Code::Unavailable,
        message: "not calling the driver until it is certain that no other process leads".into(),
    }
}

pub(super) fn wire<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, ApiError> {
    serde_json::from_str(json).map_err(|error| ApiError::unreadable(&error))
}
