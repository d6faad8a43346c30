//! The node service. It mounts nothing and only records the paths.

use csi_proto::csi;
use tonic::Status;

use super::model::{Model, NodeRpc, require};

impl Model {
    fn node_needs(&self, rpc: NodeRpc) -> Result<(), Status> {
        if self.node.contains(&rpc) {
            return Ok(());
        }
        Err(Status::unimplemented(format!("no {}", rpc.as_str_name())))
    }

    pub(super) fn node_get_info(
        &mut self,
        _: &csi::NodeGetInfoRequest,
    ) -> Result<csi::NodeGetInfoResponse, Status> {
        let segments = self.topology.clone();
        Ok(csi::NodeGetInfoResponse {
            node_id: self.node_id.clone(),
            max_volumes_per_node: self.max_volumes,
            accessible_topology: segments.map(|segments| csi::Topology { segments }),
        })
    }

    pub(super) fn node_get_capabilities(
        &mut self,
        _: &csi::NodeGetCapabilitiesRequest,
    ) -> Result<csi::NodeGetCapabilitiesResponse, Status> {
        use csi::node_service_capability::{Rpc, Type};
        let capability = |rpc: &NodeRpc| csi::NodeServiceCapability {
            r#type: Some(Type::Rpc(Rpc {
                r#type: *rpc as i32,
            })),
        };
        Ok(csi::NodeGetCapabilitiesResponse {
            capabilities: self.node.iter().map(capability).collect(),
        })
    }

    pub(super) fn node_stage_volume(
        &mut self,
        request: &csi::NodeStageVolumeRequest,
    ) -> Result<csi::NodeStageVolumeResponse, Status> {
        self.node_needs(NodeRpc::StageUnstageVolume)?;
        require(&[
            ("volume_id", !request.volume_id.is_empty()),
            (
                "staging_target_path",
                !request.staging_target_path.is_empty(),
            ),
            ("volume_capability", request.volume_capability.is_some()),
        ])?;
        let volume = self.known(&request.volume_id)?;
        volume.staged.insert(request.staging_target_path.clone());
        Ok(csi::NodeStageVolumeResponse {})
    }

    pub(super) fn node_unstage_volume(
        &mut self,
        request: &csi::NodeUnstageVolumeRequest,
    ) -> Result<csi::NodeUnstageVolumeResponse, Status> {
        self.node_needs(NodeRpc::StageUnstageVolume)?;
        if let Some(volume) = self.volumes.get_mut(&request.volume_id) {
            volume.staged.remove(&request.staging_target_path);
        }
        Ok(csi::NodeUnstageVolumeResponse {})
    }

    pub(super) fn node_publish_volume(
        &mut self,
        request: &csi::NodePublishVolumeRequest,
    ) -> Result<csi::NodePublishVolumeResponse, Status> {
        require(&[
            ("volume_id", !request.volume_id.is_empty()),
            ("target_path", !request.target_path.is_empty()),
            ("volume_capability", request.volume_capability.is_some()),
        ])?;
        let staging = self.node.contains(&NodeRpc::StageUnstageVolume);
        let volume = self.known(&request.volume_id)?;
        if staging && !volume.staged.contains(&request.staging_target_path) {
            return Err(Status::failed_precondition("the volume is not staged"));
        }
        volume.targets.insert(request.target_path.clone());
        Ok(csi::NodePublishVolumeResponse {})
    }

    pub(super) fn node_unpublish_volume(
        &mut self,
        request: &csi::NodeUnpublishVolumeRequest,
    ) -> Result<csi::NodeUnpublishVolumeResponse, Status> {
        require(&[
            ("volume_id", !request.volume_id.is_empty()),
            ("target_path", !request.target_path.is_empty()),
        ])?;
        if let Some(volume) = self.volumes.get_mut(&request.volume_id) {
            volume.targets.remove(&request.target_path);
        }
        Ok(csi::NodeUnpublishVolumeResponse {})
    }

    pub(super) fn node_get_volume_stats(
        &mut self,
        request: &csi::NodeGetVolumeStatsRequest,
    ) -> Result<csi::NodeGetVolumeStatsResponse, Status> {
        self.node_needs(NodeRpc::GetVolumeStats)?;
        let total = self.known(&request.volume_id)?.capacity;
        Ok(csi::NodeGetVolumeStatsResponse {
            usage: vec![csi::VolumeUsage {
                available: total,
                total,
                used: 0,
                unit: csi::volume_usage::Unit::Bytes.into(),
            }],
        })
    }

    pub(super) fn node_expand_volume(
        &mut self,
        request: &csi::NodeExpandVolumeRequest,
    ) -> Result<csi::NodeExpandVolumeResponse, Status> {
        self.node_needs(NodeRpc::ExpandVolume)?;
        let capacity_bytes = self.known(&request.volume_id)?.capacity;
        Ok(csi::NodeExpandVolumeResponse { capacity_bytes })
    }
}
