//! The group snapshot of a VolumeSnapshot. A VolumeSnapshot for a pre-provisioned content joins the
//! group whose handle its content's status has; the group makes all other members, with their owner.
//!
//! A VolumeSnapshot that joins gets its owner first and the name in its status then. One with the name
//! and no owner was cut loose, as backup tools do to keep a member when its group goes: an owner that
//! somebody removed stays removed.

use std::sync::Arc;

use serde_json::{Value, json};
use sidecar::controller::request::Object as _;

use super::status;
use crate::model::{Content, Group, Snapshot, Source, key};
use crate::plan::ask::Ask;
use crate::plan::attempt::{End, Flow};
use crate::plan::complaint::{Complaint, RequeueTrigger};
use crate::plan::group::members::owner;
use crate::plan::request::{Object, Progress, Purpose, patch};
use crate::plan::status::show;

/// The group snapshot with the content's handle, if it exists.
fn of(ask: Ask<'_>, snapshot: &Snapshot, content: &Content) -> Option<Arc<Group>> {
    ask.group_of(snapshot, &content.part_of()?)
}

/// The group to show in the status; `None` while the group must own the VolumeSnapshot first.
pub(super) fn shown(ask: Ask<'_>, snapshot: &Snapshot, content: &Content) -> Option<Arc<Group>> {
    of(ask, snapshot, content).filter(|group| !is_to_own(group, snapshot))
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
pub(super) fn names(ask: Ask<'_>, snapshot: &Snapshot, content: &Content) -> bool {
    !is_named(snapshot) && of(ask, snapshot, content).is_some()
}

/// Lets a ready VolumeSnapshot join its group: first the owner, then the name in the status.
pub(super) fn join(ask: Ask<'_>, snapshot: &Snapshot, content: &Content) -> Flow {
    let group = of(ask, snapshot, content).filter(|_| !is_named(snapshot));
    let Some(group) = group else { return Ok(()) };
    if !is_to_own(&group, snapshot) {
        let (change, _) = status::follow(snapshot, content, Some(&group.name));
        return show(&snapshot.head(), change, Progress::default());
    }
    let owners = snapshot.owners.as_deref();
    let owners = owners.map_or(Ok(Vec::new()), |owners| serde_json::from_str(&owners.json));
    let mut all: Vec<Value> = owners.map_err(|_| End::Done)?;
    all.push(owner(&group));
    let version = &*snapshot.version;
    let body = json!({"metadata": {"resourceVersion": version, "ownerReferences": all}});
    patch(Purpose::Member, snapshot.head().object(), body)
}

/// Ends the attempt while a group snapshot holds a VolumeSnapshot that is being deleted: only the group as a whole can
/// be deleted in the storage system. Nothing holds the VolumeSnapshot once the group is gone; where
/// group snapshots are not served, a GET shows that.
pub(super) fn unless_held(ask: Ask<'_>, snapshot: &Snapshot) -> Flow {
    let (name, served) = (snapshot.group(), ask.informers.groups());
    let grouped = snapshot.is_member() || name.is_some();
    if grouped && !served && ask.informers.groups_are_awaited() {
        // Once it is known whether groups are served, all objects of groups are requeued.
        return Err(End::Done.into());
    }
    let Some(name) = name else { return Ok(()) };
    let key = key(&snapshot.namespace, name);
    let object = Object::Group(key.clone());
    let unserved = "Group snapshots are not active in this controller: the volume snapshot stays \
                    until the group snapshot is gone";
    if let Some(Err(error)) = ask.log.found(&object)
        && !error.is_not_found()
    {
        let why = format!("{unserved}; this controller cannot read the group snapshot: {error}");
        return Err(pending(snapshot, object, &why).into());
    }
    let Some(group) = ask.group(&key)? else {
        return Ok(());
    };
    let holds = match snapshot.owner() {
        Some((uid, _)) => group.uid == *uid,
        None => !served || leads_to(ask, snapshot, &group)?,
    };
    match (served, group.deleting) {
        _ if !holds => Ok(()),
        (false, _) => Err(pending(snapshot, object, unserved).into()),
        // The group's end requeues the member.
        (true, true) => Err(End::Await(RequeueTrigger::Object(object)).into()),
        (true, false) => {
            let why = "Deleting the group snapshot will trigger the deletion of all the \
                       individual volume snapshots that are part of the group.";
            Err(pending(snapshot, object, why).into())
        }
    }
}

/// Whether the snapshot of a VolumeSnapshot without owner is part of this group, and not of an earlier
/// one of the same name.
fn leads_to(ask: Ask<'_>, snapshot: &Snapshot, group: &Group) -> Flow<bool> {
    let content = match snapshot.content_name() {
        Some(name) => ask.content(&name)?,
        None => None,
    };
    let of = match group.bound() {
        Some(name) => ask.group_content(name)?,
        None => None,
    };
    let of = of.filter(|of| of.is_bound_to(group));
    let part = content.and_then(|content| content.part_of());
    Ok(part.is_some() && part == of.and_then(|of| of.stands_for()))
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
