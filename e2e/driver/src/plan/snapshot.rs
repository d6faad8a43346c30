//! Snapshots and group snapshots.

use csi_proto::csi;
use tonic::Code;

use super::{Refusal, required};
use crate::model::snapshot::{Group, Snapshot};
use crate::model::state::State;
use crate::model::topology;
use crate::model::volume::{Phase, Volume};

/// The decision about a CreateSnapshot call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Creation {
    /// The snapshot exists.
    Exists(Snapshot),
    /// Its data has to be copied from the volume.
    Make(Snapshot, Box<Volume>),
}

/// ID and time for a new object.
#[derive(Debug, Clone, Copy)]
pub struct Fresh<'a> {
    /// Handle.
    pub id: &'a str,
    /// Seconds since the epoch.
    pub now: i64,
}

/// Decides a CreateSnapshot call.
pub fn create(
    state: &State,
    request: &csi::CreateSnapshotRequest,
    fresh: Fresh<'_>,
) -> Result<Creation, Refusal> {
    let name = required(&request.name, "name")?;
    let source = required(&request.source_volume_id, "source volume ID")?;
    if let Some(existing) = state.snapshot_named(name) {
        if existing.source != source {
            let message = format!("snapshot {} of that name is of another volume", existing.id);
            return Err(Refusal::new(Code::AlreadyExists, message));
        }
        if existing.phase == Phase::Ready {
            return Ok(Creation::Exists(existing.clone()));
        }
        let volume = source_volume(state, source)?;
        return Ok(Creation::Make(existing.clone(), Box::new(volume.clone())));
    }
    let volume = source_volume(state, source)?;
    if !topology::satisfies(
        &volume.topology,
        request.accessibility_requirements.as_ref(),
    ) {
        let message = format!("volume {source} is not in a place the snapshot is wanted in");
        return Err(Refusal::new(Code::ResourceExhausted, message));
    }
    let snapshot = of(volume, name, "", state.sequence + 1, fresh);
    Ok(Creation::Make(snapshot, Box::new(volume.clone())))
}

fn source_volume<'a>(state: &'a State, id: &str) -> Result<&'a Volume, Refusal> {
    let not_found = || Refusal::new(Code::NotFound, format!("volume {id} does not exist"));
    state.volumes.get(id).ok_or_else(not_found)
}

fn of(volume: &Volume, name: &str, group: &str, sequence: u64, fresh: Fresh<'_>) -> Snapshot {
    Snapshot {
        id: fresh.id.to_owned(),
        sequence,
        name: name.to_owned(),
        source: volume.id.clone(),
        size: volume.capacity,
        kind: volume.kind,
        backing: volume.backing,
        fs_type: volume.fs_type.clone(),
        created_seconds: fresh.now,
        group: group.to_owned(),
        topology: volume.topology.clone(),
        phase: Phase::Creating,
    }
}

/// Decides a DeleteSnapshot call: the snapshot whose data has to be deleted, `None` if there is
/// none.
pub fn delete(state: &State, id: &str) -> Result<Option<Snapshot>, Refusal> {
    required(id, "snapshot ID")?;
    let Some(snapshot) = state.snapshots.get(id) else {
        return Ok(None);
    };
    if !snapshot.group.is_empty() && state.groups.contains_key(&snapshot.group) {
        // CSI: a member is deleted with its group.
        let message = format!("snapshot {id} belongs to group {}", snapshot.group);
        return Err(Refusal::new(Code::InvalidArgument, message));
    }
    Ok(Some(Snapshot {
        phase: Phase::Deleting,
        ..snapshot.clone()
    }))
}

/// The snapshots that a ListSnapshots call selects, with their sequence numbers.
pub fn matching<'a>(
    state: &'a State,
    request: &csi::ListSnapshotsRequest,
) -> impl Iterator<Item = (u64, &'a Snapshot)> {
    let (id, source) = (
        request.snapshot_id.clone(),
        request.source_volume_id.clone(),
    );
    let wanted = move |snapshot: &&Snapshot| {
        (id.is_empty() || snapshot.id == id) && (source.is_empty() || snapshot.source == source)
    };
    state
        .snapshots
        .values()
        .filter(wanted)
        .map(|snapshot| (snapshot.sequence, snapshot))
}

/// The decision about a CreateVolumeGroupSnapshot call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupCreation {
    /// The group exists.
    Exists(Group),
    /// These snapshots have to be copied.
    Make(Group, Vec<(Snapshot, Volume)>),
}

/// Decides a CreateVolumeGroupSnapshot call; a snapshot's ID is the group's ID with a number.
pub fn create_group(
    state: &State,
    request: &csi::CreateVolumeGroupSnapshotRequest,
    fresh: Fresh<'_>,
) -> Result<GroupCreation, Refusal> {
    let name = required(&request.name, "name")?;
    let mut sources = request.source_volume_ids.clone();
    sources.sort();
    sources.dedup();
    if sources.is_empty() || sources.iter().any(String::is_empty) {
        return Err(Refusal::new(
            Code::InvalidArgument,
            "source volume IDs missing in request",
        ));
    }
    if let Some(existing) = state.groups.values().find(|group| group.name == name) {
        if existing.sources == sources {
            return Ok(GroupCreation::Exists(existing.clone()));
        }
        let message = format!("group {} of that name has other volumes", existing.id);
        return Err(Refusal::new(Code::AlreadyExists, message));
    }
    let mut copies = Vec::new();
    for (sequence, (number, source)) in (state.sequence + 1..).zip(sources.iter().enumerate()) {
        let volume = source_volume(state, source)?;
        let id = format!("{}-{number}", fresh.id);
        let member = Fresh {
            id: &id,
            now: fresh.now,
        };
        let member_name = format!("{name}-{number}");
        copies.push((
            of(volume, &member_name, fresh.id, sequence, member),
            volume.clone(),
        ));
    }
    let group = Group {
        id: fresh.id.to_owned(),
        name: name.to_owned(),
        snapshots: copies
            .iter()
            .map(|(snapshot, _)| snapshot.id.clone())
            .collect(),
        sources,
        created_seconds: fresh.now,
    };
    Ok(GroupCreation::Make(group, copies))
}

/// The group that a call names, `None` if there is none; fails if `members` are not its members.
pub fn group<'a>(
    state: &'a State,
    id: &str,
    members: &[String],
) -> Result<Option<&'a Group>, Refusal> {
    required(id, "group snapshot ID")?;
    let Some(group) = state.groups.get(id) else {
        return Ok(None);
    };
    match members
        .iter()
        .find(|member| !group.snapshots.contains(member))
    {
        Some(stranger) => {
            let message = format!("snapshot {stranger} is not in group {id}");
            Err(Refusal::new(Code::InvalidArgument, message))
        }
        None => Ok(Some(group)),
    }
}

/// The message of a group.
pub fn group_message(state: &State, group: &Group) -> csi::VolumeGroupSnapshot {
    let members = group
        .snapshots
        .iter()
        .filter_map(|id| state.snapshots.get(id));
    let snapshots: Vec<csi::Snapshot> = members.map(|snapshot| snapshot.message(true)).collect();
    csi::VolumeGroupSnapshot {
        group_snapshot_id: group.id.clone(),
        ready_to_use: snapshots.iter().all(|snapshot| snapshot.ready_to_use),
        snapshots,
        creation_time: Some(prost_types::Timestamp {
            seconds: group.created_seconds,
            nanos: 0,
        }),
    }
}

#[cfg(test)]
#[path = "snapshot/tests.rs"]
mod tests;
