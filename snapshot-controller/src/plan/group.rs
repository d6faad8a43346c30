//! The next step for a VolumeGroupSnapshot.
//!
//! Its content, and through it the sidecar's calls, work as for single snapshots; in addition a
//! group makes its members.
//!
//! | file | decides |
//! |---|---|
//! | `class` | which class it has |
//! | `claims` | which claims it selects, and their volumes |
//! | `selector` | the query parameter for its label selector |
//! | `create` | its content |
//! | `bind` | binding to a pre-provisioned content |
//! | `members` | the VolumeSnapshots and contents of its snapshots |
//! | `delete` | its deletion |
//! | `content` | the next step for a VolumeGroupSnapshotContent |

mod bind;
mod claims;
mod class;
pub mod content;
mod create;
mod delete;
pub mod members;
mod selector;

use std::sync::Arc;

use sidecar::snapshot::{GROUP_SNAPSHOT_BOUND, group_content_name};

use super::complaint::Complaint;
use super::request::{Object, patch, patch_status, read};
use super::snapshot::finalizers;
use super::status::{self, Shown, Wanted, change};
use super::view::{Next, Purpose, View};
use crate::model::{ContentSource, Group, GroupContent, GroupContentStatus, GroupSource, Text};

/// The next step for `group`, the newest object that this process knows.
#[must_use]
pub fn decide(view: &View<'_>, group: &Arc<Group>) -> Next {
    let next = if group.deleting {
        delete::decide(view, group)
    } else {
        living(view, group)
    };
    next.unwrap_or_else(|first| first)
}

/// `Err` is a step that must come first.
type Decision<T = Next> = Result<T, Next>;

fn living(view: &View<'_>, group: &Arc<Group>) -> Decision {
    if group.is_ready() && group.bound().is_some() {
        return ready(view, group);
    }
    match &group.source {
        GroupSource::Claims(selector) => dynamic(view, group, selector),
        GroupSource::Content(name) => bind::decide(view, group, name),
        GroupSource::Unclear => Ok(fail(Complaint::unready(
            "GroupSnapshotValidationError",
            "Exactly one of Selector and VolumeGroupSnapshotContentName should be specified",
        ))),
    }
}

/// The next step for a group whose snapshots the driver is to take.
fn dynamic(view: &View<'_>, group: &Arc<Group>, selector: &Text) -> Decision {
    let made = Text::from(group_content_name(&group.uid));
    let name = group.bound().unwrap_or(&made);
    let is_bound = group.was_taken() || *name != made;
    let known = match is_bound {
        // The cache may be late, and users who rely on the data must not be alarmed for nothing.
        true => view.group_content(name)?,
        // If the content exists and the watch is late, its POST returns AlreadyExists.
        false => view.informers.group_content(name),
    };
    let Some(content) = known else {
        if is_bound {
            protect(group)?;
            return Ok(missing(name));
        }
        let class = class::choose(view, group, selector)?;
        // The finalizer must be there before anything is made that would be left behind.
        protect(group)?;
        return create::decide(view, group, selector, &class);
    };
    if group.bound() != Some(name) && content.source != ContentSource::Volume {
        let message = format!(
            "VolumeGroupSnapshotContent {name} is pre-provisioned while expecting a dynamically \
             provisioned one"
        );
        let complaint = Complaint::unready("GroupSnapshotContentMismatch", message);
        return Ok(fail(complaint.until_changed(content.object())));
    }
    if !content.is_of(group) {
        return misbound(view, group, &content);
    }
    protect(group)?;
    if let Some(first) = members::decide(view, group, &content) {
        return Ok(first);
    }
    Ok(follow(group, &content))
}

/// The next step for a ready group, which can only lose its content.
fn ready(view: &View<'_>, group: &Arc<Group>) -> Decision {
    let Some(name) = group.bound() else {
        return Ok(Next::Done);
    };
    let content = view.group_content(name)?;
    match &content {
        Some(content) if !content.is_of(group) => return misbound(view, group, content),
        Some(_) | None => protect(group)?,
    }
    Ok(match content {
        Some(_) => Next::Done,
        None => missing(name),
    })
}

/// Adds the finalizer if it is missing.
fn protect(group: &Group) -> Decision<()> {
    if group.is_protected() {
        return Ok(());
    }
    let held = group.finalizers.iter().map(|held| &**held);
    let body = finalizers(&group.version, held.chain([GROUP_SNAPSHOT_BOUND]));
    Err(patch(Purpose::Finalizers, group.object(), body))
}

impl Group {
    /// The fields of the status that `status::change` compares.
    #[must_use]
    pub fn shown(&self) -> Shown<'_> {
        let status = self.status.as_deref();
        Shown {
            version: &self.version,
            is_bound: self.bound().is_some(),
            is_taken: self.was_taken(),
            ready: status.and_then(|status| status.ready),
            error: status.and_then(|status| status.error.as_ref()),
        }
    }
}

/// Makes the status of an unready group follow its content.
fn follow(group: &Group, content: &GroupContent) -> Next {
    let blank = GroupContentStatus::default();
    let status = content.status.as_deref().unwrap_or(&blank);
    let wanted = Wanted {
        bound: ("boundVolumeGroupSnapshotContentName", &content.name),
        creation_time: status.creation_time.as_deref().map(str::to_owned),
        ready: status.ready.unwrap_or_default(),
        error: status.error.as_ref(),
    };
    let (change, progress) = change(&group.shown(), wanted);
    if change.is_empty() {
        return Next::Done;
    }
    let body = status::patch(&group.version, change);
    patch_status(Purpose::Status(progress), group.object(), body)
}

fn missing(name: &Text) -> Next {
    let message = "VolumeGroupSnapshotContent is missing";
    let complaint = Complaint::unready("GroupSnapshotContentMissing", message);
    fail(complaint.until_changed(Object::GroupContent(name.clone())))
}

/// The content belongs to another VolumeGroupSnapshot. Reported in the same words whether the group
/// was ready or not.
fn misbound(view: &View<'_>, group: &Group, content: &GroupContent) -> Decision {
    let (name, object) = (&content.name, content.object());
    let complaint = if group.bound() == Some(name) {
        // The cache may be late: the binding of a pre-provisioned content is a write of its own.
        if view.learnt(&object).is_none() {
            return Err(read(object));
        }
        let message =
            "VolumeGroupSnapshotContent is not bound to the VolumeGroupSnapshot correctly";
        Complaint::unready("GroupSnapshotMisbound", message)
    } else {
        let message =
            format!("VolumeGroupSnapshotContent [{name}] is bound to a different group snapshot");
        Complaint::unready("GroupSnapshotContentMisbound", message)
    };
    Ok(fail(complaint.until_changed(object)))
}

fn fail(complaint: Complaint) -> Next {
    Next::Fail(Box::new(complaint))
}
