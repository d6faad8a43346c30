//! The controller's snapshot calls.

use csi_proto::csi;
use tonic::Status;

use super::model::{ControllerRpc, Model, require};
use super::volume::page;

impl Model {
    pub(super) fn create_snapshot(
        &mut self,
        request: &csi::CreateSnapshotRequest,
    ) -> Result<csi::CreateSnapshotResponse, Status> {
        self.needs(ControllerRpc::CreateDeleteSnapshot)?;
        require(&[
            ("name", !request.name.is_empty()),
            ("source_volume_id", !request.source_volume_id.is_empty()),
        ])?;
        if let Some(id) = self.snapshot_names.get(&request.name) {
            let snapshot = self.snapshots.get(id).cloned();
            let same = snapshot
                .as_ref()
                .is_some_and(|snapshot| snapshot.source_volume_id == request.source_volume_id);
            if !same {
                return Err(Status::already_exists(
                    "the name is taken by a snapshot of another volume",
                ));
            }
            return Ok(csi::CreateSnapshotResponse { snapshot });
        }
        let size_bytes = self.known(&request.source_volume_id)?.capacity;
        self.made += 1;
        let snapshot = csi::Snapshot {
            size_bytes,
            snapshot_id: format!("snap-{}", self.made),
            source_volume_id: request.source_volume_id.clone(),
            creation_time: Some(prost_types::Timestamp {
                seconds: 1_577_836_800,
                nanos: 0,
            }),
            ready_to_use: true,
            ..csi::Snapshot::default()
        };
        self.snapshot_names
            .insert(request.name.clone(), snapshot.snapshot_id.clone());
        self.snapshots
            .insert(snapshot.snapshot_id.clone(), snapshot.clone());
        Ok(csi::CreateSnapshotResponse {
            snapshot: Some(snapshot),
        })
    }

    pub(super) fn delete_snapshot(
        &mut self,
        request: &csi::DeleteSnapshotRequest,
    ) -> Result<csi::DeleteSnapshotResponse, Status> {
        self.needs(ControllerRpc::CreateDeleteSnapshot)?;
        require(&[("snapshot_id", !request.snapshot_id.is_empty())])?;
        if self.is_member(&request.snapshot_id) {
            return Err(Status::invalid_argument("the snapshot is in a group"));
        }
        self.snapshots.remove(&request.snapshot_id);
        self.snapshot_names
            .retain(|_, id| *id != request.snapshot_id);
        Ok(csi::DeleteSnapshotResponse {})
    }

    pub(super) fn list_snapshots(
        &mut self,
        request: &csi::ListSnapshotsRequest,
    ) -> Result<csi::ListSnapshotsResponse, Status> {
        use csi::list_snapshots_response::Entry;
        self.needs(ControllerRpc::ListSnapshots)?;
        let mut wanted = self.snapshots.clone();
        wanted.retain(|id, snapshot| {
            (request.snapshot_id.is_empty() || *id == request.snapshot_id)
                && (request.source_volume_id.is_empty()
                    || snapshot.source_volume_id == request.source_volume_id)
        });
        let (page, next_token) = page(&wanted, &request.starting_token, request.max_entries)?;
        let entry = |(_, snapshot): (_, &csi::Snapshot)| Entry {
            snapshot: Some(snapshot.clone()),
        };
        Ok(csi::ListSnapshotsResponse {
            entries: page.into_iter().map(entry).collect(),
            next_token,
        })
    }

    pub(super) fn get_snapshot(
        &mut self,
        request: &csi::GetSnapshotRequest,
    ) -> Result<csi::GetSnapshotResponse, Status> {
        self.needs(ControllerRpc::GetSnapshot)?;
        let snapshot = self.snapshots.get(&request.snapshot_id).cloned();
        let snapshot = snapshot.ok_or_else(|| Status::not_found("no such snapshot"))?;
        Ok(csi::GetSnapshotResponse {
            snapshot: Some(snapshot),
        })
    }
}
