//! The group snapshot of a VolumeSnapshot. A VolumeSnapshot for a pre-provisioned content joins the
//! group whose handle its content's status has; the group makes all other members, with their owner.
//!
//! A VolumeSnapshot that joins gets its owner first and the name in its status then. One with the name
//! and no owner was cut loose, as backup tools do to keep a member when its group goes: an owner that
//! somebody removed stays removed.

use std::sync::Arc;

use serde_json::{Value, json};

use super::status;
use crate::model::{Content, Group, Snapshot, Source, key};
use crate::plan::group::members::owner;
use crate::plan::request::{Object, patch, patch_status};
use crate::plan::view::{Learnt, Next, Progress, Purpose, View};

/// The group snapshot with the content's handle, if it exists.
fn of(view: &View<'_>, snapshot: &Snapshot, content: &Content) -> Option<Arc<Group>> {
    view.group_of(snapshot, &content.part_of()?)
}

/// The group to show in the status; `None` while the group must own the VolumeSnapshot first.
pub(super) fn shown(view: &View<'_>, snapshot: &Snapshot, content: &Content) -> Option<Arc<Group>> {
    of(view, snapshot, content).filter(|group| !is_to_own(group, snapshot))
}

fn is_to_own(group: &Group, snapshot: &Snapshot) -> bool {
    let joins = matches!(snapshot.source, Source::Content(_)) && snapshot.owner().is_none();
    joins && !is_named(snapshot) && !group.deleting
}

fn is_named(snapshot: &Snapshot) -> bool {
    let status = snapshot.status.as_deref();
    status.is_some_and(|status| status.group.is_some())
}

/// Whether the status lacks the group's name.
pub(super) fn names(view: &View<'_>, snapshot: &Snapshot, content: &Content) -> bool {
    !is_named(snapshot) && of(view, snapshot, content).is_some()
}

/// Lets a ready VolumeSnapshot join its group: first the owner, then the name in the status.
pub(super) fn join(view: &View<'_>, snapshot: &Snapshot, content: &Content) -> Option<Next> {
    let group = of(view, snapshot, content).filter(|_| !is_named(snapshot))?;
    if is_to_own(&group, snapshot) {
        let body = owned(snapshot, &group)?;
        return Some(patch(Purpose::Member, snapshot.object(), body));
    }
    let (body, _) = status::follow(snapshot, content, Some(&group.name))?;
    let purpose = Purpose::Status(Progress::default());
    Some(patch_status(purpose, snapshot.object(), body))
}

/// The patch that adds the group to the owners.
fn owned(snapshot: &Snapshot, group: &Group) -> Option<Value> {
    let owners = snapshot.owners.as_deref();
    let mut all = match owners {
        Some(owners) => serde_json::from_str(&owners.json).ok()?,
        None => Vec::new(),
    };
    all.push(owner(group));
    let version = &*snapshot.version;
    Some(json!({"metadata": {"resourceVersion": version, "ownerReferences": all}}))
}

/// The group snapshot that holds a VolumeSnapshot which is being deleted: only the group as a whole can
/// be deleted in the storage system. Nothing holds the VolumeSnapshot once the group is gone; where
/// group snapshots are not served, a GET shows that.
pub(super) fn holding(view: &View<'_>, snapshot: &Snapshot) -> Result<Option<Held>, Next> {
    let (name, served) = (snapshot.group(), view.informers.groups());
    let grouped = snapshot.is_member() || name.is_some();
    if grouped && !served && view.informers.groups_are_awaited() {
        return Ok(Some(Held::Awaited));
    }
    let Some(name) = name else {
        return Ok(None);
    };
    let key = key(&snapshot.namespace, name);
    let object = Object::Group(key.clone());
    if let Some(Learnt::Unread(error)) = view.learnt(&object)
        && !error.is_not_found()
    {
        return Ok(Some(Held::Unserved(object, Some(error.to_string()))));
    }
    let Some(group) = view.group(&key)? else {
        return Ok(None);
    };
    let holds = match snapshot.owner() {
        Some((uid, _)) => group.uid == *uid,
        None => !served || leads_to(view, snapshot, &group)?,
    };
    Ok(holds.then(|| match (served, group.deleting) {
        (false, _) => Held::Unserved(object, None),
        (true, true) => Held::Going(object),
        (true, false) => Held::By(object),
    }))
}

/// Whether the snapshot of a VolumeSnapshot without owner is part of this group, and not of an earlier
/// one of the same name.
fn leads_to(view: &View<'_>, snapshot: &Snapshot, group: &Group) -> Result<bool, Next> {
    let content = match snapshot.content_name() {
        Some(name) => view.content(&name)?,
        None => None,
    };
    let of = match group.bound() {
        Some(name) => view.group_content(name)?,
        None => None,
    };
    let of = of.filter(|of| of.is_bound_to(group));
    let part = content.and_then(|content| content.part_of());
    Ok(part.is_some() && part == of.and_then(|of| of.stands_for()))
}

/// How a group holds a member.
pub(super) enum Held {
    /// Group snapshots are not served, so nobody here ends it; with the error if the group could not be
    /// read.
    Unserved(Object, Option<String>),
    /// It is not known yet whether groups are served. Once it is, all objects of groups are requeued.
    Awaited,
    /// The group lives.
    By(Object),
    /// The group is being deleted; its end requeues the member.
    Going(Object),
}
