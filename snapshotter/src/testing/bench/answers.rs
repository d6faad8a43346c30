//! The driver's responses, for scripts of the bench.

use csi_proto::csi::list_snapshots_response::Entry;
use csi_proto::csi::{
    CreateSnapshotResponse, CreateVolumeGroupSnapshotResponse, GetSnapshotResponse,
    GetVolumeGroupSnapshotResponse, ListSnapshotsResponse, Snapshot, VolumeGroupSnapshot,
};
use tonic::Code;

use crate::plan::outcome::RpcError;

/// The driver's next response, whatever the call.
#[derive(Debug)]
pub(crate) enum Answer {
    Created(CreateSnapshotResponse),
    Listed(ListSnapshotsResponse),
    Got(GetSnapshotResponse),
    GroupCreated(CreateVolumeGroupSnapshotResponse),
    GroupGot(GetVolumeGroupSnapshotResponse),
    Failed(RpcError),
}

/// The response of the fixture's driver.
pub(crate) fn snapshot(ready: bool) -> Snapshot {
    Snapshot {
        size_bytes: 1 << 30,
        snapshot_id: "snap-1".into(),
        source_volume_id: "vol-1".into(),
        creation_time: Some(prost_types::Timestamp {
            seconds: 1_767_323_045,
            nanos: 0,
        }),
        ready_to_use: ready,
        ..Snapshot::default()
    }
}

/// The response of the fixture's driver about a group: its second snapshot has no size, and is as
/// ready as the group.
pub(crate) fn group(ready: bool) -> VolumeGroupSnapshot {
    let second = Snapshot {
        snapshot_id: "snap-2".into(),
        source_volume_id: "vol-2".into(),
        size_bytes: 0,
        ..snapshot(ready)
    };
    VolumeGroupSnapshot {
        group_snapshot_id: "grp-1".into(),
        snapshots: vec![snapshot(true), second],
        creation_time: snapshot(true).creation_time,
        ready_to_use: ready,
    }
}

pub(crate) fn created(snapshot: Snapshot) -> Answer {
    let snapshot = Some(snapshot);
    Answer::Created(CreateSnapshotResponse { snapshot })
}

pub(crate) fn got(snapshot: Snapshot) -> Answer {
    let snapshot = Some(snapshot);
    Answer::Got(GetSnapshotResponse { snapshot })
}

pub(crate) fn group_created(group: VolumeGroupSnapshot) -> Answer {
    let group_snapshot = Some(group);
    Answer::GroupCreated(CreateVolumeGroupSnapshotResponse { group_snapshot })
}

pub(crate) fn group_got(group: VolumeGroupSnapshot) -> Answer {
    let group_snapshot = Some(group);
    Answer::GroupGot(GetVolumeGroupSnapshotResponse { group_snapshot })
}

/// One page of a list.
pub(crate) fn listed(ids: &[&str], next: &str, change: impl Fn(&mut Snapshot)) -> Answer {
    let entries = ids.iter().map(|id| {
        let mut found = snapshot(true);
        found.snapshot_id = (*id).to_owned();
        found.size_bytes = 5;
        change(&mut found);
        Entry {
            snapshot: Some(found),
        }
    });
    Answer::Listed(ListSnapshotsResponse {
        entries: entries.collect(),
        next_token: next.to_owned(),
    })
}

pub(crate) fn fails(code: Code, message: &str) -> Answer {
    let message = message.to_owned();
    Answer::Failed(RpcError { code, message })
}
