//! The group controller: simultaneous snapshots of several volumes.

use csi_proto::csi;
use tonic::Status;

use super::model::{GroupRpc, Model, require};

impl Model {
    fn needs_groups(&self) -> Result<(), Status> {
        let rpc = GroupRpc::CreateDeleteGetVolumeGroupSnapshot;
        match &self.group {
            None => Err(Status::unimplemented(
                "unknown service csi.v1.GroupController",
            )),
            Some(announced) if announced.contains(&rpc) => Ok(()),
            Some(_) => Err(Status::unimplemented(format!("no {}", rpc.as_str_name()))),
        }
    }

    pub(super) fn group_controller_get_capabilities(
        &mut self,
        _: &csi::GroupControllerGetCapabilitiesRequest,
    ) -> Result<csi::GroupControllerGetCapabilitiesResponse, Status> {
        use csi::group_controller_service_capability::{Rpc, Type};
        let unknown = || Status::unimplemented("unknown service csi.v1.GroupController");
        let announced = self.group.as_ref().ok_or_else(unknown)?;
        let capability = |rpc: &GroupRpc| csi::GroupControllerServiceCapability {
            r#type: Some(Type::Rpc(Rpc {
                r#type: *rpc as i32,
            })),
        };
        Ok(csi::GroupControllerGetCapabilitiesResponse {
            capabilities: announced.iter().map(capability).collect(),
        })
    }

    pub(super) fn create_group(
        &mut self,
        request: &csi::CreateVolumeGroupSnapshotRequest,
    ) -> Result<csi::CreateVolumeGroupSnapshotResponse, Status> {
        self.needs_groups()?;
        require(&[
            ("name", !request.name.is_empty()),
            ("source_volume_ids", !request.source_volume_ids.is_empty()),
        ])?;
        if let Some(id) = self.group_names.get(&request.name) {
            let group_snapshot = self.groups.get(id).cloned();
            let snapshots = group_snapshot.iter().flat_map(|group| &group.snapshots);
            let volumes = snapshots.map(|snapshot| &snapshot.source_volume_id);
            if !volumes.eq(&request.source_volume_ids) {
                return Err(Status::already_exists(
                    "the name is taken by a group of other volumes",
                ));
            }
            return Ok(csi::CreateVolumeGroupSnapshotResponse { group_snapshot });
        }
        self.made += 1;
        let id = format!("grp-{}", self.made);
        let creation_time = Some(prost_types::Timestamp {
            seconds: 1_577_836_800,
            nanos: 0,
        });
        let mut snapshots = Vec::new();
        for volume in &request.source_volume_ids {
            let size_bytes = self.known(volume)?.capacity;
            self.made += 1;
            snapshots.push(csi::Snapshot {
                size_bytes,
                snapshot_id: format!("snap-{}", self.made),
                source_volume_id: volume.clone(),
                creation_time,
                ready_to_use: true,
                group_snapshot_id: id.clone(),
                ..csi::Snapshot::default()
            });
        }
        let group = csi::VolumeGroupSnapshot {
            group_snapshot_id: id.clone(),
            snapshots,
            creation_time,
            ready_to_use: true,
        };
        for snapshot in &group.snapshots {
            let id = snapshot.snapshot_id.clone();
            self.snapshots.insert(id, snapshot.clone());
        }
        self.group_names.insert(request.name.clone(), id.clone());
        self.groups.insert(id, group.clone());
        Ok(csi::CreateVolumeGroupSnapshotResponse {
            group_snapshot: Some(group),
        })
    }

    pub(super) fn get_group(
        &mut self,
        request: &csi::GetVolumeGroupSnapshotRequest,
    ) -> Result<csi::GetVolumeGroupSnapshotResponse, Status> {
        self.needs_groups()?;
        let group = self.groups.get(&request.group_snapshot_id).cloned();
        let group = group.ok_or_else(|| Status::not_found("no such group"))?;
        same_members(&group, &request.snapshot_ids)?;
        Ok(csi::GetVolumeGroupSnapshotResponse {
            group_snapshot: Some(group),
        })
    }

    pub(super) fn delete_group(
        &mut self,
        request: &csi::DeleteVolumeGroupSnapshotRequest,
    ) -> Result<csi::DeleteVolumeGroupSnapshotResponse, Status> {
        self.needs_groups()?;
        let id = &request.group_snapshot_id;
        require(&[("group_snapshot_id", !id.is_empty())])?;
        if let Some(group) = self.groups.get(id) {
            same_members(group, &request.snapshot_ids)?;
        }
        let group = self.groups.remove(id).unwrap_or_default();
        for snapshot in group.snapshots {
            self.snapshots.remove(&snapshot.snapshot_id);
        }
        self.group_names.retain(|_, of| of != id);
        Ok(csi::DeleteVolumeGroupSnapshotResponse {})
    }

    /// Whether the snapshot is a member of a group, with which alone it is deleted.
    pub(super) fn is_member(&self, snapshot: &str) -> bool {
        let mut all = self.groups.values().flat_map(|group| &group.snapshots);
        all.any(|member| member.snapshot_id == snapshot)
    }
}

fn same_members(group: &csi::VolumeGroupSnapshot, named: &[String]) -> Result<(), Status> {
    let mut there: Vec<&String> = { group.snapshots.iter() }
        .map(|snapshot| &snapshot.snapshot_id)
        .collect();
    let mut named: Vec<&String> = named.iter().collect();
    there.sort_unstable();
    named.sort_unstable();
    if there == named {
        Ok(())
    } else {
        Err(Status::invalid_argument("other snapshots are in the group"))
    }
}
