//! Snapshots and group snapshots.

use csi_proto::csi;
use tonic::Code;

use super::Driver;
use super::controller::fresh;
use crate::clock;
use crate::model::snapshot::Snapshot;
use crate::model::state::Change;
use crate::model::volume::{Phase, Volume};
use crate::plan::snapshot::{self, Creation, Fresh, GroupCreation};
use crate::plan::{Refusal, page, required};

impl Driver {
    fn ready(&self) -> bool {
        self.settings().snapshots_ready
    }

    /// CreateSnapshot.
    pub fn create_snapshot(
        &self,
        request: &csi::CreateSnapshotRequest,
    ) -> Result<csi::CreateSnapshotResponse, Refusal> {
        let _guard = self.busy.take(format!("snapshot name {}", request.name))?;
        let id = fresh("snap")?;
        let now = clock::now_seconds();
        let decided = self.store.transact(|state| {
            let decided = snapshot::create(state, request, Fresh { id: &id, now })?;
            let changes = match &decided {
                Creation::Exists(_) => Vec::new(),
                Creation::Make(snapshot, _) => vec![Change::PutSnapshot(snapshot.clone())],
            };
            Ok::<_, Refusal>((changes, decided))
        })?;
        let snapshot = match decided {
            Creation::Exists(snapshot) => snapshot,
            Creation::Make(snapshot, volume) => self.take_snapshot(snapshot, &volume)?,
        };
        // Topologies are optional here, and csi-sanity 5.6.0 rejects every response with them: it
        // compares its messages by their memory. GetSnapshot and ListSnapshots have them.
        let message = csi::Snapshot {
            accessible_topology: Vec::new(),
            ..snapshot.message(self.ready())
        };
        Ok(csi::CreateSnapshotResponse {
            snapshot: Some(message),
        })
    }

    /// Copies the data; forgets the snapshot again if that fails.
    fn take_snapshot(&self, snapshot: Snapshot, volume: &Volume) -> Result<Snapshot, Refusal> {
        if let Err(error) = self.targets.storage.take(&snapshot, volume) {
            // The first error is the one to report.
            let _ = self.targets.storage.remove_snapshot(&snapshot);
            self.change(vec![Change::DropSnapshot(snapshot.id)])?;
            return Err(error.into());
        }
        let ready = Snapshot {
            phase: Phase::Ready,
            ..snapshot
        };
        self.change(vec![Change::PutSnapshot(ready.clone())])?;
        Ok(ready)
    }

    /// DeleteSnapshot.
    pub fn delete_snapshot(
        &self,
        request: &csi::DeleteSnapshotRequest,
    ) -> Result<csi::DeleteSnapshotResponse, Refusal> {
        let _guard = self
            .busy
            .take(format!("snapshot {}", request.snapshot_id))?;
        let doomed = self.store.transact(|state| {
            let doomed = snapshot::delete(state, &request.snapshot_id)?;
            Ok::<_, Refusal>((
                doomed
                    .clone()
                    .map(Change::PutSnapshot)
                    .into_iter()
                    .collect(),
                doomed,
            ))
        })?;
        if let Some(snapshot) = doomed {
            self.targets.storage.remove_snapshot(&snapshot)?;
            self.change(vec![Change::DropSnapshot(snapshot.id)])?;
        }
        Ok(csi::DeleteSnapshotResponse {})
    }

    /// ListSnapshots.
    pub fn list_snapshots(
        &self,
        request: &csi::ListSnapshotsRequest,
    ) -> Result<csi::ListSnapshotsResponse, Refusal> {
        let (snapshots, next_token) = self.store.read(|state| {
            let matching = snapshot::matching(state, request);
            let all = matching.map(|(sequence, snapshot)| (sequence, snapshot.clone()));
            page::page(all, &request.starting_token, request.max_entries)
        })??;
        let ready = self.ready();
        let entry = |snapshot: Snapshot| csi::list_snapshots_response::Entry {
            snapshot: Some(snapshot.message(ready)),
        };
        let entries = snapshots.into_iter().map(entry).collect();
        Ok(csi::ListSnapshotsResponse {
            entries,
            next_token,
        })
    }

