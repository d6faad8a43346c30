//! The script of a VolumeSnapshotContent or VolumeGroupSnapshotContent: the controller adds the finalizer once it is
//! bound, and nothing else.
//!
//! A content is deleted only for the deletion of its VolumeSnapshot. A missing VolumeSnapshot proves nothing: manifests
//! are copied from cluster to cluster.

use sidecar::snapshot::{BEING_DELETED, GROUP_BEING_DELETED};

use super::ask::Ask;
use super::attempt::{End, Flow};
use super::complaint::Complaint;
use super::group::members::Names;
use super::request::{Purpose, delete, finalizers, held, patch};
use crate::model::{Content, ContentHead, ContentSource, GroupContent, Kind, Policy};

/// The script of a VolumeSnapshotContent.
pub(super) fn script(ask: Ask<'_>, content: &Content) -> Flow {
    settle(ask, &content.head())?;
    remove_left_over(ask, content)
}

/// What is common to contents of both kinds.
pub(super) fn settle(ask: Ask<'_>, content: &ContentHead<'_>) -> Flow {
    if content.source == ContentSource::Unclear {
        let (reason, fields) = content.kind.say(
            ("ContentValidationError", "VolumeHandle and SnapshotHandle"),
            (
                "GroupContentValidationError",
                "GroupSnapshotHandles and VolumeHandles",
            ),
        );
        let message = format!("Exactly one of {fields} should be specified");
        return Err(Complaint::event(reason, message).into());
    }
    if content.of.uid.is_empty() {
        return Ok(());
    }
    match (content.deleting, content.is_protected()) {
        (false, false) => {
            let list = held(content.finalizers).chain([content.finalizer()]);
            let body = finalizers(content.version, list);
            patch(Purpose::ContentFinalizer, content.object(), body)
        }
        (true, true) if !content.being_deleted => orphaned(ask, content),
        (true, _) | (false, true) => Ok(()),
    }
}

/// Deletes a content that was made for a member of a group that is gone: it has no snapshot of its own and nobody needs
/// it. The group's content existed before it. That content may be kept, and another group may then have the same
/// handle.
fn remove_left_over(ask: Ask<'_>, content: &Content) -> Flow {
    let half = content.is_half() && !content.deleting;
    let handle = content.made_for().filter(|_| half);
    let Some(handle) = handle.filter(|_| ask.informers.groups()) else {
        return Ok(());
    };
    let groups = ask.in_flight.groups.of(&handle);
    let mut groups = groups.filter_map(|name| ask.informers.group_content(name));
    if let Some(of) = groups.find(|of| has_made(of, content)) {
        let group = ask.group(&of.group_key())?;
        if group.is_some_and(|group| of.is_of(&group)) {
            return Ok(());
        }
    }
    let object = content.head().object();
    delete(Purpose::Member, object, &content.uid, &content.version)
}

/// Whether the content is a member's of this group: the member names of two groups differ.
fn has_made(group: &GroupContent, content: &Content) -> bool {
    let mut members = group.members().iter();
    members.any(|member| Names::new(&group.group.uid, &member.volume).content == content.name)
}

/// The content waits for a VolumeSnapshot or VolumeGroupSnapshot to be deleted. If that does not exist, a retained
/// content loses our finalizer, since its snapshot stays; any other one waits for its owner, who gets one event.
fn orphaned(ask: Ask<'_>, content: &ContentHead<'_>) -> Flow {
    let retained = content.policy == Policy::Retain;
    if !retained && ask.in_flight.orphans.contains(content.uid) {
        return Ok(());
    }
    let (kind, key) = (content.kind, content.of_key());
    let lives = match kind {
        Kind::Single => ask
            .snapshot(&key)?
            .is_some_and(|it| content.is_of(&it.head())),
        Kind::Group => ask.group(&key)?.is_some_and(|it| content.is_of(&it.head())),
    };
    if lives {
        return Ok(());
    }
    if retained {
        // The cached object may be an older one of the same name, so ask the API server.
        ask.refresh(&kind.object(key))?;
        let left = held(content.finalizers).filter(|held| *held != content.finalizer());
        let body = finalizers(content.version, left);
        return patch(Purpose::ContentFinalizer, content.object(), body);
    }
    let (whole, noun) = (kind.whole().kind, kind.noun());
    let annotation = kind.say(BEING_DELETED, GROUP_BEING_DELETED);
    let message = format!(
        "{whole} {key} of this content is gone, so nothing will delete its {noun}. To delete the \
         content and keep the {noun}, set its deletionPolicy to Retain; to delete both, set the \
         annotation {annotation} to yes"
    );
    let reason = kind.say("SnapshotContentOrphaned", "GroupSnapshotContentOrphaned");
    Err(End::Orphan(Box::new(Complaint::event(reason, message))).into())
}
