//! The controller's volume calls, idempotent as the CSI specification demands.

use csi_proto::csi;
use tonic::Status;

use super::model::{ControllerRpc, Model, Volume, require};

/// Size of a new volume without a required size.
const MINIMUM: i64 = 1 << 20;

impl Model {
    pub(super) fn create_volume(
        &mut self,
        request: &csi::CreateVolumeRequest,
    ) -> Result<csi::CreateVolumeResponse, Status> {
        self.needs(ControllerRpc::CreateDeleteVolume)?;
        require(&[
            ("name", !request.name.is_empty()),
            (
                "volume_capabilities",
                !request.volume_capabilities.is_empty(),
            ),
        ])?;
        let range = request.capacity_range.unwrap_or_default();
        let capacity = range.required_bytes.max(MINIMUM);
        if range.limit_bytes != 0 && capacity > range.limit_bytes {
            return Err(Status::out_of_range("required_bytes exceed limit_bytes"));
        }
        let existing = self
            .volumes
            .iter()
            .find(|(_, volume)| volume.name == request.name);
        if let Some((handle, volume)) = existing {
            let fits = volume.capacity >= range.required_bytes
                && (range.limit_bytes == 0 || volume.capacity <= range.limit_bytes);
            if !fits {
                return Err(Status::already_exists(
                    "the name is taken by a volume of another size",
                ));
            }
            return Ok(csi::CreateVolumeResponse {
                volume: Some(volume.message(handle)),
            });
        }
        self.check_source(request.volume_content_source.as_ref())?;
        let wanted = request.accessibility_requirements.as_ref();
        let topology =
            wanted.and_then(|wanted| wanted.preferred.first().or(wanted.requisite.first()));
        self.made += 1;
        let handle = format!("vol-{}", self.made);
        let volume = Volume {
            name: request.name.clone(),
            capacity,
            topology: topology.map(|topology| topology.segments.clone()),
            source: request.volume_content_source.clone(),
            modified: request.mutable_parameters.clone(),
            ..Volume::default()
        };
        let message = volume.message(&handle);
        self.volumes.insert(handle, volume);
        Ok(csi::CreateVolumeResponse {
            volume: Some(message),
        })
    }

    fn check_source(&self, source: Option<&csi::VolumeContentSource>) -> Result<(), Status> {
        use csi::volume_content_source::Type;
        let known = match source.and_then(|source| source.r#type.as_ref()) {
            Some(Type::Snapshot(snapshot)) => self.snapshots.contains_key(&snapshot.snapshot_id),
            Some(Type::Volume(volume)) => self.volumes.contains_key(&volume.volume_id),
            None => true,
        };
        if known {
            return Ok(());
        }
        Err(Status::not_found("the content source does not exist"))
    }

    pub(super) fn delete_volume(
        &mut self,
        request: &csi::DeleteVolumeRequest,
    ) -> Result<csi::DeleteVolumeResponse, Status> {
        self.needs(ControllerRpc::CreateDeleteVolume)?;
        require(&[("volume_id", !request.volume_id.is_empty())])?;
        let volume = self.volumes.get(&request.volume_id);
        if volume.is_some_and(|volume| !volume.nodes.is_empty()) {
            return Err(Status::failed_precondition("the volume is published"));
        }
        self.volumes.remove(&request.volume_id);
        Ok(csi::DeleteVolumeResponse {})
    }

