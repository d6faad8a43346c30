//! Health of volumes, and the volume conditions of drivers for CSI 1.12 and older.

use csi_proto::csi;
use csi_proto::volume_condition::controller_server::Controller as OlderController;
use csi_proto::volume_condition::{
    ControllerGetVolumeRequest, ControllerGetVolumeResponse, ListVolumesRequest,
    ListVolumesResponse, Volume, VolumeCondition, VolumeStatus, list_volumes_response,
};
use tonic::{Request, Response, Status};

use super::FakeDriver;
use super::model::{ControllerRpc, Model};
use super::volume::page;

impl Model {
    pub(super) fn controller_list_volume_health(
        &mut self,
        request: &csi::ControllerListVolumeHealthRequest,
    ) -> Result<csi::ControllerListVolumeHealthResponse, Status> {
        self.needs(ControllerRpc::ListVolumeHealth)?;
        let limit = match request.max_entries {
            0 => self.health_page,
            limit => limit,
        };
        let (page, next_token) = page(&self.health, &request.starting_token, limit)?;
        let entries = page.into_iter().map(|(handle, entries)| csi::VolumeHealth {
            volume_id: handle.clone(),
            health_statuses: entries.clone(),
        });
        Ok(csi::ControllerListVolumeHealthResponse {
            entries: entries.collect(),
            next_token,
        })
    }

    pub(super) fn controller_get_volume_health(
        &mut self,
        request: &csi::ControllerGetVolumeHealthRequest,
    ) -> Result<csi::ControllerGetVolumeHealthResponse, Status> {
        self.needs(ControllerRpc::GetVolumeHealth)?;
        if !self.volumes.contains_key(&request.volume_id) {
            return Err(Status::not_found("no such volume"));
        }
        let health = self.health.get(&request.volume_id);
        Ok(csi::ControllerGetVolumeHealthResponse {
            volume_health: Some(csi::VolumeHealth {
                volume_id: request.volume_id.clone(),
                health_statuses: health.cloned().unwrap_or_default(),
            }),
        })
    }

    fn status(&self, handle: &str) -> Option<VolumeStatus> {
        let (abnormal, message) = self.conditions.as_ref()?.get(handle)?;
        Some(VolumeStatus {
            volume_condition: Some(VolumeCondition {
                abnormal: *abnormal,
                message: message.clone(),
            }),
        })
    }

    fn list_conditions(&mut self, _: &ListVolumesRequest) -> Result<ListVolumesResponse, Status> {
        let entries = self.volumes.keys();
        let entries = entries.map(|handle| list_volumes_response::Entry {
            volume: Some(Volume {
                volume_id: handle.clone(),
            }),
            status: self.status(handle),
        });
        Ok(ListVolumesResponse {
            entries: entries.collect(),
            next_token: String::new(),
        })
    }

    fn get_condition(
        &mut self,
        request: &ControllerGetVolumeRequest,
    ) -> Result<ControllerGetVolumeResponse, Status> {
        if !self.volumes.contains_key(&request.volume_id) {
            return Err(Status::not_found("no such volume"));
        }
        Ok(ControllerGetVolumeResponse {
            volume: Some(Volume {
                volume_id: request.volume_id.clone(),
            }),
            status: self.status(&request.volume_id),
        })
    }
}

impl FakeDriver {
    /// Whether a call of this path gets a response of older CSI versions.
    pub(super) fn answers_as_older(&self, path: &str) -> bool {
        let is_of_both = path.ends_with("/ListVolumes") || path.ends_with("/ControllerGetVolume");
        is_of_both && self.state().model.conditions.is_some()
    }
}

#[tonic::async_trait]
impl OlderController for FakeDriver {
    async fn list_volumes(
        &self,
        request: Request<ListVolumesRequest>,
    ) -> Result<Response<ListVolumesResponse>, Status> {
        self.run("ListVolumes", Vec::new(), request, Model::list_conditions)
            .await
    }

    async fn controller_get_volume(
        &self,
        request: Request<ControllerGetVolumeRequest>,
    ) -> Result<Response<ControllerGetVolumeResponse>, Status> {
        let subject = vec![request.get_ref().volume_id.clone()];
        self.run(
            "ControllerGetVolume",
            subject,
            request,
            Model::get_condition,
        )
        .await
    }
}
