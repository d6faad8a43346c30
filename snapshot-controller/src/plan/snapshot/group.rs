//! Which group snapshot a VolumeSnapshot belongs to. Its content's handle says so: one that an
//! administrator made joins in this way.

use std::sync::Arc;

use serde_json::{Value, json};

use super::status;
use crate::model::{Content, Group, Snapshot, Text, key};
use crate::plan::group::members::owner;
use crate::plan::step::{Object, Step};
use crate::plan::view::{Next, Progress, Purpose, View};

/// The group snapshot that `content` leads to, if there is one by now.
pub(super) fn of(view: &View<'_>, snapshot: &Snapshot, content: &Content) -> Option<Arc<Group>> {
    view.group_of(snapshot, &content.part_of()?)
}

/// Whether its name is news.
pub(super) fn names(view: &View<'_>, snapshot: &Snapshot, content: &Content) -> bool {
    let status = snapshot.status.as_deref();
    let named = status.is_some_and(|status| status.group.is_some());
    !named && of(view, snapshot, content).is_some()
}

/// One that can be used joins its group: it says whose it is, then the group owns it.
pub(super) fn join(view: &View<'_>, snapshot: &Snapshot, content: &Content) -> Option<Next> {
    if names(view, snapshot, content) {
        let group = of(view, snapshot, content);
        let group = group.as_deref().map(|group| &group.name);
        let (patch, _) = status::follow(snapshot, content, group)?;
        let step = Step::PatchStatus(snapshot.object(), patch);
        return Some(Next::Ask(step, Purpose::Status(Progress::default())));
    }
    let named = snapshot.status.as_deref()?.group.is_some();
    if !named || snapshot.owner().is_some() {
        return None;
    }
    // The group that the name was of may be gone, and another one have it.
    let group = of(view, snapshot, content)?;
    let step = Step::Patch(snapshot.object(), owned(snapshot, &group)?);
    (!group.deleting).then_some(Next::Ask(step, Purpose::Member))
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
/// gone.
pub(super) fn holding(view: &View<'_>, snapshot: &Snapshot) -> Result<Option<Held>, Next> {
    let name = snapshot.group();
    if !view.informers.groups() && (snapshot.is_member() || name.is_some()) {
        return Ok(Some(match view.informers.groups_are_awaited() {
            true => Held::Awaited,
            false => Held::Unserved(name.cloned().unwrap_or_default()),
        }));
    }
    let Some(name) = name else {
        return Ok(None);
    };
    let Some(group) = view.group(&key(&snapshot.namespace, name))? else {
        return Ok(None);
    };
    let holds = match snapshot.owner() {
        Some((uid, _)) => group.uid == *uid,
        None => leads_to(view, snapshot, &group)?,
    };
    Ok(holds.then(|| match group.deleting {
        true => Held::Going(group.object()),
        false => Held::By(group.object()),
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
    /// Nobody knows: group snapshots are not served. This is its name.
    Unserved(Text),
    /// Nobody knows yet. Once that is settled everything of groups is looked at.
    Awaited,
    /// It lives.
    By(Object),
    /// It goes, and its end brings the member back.
    Going(Object),
}
