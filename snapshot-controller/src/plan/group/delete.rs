//! Deletes a VolumeGroupSnapshot: annotates its content, deletes the content if that is the policy,
//! deletes the members, then removes the finalizer. The members end after it, since their snapshots are
//! deleted with the group's.

use std::sync::Arc;

use serde_json::{Value, json};
use sidecar::snapshot::{
    GROUP_BEING_DELETED, GROUP_CONTENT_BOUND, GROUP_SNAPSHOT_BOUND, YES, group_content_name,
};

use super::members::Names;
use super::{Decision, fail};
use crate::model::{Group, GroupContent, GroupSource, Policy, Snapshot, Text, key};
use crate::plan::complaint::Complaint;
use crate::plan::request::{Object, delete, patch, read};
use crate::plan::snapshot::finalizers;
use crate::plan::view::{Next, Purpose, View};

/// The next step until no finalizer of ours is left on the VolumeGroupSnapshot.
pub(super) fn decide(view: &View<'_>, group: &Arc<Group>) -> Decision {
    if !group.is_protected() {
        return Ok(Next::Done);
    }
    let content = content(view, group)?;
    unless_restoring(view, group)?;
    let deletes = |content: &GroupContent| content.policy == Policy::Delete;
    if let Some(content) = &content {
        if let Some(body) = mark(content) {
            return Ok(patch(Purpose::Announce, content.object(), body));
        }
        if let Some(half) = half(view, group, content) {
            return Ok(half);
        }
        if deletes(content) && !content.deleting {
            let (uid, version) = (&content.uid, &content.version);
            return Ok(delete(Purpose::Delete, content.object(), uid, version));
        }
    }
    if let Some(member) = members(view, group).find(|member| !member.deleting) {
        return Ok(delete_member(&member));
    }
    // The content's deletion requeues this group.
    if content.as_deref().is_some_and(deletes) {
        return Ok(Next::Done);
    }
    let held = group.finalizers.iter().map(|held| &**held);
    let left = held.filter(|held| *held != GROUP_SNAPSHOT_BOUND);
    let body = finalizers(&group.version, left);
    Ok(patch(Purpose::Unprotect, group.object(), body))
}

/// The VolumeSnapshots of the group.
fn members<'a>(view: &'a View<'_>, group: &'a Group) -> impl Iterator<Item = Arc<Snapshot>> + 'a {
    let keys = view.in_flight.members(&group.uid);
    let known = keys.filter_map(|key| view.informers.snapshot(key));
    // The cache may still have a member that this attempt knows to be gone.
    known.filter(|member| !view.is_gone(&member.object()))
}

/// Deletes a member's content that was made and never bound: nothing else would.
fn half(view: &View<'_>, group: &Group, of: &GroupContent) -> Option<Next> {
    let content = of.members().iter().find_map(|member| {
        let names = Names::new(&group.uid, &member.volume);
        let content = view.informers.content(&names.content)?;
        let ours = content.snapshot_key() == key(&group.namespace, &names.snapshot);
        let there = !content.deleting && !view.is_gone(&content.object());
        let is = ours && there && content.is_half();
        is.then_some(content)
    })?;
    let object = content.object();
    Some(delete(
        Purpose::Member,
        object,
        &content.uid,
        &content.version,
    ))
}

/// The patch that marks a content as being deleted, with the finalizer if the content is to be deleted.
fn mark(content: &GroupContent) -> Option<Value> {
    let bare = content.policy == Policy::Delete && !content.deleting && !content.is_protected();
    if content.being_deleted && !bare {
        return None;
    }
    let mut metadata = json!({"uid": &*content.uid, "annotations": {GROUP_BEING_DELETED: YES}});
    if let (true, Some(fields)) = (bare, metadata.as_object_mut()) {
        let held = content.finalizers.iter().map(|held| &**held);
        let held: Vec<&str> = held.chain([GROUP_CONTENT_BOUND]).collect();
        fields.insert("finalizers".to_owned(), held.into());
        fields.insert("resourceVersion".to_owned(), (&*content.version).into());
    }
    Some(json!({"metadata": metadata}))
}

/// The content that is bound to this VolumeGroupSnapshot.
fn content(view: &View<'_>, group: &Group) -> Decision<Option<Arc<GroupContent>>> {
    let named = match (group.bound(), &group.source) {
        (Some(bound), _) => Some(bound.clone()),
        (None, GroupSource::Claims(_)) => Some(Text::from(group_content_name(&group.uid))),
        (None, GroupSource::Content(name)) => Some(name.clone()),
        (None, GroupSource::Unclear) => None,
    };
    let Some(name) = named else { return Ok(None) };
    let content = view.group_content(&name)?;
    // A request of unknown outcome may have bound it.
    let unbound =
        |content: &Arc<GroupContent>| content.names(group) && content.group.uid.is_empty();
    let object = Object::GroupContent(name);
    if content.as_ref().is_some_and(unbound) && view.learnt(&object).is_none() {
        return Err(read(object));
    }
    Ok(content.filter(|content| content.is_of(group)))
}

/// Fails while a claim is being restored from a member. Deletes a member that is not ready first: after
/// that no provisioner begins to restore from it.
fn unless_restoring(view: &View<'_>, group: &Group) -> Decision<()> {
    for member in members(view, group) {
        let (member_key, group) = (member.key(), group.key());
        let what = format!("Snapshot {member_key} belonging to VolumeGroupSnapshot {group}");
        if let Some(complaint) = Complaint::restoring(&what, view.restoring(&member)) {
            return Err(if member.is_restorable() {
                fail(complaint)
            } else {
                delete_member(&member)
            });
        }
    }
    Ok(())
}

/// Deletes a member along with its group.
fn delete_member(member: &Snapshot) -> Next {
    let object = member.object();
    delete(Purpose::Member, object, &member.uid, &member.version)
}
