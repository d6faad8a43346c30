//! The controller service, without snapshots.

use std::collections::BTreeMap;

use csi_proto::csi;
use tonic::Code;

use super::Driver;
use crate::clock;
use crate::model::state::Change;
use crate::model::volume::{Phase, Volume};
use crate::plan::create::Creation;
use crate::plan::{Refusal, attach, capability, capacity, create, expand, modify, page, required};

pub(super) fn put(volume: Volume) -> Change {
    Change::PutVolume(Box::new(volume))
}

pub(super) fn fresh(prefix: &str) -> Result<String, Refusal> {
    match clock::fresh_id() {
        Ok(id) => Ok(format!("{prefix}-{id}")),
        Err(error) => Err(Refusal::new(
            Code::Internal,
            format!("no random id: {error}"),
        )),
    }
}

impl Driver {
    /// CreateVolume.
    pub fn create_volume(
        &self,
        request: &csi::CreateVolumeRequest,
    ) -> Result<csi::CreateVolumeResponse, Refusal> {
        let _guard = self.busy.take(format!("volume name {}", request.name))?;
        let id = format!("{}{}", self.policy.id_prefix, fresh("vol")?);
        let decided = self.store.transact(|state| {
            let decided = create::create(state, &self.policy, request, &id)?;
            let changes = match &decided {
                Creation::Exists(_) => Vec::new(),
                Creation::Make(volume) => vec![put(Volume::clone(volume))],
            };
            Ok::<_, Refusal>((changes, decided))
        })?;
        let volume = match decided {
            Creation::Exists(volume) => *volume,
            Creation::Make(volume) => self.make(*volume)?,
        };
        Ok(csi::CreateVolumeResponse {
            volume: Some(volume.message()),
        })
    }

    /// Creates the data; forgets the volume again if that fails.
    fn make(&self, volume: Volume) -> Result<Volume, Refusal> {
        if let Err(error) = self.targets.storage.make(&volume) {
            // The first error is the one to report.
            let _ = self.targets.storage.remove(&volume);
            self.change(vec![Change::DropVolume(volume.id.clone())])?;
            return Err(error.into());
        }
        let ready = Volume {
            phase: Phase::Ready,
            ..volume
        };
        self.change(vec![put(ready.clone())])?;
        Ok(ready)
    }

    pub(super) fn change(&self, changes: Vec<Change>) -> Result<(), Refusal> {
        self.store.transact(|_| Ok((changes, ())))
    }

    /// Changes the current version of a volume; concurrent changes of other fields are kept.
    pub(super) fn change_volume(
        &self,
        id: &str,
        edit: impl FnOnce(&mut Volume),
    ) -> Result<(), Refusal> {
        self.store.transact(|state| {
            let Some(volume) = state.volumes.get(id) else {
                return Ok((Vec::new(), ()));
            };
            let mut volume = volume.clone();
            edit(&mut volume);
            Ok((vec![put(volume)], ()))
        })
    }

    /// DeleteVolume.
    pub fn delete_volume(
        &self,
        request: &csi::DeleteVolumeRequest,
    ) -> Result<csi::DeleteVolumeResponse, Refusal> {
        let _guard = self.busy.take(format!("volume {}", request.volume_id))?;
        let doomed = self.store.transact(|state| {
            let doomed = create::delete(state, &self.policy, &request.volume_id)?;
            Ok::<_, Refusal>((doomed.clone().map(put).into_iter().collect(), doomed))
        })?;
        if let Some(volume) = doomed {
            self.targets.storage.remove(&volume)?;
            self.change(vec![Change::DropVolume(volume.id)])?;
        }
        Ok(csi::DeleteVolumeResponse {})
    }

    /// ControllerPublishVolume.
    pub fn controller_publish(
        &self,
        request: &csi::ControllerPublishVolumeRequest,
    ) -> Result<csi::ControllerPublishVolumeResponse, Refusal> {
        let object = format!("volume {} on node {}", request.volume_id, request.node_id);
        let _guard = self.busy.take(object)?;
        let limit = self.settings().attach_limit;
        self.store.transact(|state| {
            let volume = attach::publish(state, &self.policy, limit, request)?;
            let known = state.volumes.get(&request.volume_id) == Some(&volume);
            Ok::<_, Refusal>((if known { Vec::new() } else { vec![put(volume)] }, ()))
        })?;
        // The node service has to get this back; the record shows a sidecar that loses it.
        let context = (
            "attachment".to_owned(),
            format!("{}@{}", request.volume_id, request.node_id),
        );
        Ok(csi::ControllerPublishVolumeResponse {
            publish_context: BTreeMap::from([context]),
        })
    }

    /// ControllerUnpublishVolume.
    pub fn controller_unpublish(
        &self,
        request: &csi::ControllerUnpublishVolumeRequest,
    ) -> Result<csi::ControllerUnpublishVolumeResponse, Refusal> {
        let object = format!("volume {} on node {}", request.volume_id, request.node_id);
        let _guard = self.busy.take(object)?;
        self.store.transact(|state| {
            let volume = attach::unpublish(state, request)?;
            Ok::<_, Refusal>((volume.map(put).into_iter().collect(), ()))
        })?;
        Ok(csi::ControllerUnpublishVolumeResponse {})
    }