    /// GetSnapshot.
    pub fn get_snapshot(
        &self,
        request: &csi::GetSnapshotRequest,
    ) -> Result<csi::GetSnapshotResponse, Refusal> {
        let id = required(&request.snapshot_id, "snapshot ID")?;
        let found = self.store.read(|state| state.snapshots.get(id).cloned())?;
        let not_found = || Refusal::new(Code::NotFound, format!("snapshot {id} does not exist"));
        let snapshot = found.ok_or_else(not_found)?.message(self.ready());
        Ok(csi::GetSnapshotResponse {
            snapshot: Some(snapshot),
        })
    }

    /// CreateVolumeGroupSnapshot.
    pub fn create_group(
        &self,
        request: &csi::CreateVolumeGroupSnapshotRequest,
    ) -> Result<csi::CreateVolumeGroupSnapshotResponse, Refusal> {
        let _guard = self.busy.take(format!("group name {}", request.name))?;
        let id = fresh("group")?;
        let now = clock::now_seconds();
        let decided = self.store.transact(|state| {
            let decided = snapshot::create_group(state, request, Fresh { id: &id, now })?;
            let changes = match &decided {
                GroupCreation::Exists(_) => Vec::new(),
                GroupCreation::Make(_, copies) => copies
                    .iter()
                    .map(|(snapshot, _)| Change::PutSnapshot(snapshot.clone()))
                    .collect(),
            };
            Ok::<_, Refusal>((changes, decided))
        })?;
        let group = match decided {
            GroupCreation::Exists(group) => group,
            GroupCreation::Make(group, copies) => {
                for (snapshot, volume) in copies {
                    self.take_snapshot(snapshot, &volume)?;
                }
                // The group is written last, so that it is either complete or does not exist.
                self.change(vec![Change::PutGroup(group.clone())])?;
                group
            }
        };
        let message = self
            .store
            .read(|state| snapshot::group_message(state, &group))?;
        Ok(csi::CreateVolumeGroupSnapshotResponse {
            group_snapshot: Some(message),
        })
    }

    /// DeleteVolumeGroupSnapshot.
    pub fn delete_group(
        &self,
        request: &csi::DeleteVolumeGroupSnapshotRequest,
    ) -> Result<csi::DeleteVolumeGroupSnapshotResponse, Refusal> {
        let id = &request.group_snapshot_id;
        let _guard = self.busy.take(format!("group {id}"))?;
        let members = self.store.read(|state| {
            let group = snapshot::group(state, id, &request.snapshot_ids)?;
            let members = group.into_iter().flat_map(|group| &group.snapshots);
            Ok::<_, Refusal>(
                members
                    .filter_map(|id| state.snapshots.get(id))
                    .cloned()
                    .collect::<Vec<_>>(),
            )
        })??;
        let mut changes = vec![Change::DropGroup(id.clone())];
        for snapshot in members {
            self.targets.storage.remove_snapshot(&snapshot)?;
            changes.push(Change::DropSnapshot(snapshot.id));
        }
        self.change(changes)?;
        Ok(csi::DeleteVolumeGroupSnapshotResponse {})
    }

    /// GetVolumeGroupSnapshot.
    pub fn get_group(
        &self,
        request: &csi::GetVolumeGroupSnapshotRequest,
    ) -> Result<csi::GetVolumeGroupSnapshotResponse, Refusal> {
        let id = &request.group_snapshot_id;
        let message = self.store.read(|state| {
            let group = snapshot::group(state, id, &request.snapshot_ids)?;
            Ok::<_, Refusal>(group.map(|group| snapshot::group_message(state, group)))
        })??;
        let not_found = || Refusal::new(Code::NotFound, format!("group {id} does not exist"));
        Ok(csi::GetVolumeGroupSnapshotResponse {
            group_snapshot: Some(message.ok_or_else(not_found)?),
        })
    }
}
