//! The generated service traits on top of [`Driver`].

use std::sync::Arc;

use csi_proto::csi;
use csi_proto::csi::controller_server::Controller;
use csi_proto::csi::group_controller_server::GroupController;
use csi_proto::csi::identity_server::Identity;
use csi_proto::csi::node_server::Node;
use tonic::{Request, Response, Status};

use super::{Driver, advertise};
use crate::instrument::settings::Probe;
use crate::plan::Refusal;

/// A driver with all of its services.
#[derive(Debug, Clone)]
pub struct Services(pub Arc<Driver>);

type Answer<T> = Result<Response<T>, Status>;

impl Services {
    /// Runs a call on a blocking thread, where it continues when the caller goes away.
    async fn blocking<Q, A>(
        &self,
        request: Request<Q>,
        call: fn(&Driver, &Q) -> Result<A, Refusal>,
    ) -> Answer<A>
    where
        Q: Send + 'static,
        A: Send + 'static,
    {
        let driver = Arc::clone(&self.0);
        let request = request.into_inner();
        match tokio::task::spawn_blocking(move || call(&driver, &request)).await {
            Ok(Ok(answer)) => Ok(Response::new(answer)),
            Ok(Err(refusal)) => Err(refusal.into()),
            Err(error) => Err(Status::internal(format!("the driver failed: {error}"))),
        }
    }
}