    pub(super) fn controller_publish_volume(
        &mut self,
        request: &csi::ControllerPublishVolumeRequest,
    ) -> Result<csi::ControllerPublishVolumeResponse, Status> {
        self.needs(ControllerRpc::PublishUnpublishVolume)?;
        require(&[
            ("volume_id", !request.volume_id.is_empty()),
            ("node_id", !request.node_id.is_empty()),
            ("volume_capability", request.volume_capability.is_some()),
        ])?;
        if self.any_volume {
            self.add(&request.volume_id);
        }
        let on_node = self
            .volumes
            .values()
            .filter(|volume| volume.nodes.contains_key(&request.node_id));
        let on_node = i64::try_from(on_node.count()).unwrap_or(i64::MAX);
        let volume = self.volumes.get_mut(&request.volume_id);
        let volume =
            volume.ok_or_else(|| Status::not_found(format!("no volume {}", request.volume_id)))?;
        if let Some(before) = volume.nodes.get(&request.node_id) {
            let same = before.volume_capability.is_none()
                || before.readonly == request.readonly
                    && before.volume_capability == request.volume_capability;
            if !same {
                return Err(Status::already_exists("published in another way"));
            }
        } else {
            if self.max_volumes > 0 && on_node >= self.max_volumes {
                return Err(Status::resource_exhausted(
                    "the node has no room for another volume",
                ));
            }
            if !volume.nodes.is_empty() && !many_nodes(request.volume_capability.as_ref()) {
                return Err(Status::failed_precondition("published to another node"));
            }
        }
        volume
            .nodes
            .insert(request.node_id.clone(), request.clone());
        Ok(csi::ControllerPublishVolumeResponse {
            publish_context: self.publish_context.clone(),
        })
    }

    pub(super) fn controller_unpublish_volume(
        &mut self,
        request: &csi::ControllerUnpublishVolumeRequest,
    ) -> Result<csi::ControllerUnpublishVolumeResponse, Status> {
        self.needs(ControllerRpc::PublishUnpublishVolume)?;
        require(&[("volume_id", !request.volume_id.is_empty())])?;
        if let Some(volume) = self.volumes.get_mut(&request.volume_id) {
            if request.node_id.is_empty() {
                volume.nodes.clear();
            }
            volume.nodes.remove(&request.node_id);
        }
        Ok(csi::ControllerUnpublishVolumeResponse {})
    }

    pub(super) fn validate_volume_capabilities(
        &mut self,
        request: &csi::ValidateVolumeCapabilitiesRequest,
    ) -> Result<csi::ValidateVolumeCapabilitiesResponse, Status> {
        use csi::validate_volume_capabilities_response::Confirmed;
        require(&[
            ("volume_id", !request.volume_id.is_empty()),
            (
                "volume_capabilities",
                !request.volume_capabilities.is_empty(),
            ),
        ])?;
        self.known(&request.volume_id)?;
        Ok(csi::ValidateVolumeCapabilitiesResponse {
            confirmed: Some(Confirmed {
                volume_context: request.volume_context.clone(),
                volume_capabilities: request.volume_capabilities.clone(),
                parameters: request.parameters.clone(),
                mutable_parameters: request.mutable_parameters.clone(),
            }),
            message: String::new(),
        })
    }

    pub(super) fn known(&mut self, handle: &str) -> Result<&mut Volume, Status> {
        let volume = self.volumes.get_mut(handle);
        volume.ok_or_else(|| Status::not_found(format!("no volume {handle}")))
    }

    pub(super) fn list_volumes(
        &mut self,
        request: &csi::ListVolumesRequest,
    ) -> Result<csi::ListVolumesResponse, Status> {
        use csi::list_volumes_response::{Entry, VolumeStatus};
        self.needs(ControllerRpc::ListVolumes)?;
        let nodes = self
            .controller
            .contains(&ControllerRpc::ListVolumesPublishedNodes);
        let (page, next_token) = page(&self.volumes, &request.starting_token, request.max_entries)?;
        let entries = page.into_iter().map(|(handle, volume)| Entry {
            volume: Some(volume.message(handle)),
            status: nodes.then(|| VolumeStatus {
                published_node_ids: volume.nodes.keys().cloned().collect(),
            }),
        });
        Ok(csi::ListVolumesResponse {
            entries: entries.collect(),
            next_token,
        })
    }

