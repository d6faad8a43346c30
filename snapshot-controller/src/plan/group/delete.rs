//! Deletes a VolumeGroupSnapshot: annotates its content, deletes the content if that is the policy,
//! deletes the members, then removes the finalizer. The members end after it, since their snapshots are
//! deleted with the group's.

use std::sync::Arc;

use sidecar::snapshot::GROUP_SNAPSHOT_BOUND;

use super::members::Names;
use crate::model::{Group, GroupContent, Policy, Snapshot, key};
use crate::plan::ask::Ask;
use crate::plan::attempt::Flow;
use crate::plan::complaint::Complaint;
use crate::plan::pair::{announce, only_its, remove};
use crate::plan::request::{self, Purpose, finalizers, held, patch};

/// The script of a VolumeGroupSnapshot that is being deleted.
pub(super) fn delete(ask: Ask<'_>, group: &Group) -> Flow {
    if !group.is_protected() {
        return Ok(());
    }
    let content = match group.content_name() {
        Some(name) => only_its(ask, group, ask.group_content(&name)?)?,
        None => None,
    };
    unless_restoring(ask, group)?;
    if let Some(content) = &content {
        announce(&content.head())?;
        delete_half(ask, group, content)?;
        remove(&content.head())?;
    }
    let mut living = members(ask, group).filter(|member| !member.deleting);
    if let Some(member) = living.find(|member| !is_gone(ask, member)) {
        return delete_member(&member);
    }
    // The content's deletion requeues this group.
    if content.is_some_and(|content| content.policy == Policy::Delete) {
        return Ok(());
    }
    let left = held(&group.finalizers).filter(|held| *held != GROUP_SNAPSHOT_BOUND);
    let body = finalizers(&group.version, left);
    patch(Purpose::Unprotect, group.head().object(), body)
}

/// The VolumeSnapshots of the group that the cache has.
fn members<'a>(ask: Ask<'a>, group: &Group) -> impl Iterator<Item = Arc<Snapshot>> + use<'a> {
    let keys = ask.in_flight.members.of(&group.uid);
    keys.filter_map(move |key| ask.informers.snapshot(key))
}

/// Whether this attempt knows that it is gone, be it in the cache or not.
fn is_gone(ask: Ask<'_>, member: &Snapshot) -> bool {
    ask.is_gone(&member.head().object())
}

/// Deletes a member's content that was made and never bound: nothing else would.
fn delete_half(ask: Ask<'_>, group: &Group, of: &GroupContent) -> Flow {
    for member in of.members() {
        let names = Names::new(&group.uid, &member.volume);
        let content = ask.informers.content(&names.content);
        let Some(content) = content.filter(|it| it.is_half() && !it.deleting) else {
            continue;
        };
        let object = content.head().object();
        let ours = content.snapshot_key() == key(&group.namespace, &names.snapshot);
        if ours && !ask.is_gone(&object) {
            return request::delete(Purpose::Member, object, &content.uid, &content.version);
        }
    }
    Ok(())
}

/// Fails while a claim is being restored from a member. Deletes a member that is not ready first: after
/// that no provisioner begins to restore from it.
fn unless_restoring(ask: Ask<'_>, group: &Group) -> Flow {
    for member in members(ask, group) {
        let (member_key, group) = (member.key(), group.key());
        let what = format!("Snapshot {member_key} belonging to VolumeGroupSnapshot {group}");
        let complaint = Complaint::restoring(&what, ask.restoring(&member));
        let Some(complaint) = complaint.filter(|_| !is_gone(ask, &member)) else {
            continue;
        };
        if !member.is_restorable() {
            return delete_member(&member);
        }
        return Err(complaint.into());
    }
    Ok(())
}

/// Deletes a member along with its group.
fn delete_member(member: &Snapshot) -> Flow {
    let object = member.head().object();
    request::delete(Purpose::Member, object, &member.uid, &member.version)
}
