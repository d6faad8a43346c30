//! Which group snapshot a VolumeSnapshot belongs to. Its content's handle says so: one that stands for
//! a content that an administrator made joins in this way. A group makes all others with their owner.
//!
//! Who joins is owned first and named then. Whoever has the name and no owner was cut loose, as backup
//! tools do to keep a member when its group goes: an owner that somebody removed stays removed.

use std::sync::Arc;

use serde_json::{Value, json};

use super::status;
use crate::model::{Content, Group, Snapshot, Source, key};
use crate::plan::group::members::owner;
use crate::plan::request::{Object, patch, patch_status};
use crate::plan::view::{Learnt, Next, Progress, Purpose, View};

/// The group snapshot that `content` leads to, if there is one by now.
fn of(view: &View<'_>, snapshot: &Snapshot, content: &Content) -> Option<Arc<Group>> {
    view.group_of(snapshot, &content.part_of()?)
}

/// The same, unless it has to own the VolumeSnapshot before its name is shown.
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

/// Whether its name is news.
pub(super) fn names(view: &View<'_>, snapshot: &Snapshot, content: &Content) -> bool {
    !is_named(snapshot) && of(view, snapshot, content).is_some()
}

/// One that can be used joins its group: the group owns it, then it says whose it is.
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

/// The patch after which the group owns the VolumeSnapshot, beside who does already.
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

/// The group snapshot that holds a VolumeSnapshot which is being deleted: its snapshot is part of the
/// group's, and only the group can be deleted in the storage system. Nothing holds it once the group is
/// gone, which the API server says also where group snapshots are not served.
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

/// Whether the snapshot of a VolumeSnapshot that nothing owns yet is part of this group, and not of one
/// that had its name before.
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
    /// Group snapshots are not served: nobody here ends it. Why it could not be read, if it was not.
    Unserved(Object, Option<String>),
    /// Nobody knows yet. Once that is settled everything of groups is looked at.
    Awaited,
    /// It lives.
    By(Object),
    /// It goes, and its end brings the member back.
    Going(Object),
}
