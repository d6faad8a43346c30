//! The next step for a VolumeGroupSnapshot.
//!
//! Its content, and through it the sidecar's calls, are what single snapshots have; what is more is
//! that a group makes its members.
//!
//! | file | decides |
//! |---|---|
//! | `class` | which class it has |
//! | `claims` | which claims it is of, and their volumes |
//! | `selector` | how the selector of its claims is asked for |
//! | `create` | its content |
//! | `bind` | how it gets a content that an administrator made |
//! | `members` | the VolumeSnapshots and contents of its snapshots |
//! | `delete` | how it goes |
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

/// The next step for `group`, the newest that is known of it.
#[must_use]
pub fn decide(view: &View<'_>, group: &Arc<Group>) -> Next {
    let next = if group.deleting {
        delete::decide(view, group)
    } else {
        living(view, group)
    };
    next.unwrap_or_else(|first| first)
}

/// `Err` is a step that has to come first.
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

/// One that is to be taken.
fn dynamic(view: &View<'_>, group: &Arc<Group>, selector: &Text) -> Decision {
    let made = Text::from(group_content_name(&group.uid));
    let name = group.bound().unwrap_or(&made);
    let is_bound = group.was_taken() || *name != made;
    let known = match is_bound {
        // A cache may be late, and whoever relies on its data must not be alarmed for nothing.
        true => view.group_content(name)?,
        // If a content is there that no watch has told of, its POST says so.
        false => view.informers.group_content(name),
    };
    let Some(content) = known else {
        if is_bound {
            protect(group)?;
            return Ok(missing(name));
        }
        let class = class::choose(view, group, selector)?;
        // Before there is anything that would be left behind.
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

/// One that can be used: all that can happen is that its content is lost.
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

/// The finalizer, if it is missing.
fn protect(group: &Group) -> Decision<()> {
    if group.is_protected() {
        return Ok(());
    }
    let held = group.finalizers.iter().map(|held| &**held);
    let body = finalizers(&group.version, held.chain([GROUP_SNAPSHOT_BOUND]));
    Err(patch(Purpose::Finalizers, group.object(), body))
}

impl Group {
    /// What its status says.
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

/// The status of an unready one follows its content.
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

/// Its content is another's. That is told in the same words whether it was ready or not.
fn misbound(view: &View<'_>, group: &Group, content: &GroupContent) -> Decision {
    let (name, object) = (&content.name, content.object());
    let complaint = if group.bound() == Some(name) {
        // A cache may be late: the binding of what an administrator made is a write of its own.
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