    /// ValidateVolumeCapabilities.
    pub fn validate(
        &self,
        request: &csi::ValidateVolumeCapabilitiesRequest,
    ) -> Result<csi::ValidateVolumeCapabilitiesResponse, Refusal> {
        let id = required(&request.volume_id, "volume ID")?;
        let kind = capability::check_all(&request.volume_capabilities)?;
        let volume = self.store.read(|state| state.volumes.get(id).cloned())?;
        let Some(volume) = volume else {
            return Err(Refusal::new(
                Code::NotFound,
                format!("volume {id} does not exist"),
            ));
        };
        let message = match capability::fits(&volume, kind) {
            Ok(()) => String::new(),
            Err(misfit) => misfit.message,
        };
        let confirmed = csi::validate_volume_capabilities_response::Confirmed {
            volume_context: request.volume_context.clone(),
            volume_capabilities: request.volume_capabilities.clone(),
            parameters: request.parameters.clone(),
            mutable_parameters: request.mutable_parameters.clone(),
        };
        Ok(csi::ValidateVolumeCapabilitiesResponse {
            confirmed: message.is_empty().then_some(confirmed),
            message,
        })
    }

    fn published_nodes(&self, volume: &Volume) -> Vec<String> {
        let mut changed = self.settings().published_nodes;
        changed
            .remove(&volume.id)
            .unwrap_or_else(|| volume.attachments.keys().cloned().collect())
    }

    /// ListVolumes.
    pub fn list_volumes(
        &self,
        request: &csi::ListVolumesRequest,
    ) -> Result<csi::ListVolumesResponse, Refusal> {
        let (volumes, next_token) = self.store.read(|state| {
            let listed = state.volumes.values().filter(|volume| !volume.ephemeral);
            let all = listed.map(|volume| (volume.sequence, volume.clone()));
            page::page(all, &request.starting_token, request.max_entries)
        })??;
        let entry = |volume: Volume| csi::list_volumes_response::Entry {
            volume: Some(volume.message()),
            status: Some(csi::list_volumes_response::VolumeStatus {
                published_node_ids: self.published_nodes(&volume),
            }),
        };
        let entries = volumes.into_iter().map(entry).collect();
        Ok(csi::ListVolumesResponse {
            entries,
            next_token,
        })
    }

    /// ControllerGetVolume.
    pub fn get_volume(
        &self,
        request: &csi::ControllerGetVolumeRequest,
    ) -> Result<csi::ControllerGetVolumeResponse, Refusal> {
        let id = required(&request.volume_id, "volume ID")?;
        let Some(volume) = self.store.read(|state| state.volumes.get(id).cloned())? else {
            return Err(Refusal::new(
                Code::NotFound,
                format!("volume {id} does not exist"),
            ));
        };
        Ok(csi::ControllerGetVolumeResponse {
            volume: Some(volume.message()),
            status: Some(csi::controller_get_volume_response::VolumeStatus {
                published_node_ids: self.published_nodes(&volume),
            }),
        })
    }

    /// GetCapacity.
    pub fn get_capacity(
        &self,
        request: &csi::GetCapacityRequest,
    ) -> Result<csi::GetCapacityResponse, Refusal> {
        let settings = self.settings();
        let mut changed = settings.capacity.iter();
        if let Some(answer) = changed.find(|entry| entry.applies_to(request)) {
            return Ok(answer.message());
        }
        self.store
            .read(|state| capacity::answer(state, &self.policy, request))?
    }

    /// ControllerExpandVolume.
    pub fn controller_expand(
        &self,
        request: &csi::ControllerExpandVolumeRequest,
    ) -> Result<csi::ControllerExpandVolumeResponse, Refusal> {
        let _guard = self.busy.take(format!("volume {}", request.volume_id))?;
        let volume = self.store.transact(|state| {
            let volume = expand::controller(state, &self.policy, request)?;
            Ok::<_, Refusal>((vec![put(volume.clone())], volume))
        })?;
        self.targets.storage.grow(&volume)?;
        Ok(csi::ControllerExpandVolumeResponse {
            capacity_bytes: volume.capacity,
            node_expansion_required: self.policy.node_expansion,
        })
    }

    /// ControllerModifyVolume.
    pub fn modify(
        &self,
        request: &csi::ControllerModifyVolumeRequest,
    ) -> Result<csi::ControllerModifyVolumeResponse, Refusal> {
        let _guard = self.busy.take(format!("volume {}", request.volume_id))?;
        let wanted = &request.mutable_parameters;
        self.store.transact(|state| {
            let volume = modify::modify(state, &self.policy, &request.volume_id, wanted)?;
            Ok::<_, Refusal>((vec![put(volume)], ()))
        })?;
        Ok(csi::ControllerModifyVolumeResponse {})
    }
}
