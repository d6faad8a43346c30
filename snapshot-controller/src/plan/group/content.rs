//! The next step for a VolumeGroupSnapshotContent: the controller adds the finalizer once it is bound, and nothing
//! else. It reports a content that waits for the deletion of a VolumeGroupSnapshot that does not exist.

use sidecar::snapshot::{GROUP_BEING_DELETED, GROUP_CONTENT_BOUND};

use super::{Decision, fail};
use crate::model::{ContentSource, GroupContent, Policy};
use crate::plan::complaint::Complaint;
use crate::plan::request::{Object, patch, read};
use crate::plan::snapshot::{finalizers, unprotected};
use crate::plan::view::{Next, Purpose, View};

/// Reason of the event about a group's content that nothing will ever delete.
pub const ORPHANED: &str = "GroupSnapshotContentOrphaned";

/// The next step for `content`, the newest object that this process knows.
#[must_use]
pub fn decide(view: &View<'_>, content: &GroupContent) -> Next {
    if content.source == ContentSource::Unclear {
        return fail(Complaint::event(
            "GroupContentValidationError",
            "Exactly one of GroupSnapshotHandles and VolumeHandles should be specified",
        ));
    }
    if content.group.uid.is_empty() {
        return Next::Done;
    }
    if content.deleting && !content.being_deleted && content.is_protected() {
        return orphaned(view, content).unwrap_or_else(|first| first);
    }
    if content.deleting || content.is_protected() {
        return Next::Done;
    }
    let held = content.finalizers.iter().map(|held| &**held);
    let body = finalizers(&content.version, held.chain([GROUP_CONTENT_BOUND]));
    patch(Purpose::ContentFinalizer, content.object(), body)
}

/// The content waits for a VolumeGroupSnapshot to be deleted. If that does not exist, a retained content loses our
/// finalizer, since its group snapshot stays; any other one waits for its owner, who gets one event.
fn orphaned(view: &View<'_>, content: &GroupContent) -> Decision {
    let retained = content.policy == Policy::Retain;
    if !retained && view.in_flight.is_reported_orphan(&content.uid) {
        return Ok(Next::Done);
    }
    let key = content.group_key();
    let group = view.group(&key)?;
    if group.is_some_and(|group| content.is_of(&group)) {
        return Ok(Next::Done);
    }
    if retained {
        // The cached object may be an older one of the same name, so ask the API server.
        let object = Object::Group(key);
        if view.learnt(&object).is_none() {
            return Err(read(object));
        }
        let body = unprotected(&content.version, &content.finalizers, GROUP_CONTENT_BOUND);
        return Ok(patch(Purpose::ContentFinalizer, content.object(), body));
    }
    let message = format!(
        "VolumeGroupSnapshot {key} of this content is gone, so nothing will delete its group \
         snapshot. To delete the content and keep the group snapshot, set its deletionPolicy to Retain; \
         to delete both, set the annotation {GROUP_BEING_DELETED} to yes"
    );
    Ok(fail(Complaint::event(ORPHANED, message)))
}
