//! The script that deletes a snapshot and releases its content.
//!
//! Deletion cannot be undone: the script acts on the content's current policy, and keeps the
//! content until the snapshot is deleted.

use csi_proto::csi::{DeleteSnapshotRequest, DeleteVolumeGroupSnapshotRequest};
use sidecar::controller::script;

use super::ask::Ask;
use super::attempt::{End, Flow};
use super::goal::deletes;
use super::outcome::{Problem, Task};
use super::patch;
use super::request::{Call, ContentWrite};
use crate::model::{Content, Kind, Source, Text};

pub(super) fn delete(ask: Ask<'_>) -> Flow<End> {
    let content = ask.view.content;
    if ask.attempt.start.deleted {
        ask.clear()?;
    } else if let Some(handle) = deletes(content) {
        return delete_snapshot(ask, handle);
    }
    let release = content.is_protected().then(|| patch::release(content));
    ask.content(ContentWrite::Release, release)?;
    Ok(End::Done)
}

fn delete_snapshot(ask: Ask<'_>, handle: &Text) -> Flow<End> {
    let (view, content) = (ask.view, ask.view.content);
    let secrets = ask.annotated_secret(Task::Delete)?;
    if content.kind() == Kind::Single {
        let snapshot_id = handle.to_string();
        return script::call(Call::Delete(view.call(DeleteSnapshotRequest {
            snapshot_id,
            secrets,
        })));
    }
    let snapshot_ids = members(content);
    if snapshot_ids.is_empty() {
        return Ok(ask.fails(Task::Delete, Problem::NoMembers));
    }
    let request = DeleteVolumeGroupSnapshotRequest {
        group_snapshot_id: handle.to_string(),
        snapshot_ids,
        secrets,
    };
    script::call(Call::DeleteGroup(view.call(request)))
}

/// Handles of the group's snapshots: the recorded ones, else the pre-provisioned ones.
fn members(content: &Content) -> Vec<String> {
    let status = content.status.as_ref();
    let members = status.into_iter().flat_map(|status| &*status.members);
    let on_record = members.map(|member| member.handle.to_string());
    let on_record: Vec<String> = on_record.filter(|handle| !handle.is_empty()).collect();
    match &content.source {
        Some(Source::Group(named)) if on_record.is_empty() => {
            named.snapshots.iter().map(ToString::to_string).collect()
        }
        Some(Source::Volume(_) | Source::Snapshot(_) | Source::Volumes(_) | Source::Group(_))
        | None => on_record,
    }
}
