//! Deletes a VolumeSnapshot: annotates its content, deletes the content if that is the policy,
//! releases its claim, then removes the finalizers.

use std::sync::Arc;

use serde_json::{Value, json};
use sidecar::controller::request::Object as _;
use sidecar::snapshot::{
    BEING_DELETED, CONTENT_BOUND, SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND, SNAPSHOT_IN_GROUP, YES,
};

use super::group::{self, Held};
use super::{Decision, fail, finalizers};
use crate::model::{Content, Policy, Snapshot};
use crate::plan::claim;
use crate::plan::complaint::{Complaint, RequeueTrigger};
use crate::plan::request::{Object, delete, patch, read};
use crate::plan::view::{Next, Purpose, View};

/// The next step until no finalizer of ours is left on the VolumeSnapshot.
pub(super) fn decide(view: &View<'_>, snapshot: &Arc<Snapshot>) -> Decision {
    let ours = [SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND, SNAPSHOT_IN_GROUP];
    if !ours.iter().any(|one| snapshot.holds(one)) {
        return Ok(Next::Done);
    }
    match group::holding(view, snapshot)? {
        Some(Held::By(group)) => {
            let why = "Deleting the group snapshot will trigger the deletion of all the \
                       individual volume snapshots that are part of the group.";
            return Ok(fail(pending(snapshot, group, why)));
        }
        Some(Held::Unserved(group, unread)) => {
            let stays = "Group snapshots are not active in this controller: the volume snapshot \
                         stays until the group snapshot is gone";
            let why = match unread {
                Some(error) => {
                    format!("{stays}; this controller cannot read the group snapshot: {error}")
                }
                None => stays.to_owned(),
            };
            return Ok(fail(pending(snapshot, group, &why)));
        }
        Some(Held::Going(group)) => return Ok(Next::Await(RequeueTrigger::Object(group))),
        Some(Held::Awaited) => return Ok(Next::Done),
        None => {}
    }
    let content = content(view, snapshot)?;
    let deletes = |content: &Arc<Content>| content.policy == Policy::Delete;
    if let Some(content) = &content {
        unless_restoring(view, snapshot)?;
        if let Some(body) = mark(content) {
            return Ok(patch(Purpose::Announce, content.object(), body));
        }
        if deletes(content) && !content.deleting {
            let (uid, version) = (&content.uid, &content.version);
            return Ok(delete(Purpose::Delete, content.object(), uid, version));
        }
    }
    if let Some(claim) = snapshot
        .claim()
        .filter(|_| snapshot.holds(SNAPSHOT_AS_SOURCE))
        && let Some(first) = claim::release(view, &claim, Some(&snapshot.key()))
    {
        return Ok(first);
    }
    // The content's deletion requeues this VolumeSnapshot.
    let waits = content.as_ref().is_some_and(deletes);
    let goes = |held: &&str| match *held {
        SNAPSHOT_BOUND => !waits,
        SNAPSHOT_AS_SOURCE | SNAPSHOT_IN_GROUP => true,
        _ => false,
    };
    let held = snapshot.finalizers.iter().map(|held| &**held);
    let left = held.filter(|held| !goes(held));
    if left.clone().count() == snapshot.finalizers.len() {
        return Ok(Next::Done);
    }
    let body = finalizers(&snapshot.version, left);
    Ok(patch(Purpose::Unprotect, snapshot.object(), body))
}

/// The patch that marks a content as being deleted, with the finalizer if the content is to be
/// deleted: a content without it, because it was just bound or upstream's controller made it, would
/// go before its snapshot.
fn mark(content: &Content) -> Option<Value> {
    let bare = content.policy == Policy::Delete && !content.deleting && !content.is_protected();
    if content.being_deleted && !bare {
        return None;
    }
    let mut metadata = json!({"uid": &*content.uid, "annotations": {BEING_DELETED: YES}});
    if let (true, Some(fields)) = (bare, metadata.as_object_mut()) {
        let held = content.finalizers.iter().map(|held| &**held);
        let held: Vec<&str> = held.chain([CONTENT_BOUND]).collect();
        fields.insert("finalizers".to_owned(), held.into());
        fields.insert("resourceVersion".to_owned(), (&*content.version).into());
    }
    Some(json!({"metadata": metadata}))
}

/// The content that is bound to this VolumeSnapshot.
fn content(view: &View<'_>, snapshot: &Snapshot) -> Decision<Option<Arc<Content>>> {
    let Some(name) = snapshot.content_name() else {
        return Ok(None);
    };
    // Without these finalizers no later attempt looks for the content.
    let content = if snapshot.holds(SNAPSHOT_AS_SOURCE) || snapshot.is_member() {
        view.content(&name)?
    } else {
        view.informers.content(&name)
    };
    // A request of unknown outcome may have bound it.
    let unbound =
        |content: &Arc<Content>| content.names(snapshot) && content.snapshot.uid.is_empty();
    let object = Object::Content(name);
    if content.as_ref().is_some_and(unbound) && view.learnt(&object).is_none() {
        return Err(read(object));
    }
    Ok(content.filter(|content| content.is_of(snapshot)))
}

/// Fails while a claim is being restored from the snapshot.
fn unless_restoring(view: &View<'_>, snapshot: &Snapshot) -> Decision<()> {
    let claims = view.restoring(snapshot);
    match Complaint::restoring("Snapshot", claims) {
        Some(complaint) => Err(fail(complaint)),
        None => Ok(()),
    }
}

fn pending(snapshot: &Snapshot, group: Object, why: &str) -> Complaint {
    let message = format!(
        "deletion of the individual volume snapshot {} is not allowed as it belongs to group \
         snapshot {}. {why}",
        snapshot.key(),
        group.key()
    );
    Complaint::event("SnapshotDeletePending", message).until_changed(group)
}
