//! Which group snapshot a VolumeSnapshot belongs to. Its content's handle says so: one that an
//! administrator made joins in this way.

use serde_json::{Value, json};

use super::status;
use crate::model::{Content, Group, Snapshot, Text, key};
use crate::plan::group::members::owner;
use crate::plan::step::{Object, Step};
use crate::plan::view::{Next, Progress, Purpose, View};

/// The name of the group snapshot that `content` leads to, if there is one by now.
pub(super) fn of(view: &View<'_>, snapshot: &Snapshot, content: &Content) -> Option<Text> {
    let handle = content.status.as_deref()?.group.as_ref()?;
    view.group_of(&snapshot.namespace, handle)
}

/// Whether that name is news.
pub(super) fn names(view: &View<'_>, snapshot: &Snapshot, content: &Content) -> bool {
    let status = snapshot.status.as_deref();
    let named = status.is_some_and(|status| status.group.is_some());
    !named && of(view, snapshot, content).is_some()
}

/// One that can be used joins its group: it says whose it is, then the group owns it.
pub(super) fn join(view: &View<'_>, snapshot: &Snapshot, content: &Content) -> Option<Next> {
    if names(view, snapshot, content) {
        let group = of(view, snapshot, content);
        let (patch, _) = status::follow(snapshot, content, group.as_ref())?;
        let step = Step::PatchStatus(snapshot.object(), patch);
        return Some(Next::Ask(step, Purpose::Status(Progress::default())));
    }
    let name = snapshot.status.as_deref()?.group.as_ref()?;
    if snapshot.owner().is_some() || !view.informers.groups() {
        return None;
    }
    let group = view.informers.group(&key(&snapshot.namespace, name))?;
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
    let Some(name) = snapshot.group() else {
        let unknown = snapshot.is_member() && !view.informers.groups();
        return Ok(unknown.then_some(Held::Unserved(Text::default())));
    };
    if !view.informers.groups() {
        return Ok(Some(Held::Unserved(name.clone())));
    }
    let group = view.group(&key(&snapshot.namespace, name))?;
    let uid = snapshot.owner().map(|(uid, _)| uid);
    let group = group.filter(|group| uid.is_none_or(|uid| group.uid == *uid));
    Ok(group.map(|group| match group.deleting {
        true => Held::Going,
        false => Held::By(group.object()),
    }))
}

/// How a group holds a member.
pub(super) enum Held {
    /// Nobody knows: group snapshots are not served. This is its name.
    Unserved(Text),
    /// It lives.
    By(Object),
    /// It goes, and its end brings the member back.
    Going,
}
