//! The steps that delete a snapshot and release its content.
//!
//! Deletion cannot be undone: the script acts on the content's current policy, and keeps the
//! content until the snapshot is deleted.

use csi_proto::csi::{DeleteSnapshotRequest, DeleteVolumeGroupSnapshotRequest};

use super::attempt::{Attempt, End, Next};
use super::goal::deletes;
use super::outcome::{Problem, Task};
use super::request::{Call, ContentWrite, StatusWrite, Use};
use super::secret::{self, Unnamed};
use super::{View, patch};
use crate::model::{Content, Kind, Source};

/// The next request.
pub(super) fn decide(attempt: &Attempt, view: &View<'_>) -> Next {
    let content = view.content;
    let deleted = attempt.has_deleted();
    if let Some(handle) = deletes(content).filter(|_| !deleted) {
        let secret = match secret::annotated(content) {
            Ok(secret) => secret,
            Err(Unnamed) => return Next::Fail(Task::Delete, Problem::Unnamed),
        };
        let Some(secrets) = attempt.secrets(secret.as_ref()) else {
            return Next::load(Use::Delete, secret);
        };
        if content.kind() == Kind::Group {
            let snapshot_ids = members(content);
            if snapshot_ids.is_empty() {
                return Next::Fail(Task::Delete, Problem::NoMembers);
            }
            let request = DeleteVolumeGroupSnapshotRequest {
                group_snapshot_id: handle.to_string(),
                snapshot_ids,
                secrets,
            };
            return Next::call(Call::DeleteGroup(request.into()));
        }
        let request = DeleteSnapshotRequest {
            snapshot_id: handle.to_string(),
            secrets,
        };
        return Next::call(Call::Delete(request.into()));
    }
    if let Some(body) = patch::clear(content).filter(|_| deleted) {
        return Next::ask(view.patch_status(StatusWrite::Clear, body));
    }
    if content.is_protected() {
        Next::ask(view.patch(ContentWrite::Release, patch::release(content)))
    } else {
        Next::End(End::Done)
    }
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
