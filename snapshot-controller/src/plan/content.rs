//! The next step for a VolumeSnapshotContent: the controller adds the finalizer once it is bound, and nothing else.
//!
//! A content is deleted only for the deletion of its VolumeSnapshot. A missing VolumeSnapshot proves nothing: manifests
//! are copied from cluster to cluster.

use std::sync::Arc;

use sidecar::snapshot::CONTENT_BOUND;

use super::complaint::Complaint;
use super::group::members::Names;
use super::request::{Object, delete, patch, read};
use super::snapshot::{finalizers, unprotected};
use super::view::{Next, Purpose, View};
use crate::model::{Content, ContentSource, GroupContent, Policy};

/// Reason of the event about a content that nothing will ever delete.
pub const ORPHANED: &str = "SnapshotContentOrphaned";

/// The next step for `content`, the newest object that this process knows.
#[must_use]
pub fn decide(view: &View<'_>, content: &Arc<Content>) -> Next {
    if content.source == ContentSource::Unclear {
        return Next::Fail(Box::new(Complaint::event(
            "ContentValidationError",
            "Exactly one of VolumeHandle and SnapshotHandle should be specified",
        )));
    }
    if content.snapshot.uid.is_empty() {
        return left_over(view, content).unwrap_or_else(|first| first);
    }
    if !content.deleting && !content.is_protected() {
        let held = content.finalizers.iter().map(|held| &**held);
        let body = finalizers(&content.version, held.chain([CONTENT_BOUND]));
        return patch(Purpose::ContentFinalizer, content.object(), body);
    }
    if content.deleting && !content.being_deleted && content.is_protected() {
        return orphaned(view, content).unwrap_or_else(|first| first);
    }
    Next::Done
}

/// Deletes a content that was made for a member of a group that is gone: it has no snapshot of its own and nobody needs
/// it. The group's content existed before it. That content may be kept, and another group may then have the same
/// handle.
fn left_over(view: &View<'_>, content: &Content) -> Result<Next, Next> {
    let half = content.is_half() && !content.deleting;
    let Some(handle) = content.made_for().filter(|_| half) else {
        return Ok(Next::Done);
    };
    if !view.informers.groups() {
        return Ok(Next::Done);
    }
    let groups = view.in_flight.groups_of(&handle);
    let mut groups = groups.filter_map(|name| view.informers.group_content(name));
    if let Some(of) = groups.find(|of| has_made(of, content)) {
        let group = view.group(&of.group_key())?;
        if group.is_some_and(|group| of.is_of(&group)) {
            return Ok(Next::Done);
        }
    }
    let object = content.object();
    Ok(delete(
        Purpose::Member,
        object,
        &content.uid,
        &content.version,
    ))
}

/// Whether the content is a member's of this group: the member names of two groups differ.
fn has_made(group: &GroupContent, content: &Content) -> bool {
    let mut members = group.members().iter();
    members.any(|member| Names::new(&group.group.uid, &member.volume).content == content.name)
}

/// The content waits for a VolumeSnapshot to be deleted. If that does not exist, a retained content loses our finalizer,
/// since its snapshot stays; any other one waits for its owner, who gets one event.
fn orphaned(view: &View<'_>, content: &Content) -> Result<Next, Next> {
    let retained = content.policy == Policy::Retain;
    if !retained && view.in_flight.is_reported_orphan(&content.uid) {
        return Ok(Next::Done);
    }
    let snapshot = view.snapshot(&content.snapshot_key())?;
    if snapshot.is_some_and(|snapshot| content.is_of(&snapshot)) {
        return Ok(Next::Done);
    }
    if retained {
        // The cached object may be an older one of the same name, so ask the API server.
        let object = Object::Snapshot(content.snapshot_key());
        if view.learnt(&object).is_none() {
            return Err(read(object));
        }
        let body = unprotected(&content.version, &content.finalizers, CONTENT_BOUND);
        return Ok(patch(Purpose::ContentFinalizer, content.object(), body));
    }
    let (namespace, name) = (&content.snapshot.namespace, &content.snapshot.name);
    let message = format!(
        "VolumeSnapshot {namespace}/{name} of this content is gone, so nothing will delete its \
         snapshot. To delete the content and keep the snapshot, set its deletionPolicy to Retain; to \
         delete both, set the annotation snapshot.storage.kubernetes.io/volumesnapshot-being-deleted \
         to yes"
    );
    Ok(Next::Fail(Box::new(Complaint::event(ORPHANED, message))))
}