#[tonic::async_trait]
impl Identity for Services {
    async fn get_plugin_info(
        &self,
        _: Request<csi::GetPluginInfoRequest>,
    ) -> Answer<csi::GetPluginInfoResponse> {
        let settings = self.0.settings();
        let identity = &self.0.identity;
        let version = settings
            .vendor_version
            .unwrap_or_else(|| identity.vendor_version.clone());
        Ok(Response::new(csi::GetPluginInfoResponse {
            name: settings.name.unwrap_or_else(|| identity.name.clone()),
            vendor_version: version,
            manifest: Default::default(),
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<csi::GetPluginCapabilitiesRequest>,
    ) -> Answer<csi::GetPluginCapabilitiesResponse> {
        let changed = self.0.settings().capabilities;
        let capabilities = advertise::plugin(&self.0.features, &changed);
        Ok(Response::new(csi::GetPluginCapabilitiesResponse {
            capabilities,
        }))
    }

    async fn probe(&self, _: Request<csi::ProbeRequest>) -> Answer<csi::ProbeResponse> {
        let ready = match self.0.settings().probe {
            Probe::Ready => Some(true),
            Probe::NotReady => Some(false),
            Probe::Unset => None,
        };
        Ok(Response::new(csi::ProbeResponse { ready }))
    }
}

#[tonic::async_trait]
impl Controller for Services {
    async fn create_volume(
        &self,
        request: Request<csi::CreateVolumeRequest>,
    ) -> Answer<csi::CreateVolumeResponse> {
        self.blocking(request, Driver::create_volume).await
    }

    async fn delete_volume(
        &self,
        request: Request<csi::DeleteVolumeRequest>,
    ) -> Answer<csi::DeleteVolumeResponse> {
        self.blocking(request, Driver::delete_volume).await
    }

    async fn controller_publish_volume(
        &self,
        request: Request<csi::ControllerPublishVolumeRequest>,
    ) -> Answer<csi::ControllerPublishVolumeResponse> {
        self.blocking(request, Driver::controller_publish).await
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<csi::ControllerUnpublishVolumeRequest>,
    ) -> Answer<csi::ControllerUnpublishVolumeResponse> {
        self.blocking(request, Driver::controller_unpublish).await
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<csi::ValidateVolumeCapabilitiesRequest>,
    ) -> Answer<csi::ValidateVolumeCapabilitiesResponse> {
        self.blocking(request, Driver::validate).await
    }

    async fn list_volumes(
        &self,
        request: Request<csi::ListVolumesRequest>,
    ) -> Answer<csi::ListVolumesResponse> {
        self.blocking(request, Driver::list_volumes).await
    }

    async fn controller_list_volume_health(
        &self,
        request: Request<csi::ControllerListVolumeHealthRequest>,
    ) -> Answer<csi::ControllerListVolumeHealthResponse> {
        self.blocking(request, Driver::list_health).await
    }

    async fn controller_get_volume_health(
        &self,
        request: Request<csi::ControllerGetVolumeHealthRequest>,
    ) -> Answer<csi::ControllerGetVolumeHealthResponse> {
        self.blocking(request, Driver::controller_health).await
    }

    async fn get_capacity(
        &self,
        request: Request<csi::GetCapacityRequest>,
    ) -> Answer<csi::GetCapacityResponse> {
        self.blocking(request, Driver::get_capacity).await
    }

    async fn controller_get_capabilities(
        &self,
        _: Request<csi::ControllerGetCapabilitiesRequest>,
    ) -> Answer<csi::ControllerGetCapabilitiesResponse> {
        let changed = self.0.settings().capabilities;
        let capabilities = advertise::controller(&self.0.features, &changed);
        Ok(Response::new(csi::ControllerGetCapabilitiesResponse {
            capabilities,
        }))
    }

    async fn create_snapshot(
        &self,
        request: Request<csi::CreateSnapshotRequest>,
    ) -> Answer<csi::CreateSnapshotResponse> {
        self.blocking(request, Driver::create_snapshot).await
    }

    async fn delete_snapshot(
        &self,
        request: Request<csi::DeleteSnapshotRequest>,
    ) -> Answer<csi::DeleteSnapshotResponse> {
        self.blocking(request, Driver::delete_snapshot).await
    }

    async fn list_snapshots(
        &self,
        request: Request<csi::ListSnapshotsRequest>,
    ) -> Answer<csi::ListSnapshotsResponse> {
        self.blocking(request, Driver::list_snapshots).await
    }

    async fn get_snapshot(
        &self,
        request: Request<csi::GetSnapshotRequest>,
    ) -> Answer<csi::GetSnapshotResponse> {
        self.blocking(request, Driver::get_snapshot).await
    }

    async fn controller_expand_volume(
        &self,
        request: Request<csi::ControllerExpandVolumeRequest>,
    ) -> Answer<csi::ControllerExpandVolumeResponse> {
        self.blocking(request, Driver::controller_expand).await
    }

    async fn controller_get_volume(
        &self,
        request: Request<csi::ControllerGetVolumeRequest>,
    ) -> Answer<csi::ControllerGetVolumeResponse> {
        self.blocking(request, Driver::get_volume).await
    }

    async fn controller_modify_volume(
        &self,
        request: Request<csi::ControllerModifyVolumeRequest>,
    ) -> Answer<csi::ControllerModifyVolumeResponse> {
        self.blocking(request, Driver::modify).await
    }
}

#[tonic::async_trait]
impl GroupController for Services {
    async fn group_controller_get_capabilities(
        &self,
        _: Request<csi::GroupControllerGetCapabilitiesRequest>,
    ) -> Answer<csi::GroupControllerGetCapabilitiesResponse> {
        let capabilities = advertise::group(&self.0.settings().capabilities);
        Ok(Response::new(csi::GroupControllerGetCapabilitiesResponse {
            capabilities,
        }))
    }

    async fn create_volume_group_snapshot(
        &self,
        request: Request<csi::CreateVolumeGroupSnapshotRequest>,
    ) -> Answer<csi::CreateVolumeGroupSnapshotResponse> {
        self.blocking(request, Driver::create_group).await
    }

    async fn delete_volume_group_snapshot(
        &self,
        request: Request<csi::DeleteVolumeGroupSnapshotRequest>,
    ) -> Answer<csi::DeleteVolumeGroupSnapshotResponse> {
        self.blocking(request, Driver::delete_group).await
    }

    async fn get_volume_group_snapshot(
        &self,
        request: Request<csi::GetVolumeGroupSnapshotRequest>,
    ) -> Answer<csi::GetVolumeGroupSnapshotResponse> {
        self.blocking(request, Driver::get_group).await
    }
}

#[tonic::async_trait]
impl Node for Services {
    async fn node_stage_volume(
        &self,
        request: Request<csi::NodeStageVolumeRequest>,
    ) -> Answer<csi::NodeStageVolumeResponse> {
        self.blocking(request, Driver::stage).await
    }

    async fn node_unstage_volume(
        &self,
        request: Request<csi::NodeUnstageVolumeRequest>,
    ) -> Answer<csi::NodeUnstageVolumeResponse> {
        self.blocking(request, Driver::unstage).await
    }

    async fn node_publish_volume(
        &self,
        request: Request<csi::NodePublishVolumeRequest>,
    ) -> Answer<csi::NodePublishVolumeResponse> {
        self.blocking(request, Driver::publish).await
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<csi::NodeUnpublishVolumeRequest>,
    ) -> Answer<csi::NodeUnpublishVolumeResponse> {
        self.blocking(request, Driver::unpublish).await
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<csi::NodeGetVolumeStatsRequest>,
    ) -> Answer<csi::NodeGetVolumeStatsResponse> {
        self.blocking(request, Driver::stats).await
    }

    async fn node_get_volume_health(
        &self,
        request: Request<csi::NodeGetVolumeHealthRequest>,
    ) -> Answer<csi::NodeGetVolumeHealthResponse> {
        self.blocking(request, Driver::node_health).await
    }

    async fn node_get_storage_health(
        &self,
        request: Request<csi::NodeGetStorageHealthRequest>,
    ) -> Answer<csi::NodeGetStorageHealthResponse> {
        self.blocking(request, Driver::storage_health).await
    }

    async fn node_expand_volume(
        &self,
        request: Request<csi::NodeExpandVolumeRequest>,
    ) -> Answer<csi::NodeExpandVolumeResponse> {
        self.blocking(request, Driver::node_expand).await
    }

    async fn node_get_capabilities(
        &self,
        _: Request<csi::NodeGetCapabilitiesRequest>,
    ) -> Answer<csi::NodeGetCapabilitiesResponse> {
        let changed = self.0.settings().capabilities;
        let capabilities = advertise::node(&self.0.features, &changed);
        Ok(Response::new(csi::NodeGetCapabilitiesResponse {
            capabilities,
        }))
    }

    async fn node_get_info(
        &self,
        _: Request<csi::NodeGetInfoRequest>,
    ) -> Answer<csi::NodeGetInfoResponse> {
        Ok(Response::new(self.0.info()))
    }
}
