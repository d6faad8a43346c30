//! The model driver's answers about its snapshots.

use csi_proto::csi::list_snapshots_response::Entry;
use csi_proto::csi::{
    CreateSnapshotResponse, CreateVolumeGroupSnapshotResponse, GetVolumeGroupSnapshotResponse,
    ListSnapshotsResponse, Snapshot, Topology, VolumeGroupSnapshot,
};
use sidecar_testkit::sim::storage::{full, plain};
use tonic::Code;

use super::users::members;
use super::world::World;
use crate::model::Text;

impl World {
    pub(super) fn get_group(
        &mut self,
        handle: &str,
    ) -> Result<GetVolumeGroupSnapshotResponse, Code> {
        let handle = plain(handle);
        let Some(found) = self.driver.snapshots.get_mut(handle) else {
            return Err(Code::NotFound);
        };
        let ready = found.unready == 0;
        found.unready = found.unready.saturating_sub(1);
        let mut answer = group(handle, found.size, ready);
        if spells(handle) {
            answer.group_snapshot_id = full(handle);
        }
        let group_snapshot = Some(answer);
        Ok(GetVolumeGroupSnapshotResponse { group_snapshot })
    }

    pub(super) fn list(&mut self, handle: &str, token: &str) -> ListSnapshotsResponse {
        let entry = |handle: &str, size, ready| Entry {
            snapshot: Some(Snapshot {
                snapshot_id: handle.to_owned(),
                size_bytes: size,
                ready_to_use: ready,
                accessible_topology: there(),
                ..Snapshot::default()
            }),
        };
        let mut entries = Vec::new();
        let spelled = spells(handle);
        let (paged, crowded) = (self.dice.one_in(3), self.dice.one_in(3));
        let (paged, crowded) = (paged && !spelled, crowded && !spelled);
        let first = token.is_empty();
        if crowded {
            entries.extend([1, 2].map(|number| entry(&format!("another-{number}"), 77, true)));
        }
        let full = spelled.then(|| full(plain(handle)));
        if !first || !paged {
            let found = self.driver.snapshots.get_mut(plain(handle));
            entries.extend(found.map(|found| {
                let ready = found.unready == 0;
                found.unready = found.unready.saturating_sub(1);
                entry(full.as_deref().unwrap_or(handle), found.size, ready)
            }));
        }
        let next_token = if first && paged {
            "2".to_owned()
        } else {
            String::new()
        };
        ListSnapshotsResponse {
            entries,
            next_token,
        }
    }

    /// Handle, size and readiness of the snapshot that was requested under this name.
    fn taken_as(&mut self, content: &Text, name: &str) -> Result<(Text, i64, bool), Code> {
        let handle = self.driver.named(name).cloned().ok_or(Code::Internal)?;
        let found = self.driver.snapshots.get_mut(&handle).unwrap();
        let ready = found.unready == 0;
        found.unready = found.unready.saturating_sub(1);
        let size = found.size;
        if !ready {
            self.truth(content).calls.1 += 1;
        }
        Ok((handle, size, ready))
    }

    pub(super) fn group_created(
        &mut self,
        content: &Text,
        name: &str,
    ) -> Result<CreateVolumeGroupSnapshotResponse, Code> {
        let (handle, size, ready) = self.taken_as(content, name)?;
        let mut group = group(&handle, size, ready);
        if self.faulty() && self.dice.one_in(8) {
            group.snapshots.pop();
        }
        let group_snapshot = Some(group);
        Ok(CreateVolumeGroupSnapshotResponse { group_snapshot })
    }

    pub(super) fn created(
        &mut self,
        content: &Text,
        name: &str,
    ) -> Result<CreateSnapshotResponse, Code> {
        let (handle, size_bytes, ready) = self.taken_as(content, name)?;
        let snapshot = Some(Snapshot {
            snapshot_id: handle.to_string(),
            size_bytes,
            ready_to_use: ready,
            accessible_topology: there(),
            ..Snapshot::default()
        });
        Ok(CreateSnapshotResponse { snapshot })
    }
}

/// Whether the driver spells this handle longer than administrators do.
fn spells(handle: &str) -> bool {
    plain(handle).ends_with(['2', '5', '8'])
}

/// The topology of every snapshot.
fn there() -> Vec<Topology> {
    vec![Topology {
        segments: [("zone".to_owned(), "a".to_owned())].into(),
    }]
}

/// Completes an answer about a group, as a mutant does.
pub(super) fn make_up(group: &mut VolumeGroupSnapshot) {
    if group.snapshots.len() == 1 {
        group.snapshots.push(Snapshot {
            snapshot_id: "made up".into(),
            source_volume_id: "vol-2".into(),
            ..Snapshot::default()
        });
    }
}

/// A group of two members, the first of which is ready at once.
pub(super) fn group(handle: &str, size_bytes: i64, ready: bool) -> VolumeGroupSnapshot {
    let snapshots = members(handle).into_iter().enumerate();
    let snapshots = snapshots.map(|(number, snapshot_id)| Snapshot {
        snapshot_id,
        source_volume_id: format!("vol-{}", number + 1),
        size_bytes,
        ready_to_use: ready || number == 0,
        ..Snapshot::default()
    });
    VolumeGroupSnapshot {
        group_snapshot_id: handle.to_owned(),
        snapshots: snapshots.collect(),
        ready_to_use: ready,
        ..VolumeGroupSnapshot::default()
    }
}