    pub(super) fn get_capacity(
        &mut self,
        _: &csi::GetCapacityRequest,
    ) -> Result<csi::GetCapacityResponse, Status> {
        self.needs(ControllerRpc::GetCapacity)?;
        Ok(csi::GetCapacityResponse {
            available_capacity: self.capacity,
            maximum_volume_size: None,
            minimum_volume_size: None,
        })
    }

    pub(super) fn controller_expand_volume(
        &mut self,
        request: &csi::ControllerExpandVolumeRequest,
    ) -> Result<csi::ControllerExpandVolumeResponse, Status> {
        self.needs(ControllerRpc::ExpandVolume)?;
        let node_expansion_required = self.node.contains(&super::NodeRpc::ExpandVolume);
        let wanted = request.capacity_range.unwrap_or_default();
        let volume = self.known(&request.volume_id)?;
        let capacity = volume.capacity.max(wanted.required_bytes);
        if wanted.limit_bytes != 0 && capacity > wanted.limit_bytes {
            return Err(Status::out_of_range(
                "the volume is larger than limit_bytes",
            ));
        }
        volume.capacity = capacity;
        Ok(csi::ControllerExpandVolumeResponse {
            capacity_bytes: capacity,
            node_expansion_required,
        })
    }

    pub(super) fn controller_get_volume(
        &mut self,
        request: &csi::ControllerGetVolumeRequest,
    ) -> Result<csi::ControllerGetVolumeResponse, Status> {
        use csi::controller_get_volume_response::VolumeStatus;
        self.needs(ControllerRpc::GetVolume)?;
        let volume = self.known(&request.volume_id)?;
        Ok(csi::ControllerGetVolumeResponse {
            volume: Some(volume.message(&request.volume_id)),
            status: Some(VolumeStatus {
                published_node_ids: volume.nodes.keys().cloned().collect(),
            }),
        })
    }

    pub(super) fn controller_modify_volume(
        &mut self,
        request: &csi::ControllerModifyVolumeRequest,
    ) -> Result<csi::ControllerModifyVolumeResponse, Status> {
        self.needs(ControllerRpc::ModifyVolume)?;
        let volume = self.known(&request.volume_id)?;
        volume.modified.clone_from(&request.mutable_parameters);
        Ok(csi::ControllerModifyVolumeResponse {})
    }
}

impl Volume {
    fn message(&self, handle: &str) -> csi::Volume {
        let topology = self.topology.clone();
        csi::Volume {
            capacity_bytes: self.capacity,
            volume_id: handle.to_owned(),
            volume_context: self.context.clone(),
            content_source: self.source.clone(),
            accessible_topology: topology
                .map(|segments| csi::Topology { segments })
                .into_iter()
                .collect(),
        }
    }
}

fn many_nodes(capability: Option<&csi::VolumeCapability>) -> bool {
    use csi::volume_capability::access_mode::Mode;
    let mode = capability.and_then(|capability| capability.access_mode);
    let mode = mode.map(|mode| mode.mode());
    matches!(
        mode,
        Some(Mode::MultiNodeMultiWriter | Mode::MultiNodeReaderOnly | Mode::MultiNodeSingleWriter)
    )
}

type Page<'a, V> = Vec<(&'a String, &'a V)>;

/// A page of a map; its token is the first key of the next page.
pub(super) fn page<'a, V>(
    map: &'a std::collections::BTreeMap<String, V>,
    token: &str,
    max_entries: i32,
) -> Result<(Page<'a, V>, String), Status> {
    if !token.is_empty() && !map.contains_key(token) {
        return Err(Status::aborted("the token is not valid"));
    }
    let limit =
        usize::try_from(max_entries).map_err(|_| Status::invalid_argument("max_entries"))?;
    let mut rest = map.range(token.to_owned()..);
    let page = rest
        .by_ref()
        .take(if limit == 0 { usize::MAX } else { limit })
        .collect();
    let next = rest.next().map(|(key, _)| key.clone()).unwrap_or_default();
    Ok((page, next))
}
