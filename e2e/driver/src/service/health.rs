//! Volume and storage health: healthy unless a test has set a condition.

use csi_proto::csi;
use csi_proto::csi::node_get_storage_health_response::StorageBackendHealth;
use csi_proto::csi::volume_health::VolumeHealthEntry;
use tonic::Code;

use super::Driver;
use crate::instrument::settings::{Ailment, Settings};
use crate::model::volume::Volume;
use crate::plan::{Refusal, page, required};

fn health(id: &str, settings: &Settings) -> csi::VolumeHealth {
    let entry = |ailment: &Ailment| VolumeHealthEntry {
        status: ailment.status.number(),
        reason: ailment.reason.clone(),
        message: ailment.message.clone(),
    };
    csi::VolumeHealth {
        volume_id: id.to_owned(),
        health_statuses: settings
            .health
            .get(id)
            .into_iter()
            .flatten()
            .map(entry)
            .collect(),
    }
}

impl Driver {
    fn health_of(&self, id: &str) -> Result<csi::VolumeHealth, Refusal> {
        required(id, "volume ID")?;
        if self.store.read(|state| state.volumes.contains_key(id))? {
            return Ok(health(id, &self.settings()));
        }
        Err(Refusal::new(
            Code::NotFound,
            format!("volume {id} does not exist"),
        ))
    }

    /// ControllerGetVolumeHealth.
    pub fn controller_health(
        &self,
        request: &csi::ControllerGetVolumeHealthRequest,
    ) -> Result<csi::ControllerGetVolumeHealthResponse, Refusal> {
        let volume_health = Some(self.health_of(&request.volume_id)?);
        Ok(csi::ControllerGetVolumeHealthResponse { volume_health })
    }

    /// ControllerListVolumeHealth: only unhealthy volumes.
    pub fn list_health(
        &self,
        request: &csi::ControllerListVolumeHealthRequest,
    ) -> Result<csi::ControllerListVolumeHealthResponse, Refusal> {
        let settings = self.settings();
        let ill = |volume: &&Volume| settings.health.contains_key(&volume.id);
        let (ids, next_token) = self.store.read(|state| {
            let listed = state.volumes.values().filter(ill);
            let all = listed.map(|volume| (volume.sequence, volume.id.clone()));
            page::page(all, &request.starting_token, request.max_entries)
        })??;
        let entries = ids.iter().map(|id| health(id, &settings)).collect();
        Ok(csi::ControllerListVolumeHealthResponse {
            entries,
            next_token,
        })
    }

    /// NodeGetVolumeHealth.
    pub fn node_health(
        &self,
        request: &csi::NodeGetVolumeHealthRequest,
    ) -> Result<csi::NodeGetVolumeHealthResponse, Refusal> {
        let volume_health = Some(self.health_of(&request.volume_id)?);
        Ok(csi::NodeGetVolumeHealthResponse { volume_health })
    }

    /// NodeGetStorageHealth.
    pub fn storage_health(
        &self,
        _: &csi::NodeGetStorageHealthRequest,
    ) -> Result<csi::NodeGetStorageHealthResponse, Refusal> {
        let settings = self.settings();
        let backend = |ailment: &Ailment| StorageBackendHealth {
            status: ailment.status.number(),
            reason: ailment.reason.clone(),
            message: ailment.message.clone(),
            volume_capability: None,
        };
        let backend_health = settings.storage_health.iter().map(backend).collect();
        Ok(csi::NodeGetStorageHealthResponse { backend_health })
    }
}
