//! The method and the response of each CSI request.

use csi_proto::csi::controller_client::ControllerClient;
use csi_proto::csi::group_controller_client::GroupControllerClient;
use csi_proto::volume_condition::controller_client::ControllerClient as OlderControllerClient;
use csi_proto::{csi, volume_condition};
use tonic::{Request, Response, Status};

use super::Channel;
use super::exchange::LARGEST_LIST;

/// The request of an RPC that controllers call.
pub trait Rpc: Clone + Send + Sync + 'static {
    /// The RPC's response.
    type Response: Send;

    /// Name of the request's message.
    const REQUEST: &'static str;

    /// Name of the RPC, such as `CreateVolume`.
    #[must_use]
    fn name() -> &'static str {
        Self::REQUEST
            .strip_suffix("Request")
            .unwrap_or(Self::REQUEST)
    }

    /// Sends the request.
    fn send(
        channel: Channel,
        request: Request<Self>,
    ) -> impl Future<Output = Result<Response<Self::Response>, Status>> + Send;
}

macro_rules! rpcs {
    ($package:ident { $($client:ident: $method:ident($request:ident) -> $response:ident;)* }) => {$(
        impl Rpc for $package::$request {
            type Response = $package::$response;

            const REQUEST: &'static str = stringify!($request);

            async fn send(
                channel: Channel,
                request: Request<Self>,
            ) -> Result<Response<Self::Response>, Status> {
                // The channel knows the limit of each method.
                let client = $client::new(channel);
                let mut client = client.max_decoding_message_size(LARGEST_LIST);
                client.$method(request).await
            }
        }
    )*};
}

rpcs! { csi {
    ControllerClient: controller_publish_volume(ControllerPublishVolumeRequest) -> ControllerPublishVolumeResponse;
    ControllerClient: controller_unpublish_volume(ControllerUnpublishVolumeRequest) -> ControllerUnpublishVolumeResponse;
    ControllerClient: controller_expand_volume(ControllerExpandVolumeRequest) -> ControllerExpandVolumeResponse;
    ControllerClient: controller_modify_volume(ControllerModifyVolumeRequest) -> ControllerModifyVolumeResponse;
    ControllerClient: create_volume(CreateVolumeRequest) -> CreateVolumeResponse;
    ControllerClient: delete_volume(DeleteVolumeRequest) -> DeleteVolumeResponse;
    ControllerClient: get_capacity(GetCapacityRequest) -> GetCapacityResponse;
    ControllerClient: create_snapshot(CreateSnapshotRequest) -> CreateSnapshotResponse;
    ControllerClient: delete_snapshot(DeleteSnapshotRequest) -> DeleteSnapshotResponse;
    ControllerClient: list_volumes(ListVolumesRequest) -> ListVolumesResponse;
    ControllerClient: controller_get_volume(ControllerGetVolumeRequest) -> ControllerGetVolumeResponse;
    ControllerClient: controller_list_volume_health(ControllerListVolumeHealthRequest) -> ControllerListVolumeHealthResponse;
    ControllerClient: controller_get_volume_health(ControllerGetVolumeHealthRequest) -> ControllerGetVolumeHealthResponse;
    ControllerClient: list_snapshots(ListSnapshotsRequest) -> ListSnapshotsResponse;
    ControllerClient: get_snapshot(GetSnapshotRequest) -> GetSnapshotResponse;
    GroupControllerClient: create_volume_group_snapshot(CreateVolumeGroupSnapshotRequest) -> CreateVolumeGroupSnapshotResponse;
    GroupControllerClient: delete_volume_group_snapshot(DeleteVolumeGroupSnapshotRequest) -> DeleteVolumeGroupSnapshotResponse;
    GroupControllerClient: get_volume_group_snapshot(GetVolumeGroupSnapshotRequest) -> GetVolumeGroupSnapshotResponse;
} }

// The same two RPCs with the responses of drivers built against older versions of CSI.
rpcs! { volume_condition {
    OlderControllerClient: list_volumes(ListVolumesRequest) -> ListVolumesResponse;
    OlderControllerClient: controller_get_volume(ControllerGetVolumeRequest) -> ControllerGetVolumeResponse;
} }
