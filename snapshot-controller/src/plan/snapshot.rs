//! The next step for a VolumeSnapshot.
//!
//! | file | decides |
//! |---|---|
//! | `class` | which class it has |
//! | `create` | the conditions before its content is made |
//! | `body` | the body of its content |
//! | `bind` | binding to a pre-provisioned content |
//! | `status` | how its status follows its content's |
//! | `group` | which group snapshot it belongs to |
//! | `delete` | its deletion |

mod bind;
mod body;
mod class;
mod create;
mod delete;
mod group;
mod status;

use std::sync::Arc;

use serde_json::{Value, json};
use sidecar::snapshot::{SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND, content_name};

use super::claim;
use super::complaint::Complaint;
use super::request::{Object, patch, patch_status, read};
use super::view::{Next, Purpose, View};
use crate::model::{
    Content, ContentSource, List, MISBOUND, MISSING, Policy, Snapshot, Source, Text,
};

pub use class::{Chosen, only_default};
pub use create::{Origin, Problem};

/// The next step for `snapshot`, the newest object that this process knows.
#[must_use]
pub fn decide(view: &View<'_>, snapshot: &Arc<Snapshot>) -> Next {
    let next = if snapshot.deleting {
        delete::decide(view, snapshot)
    } else {
        living(view, snapshot)
    };
    next.unwrap_or_else(|first| first)
}

/// `Err` is a step that must come first.
type Decision<T = Next> = Result<T, Next>;

fn living(view: &View<'_>, snapshot: &Arc<Snapshot>) -> Decision {
    if snapshot.is_owned_member() {
        return member(view, snapshot);
    }
    if snapshot.is_ready() && snapshot.bound().is_some() {
        return ready(view, snapshot);
    }
    match &snapshot.source {
        Source::Claim(claim) => dynamic(view, snapshot, claim),
        Source::Content(name) => bind::decide(view, snapshot, name),
        Source::Unclear => Ok(fail(Complaint::unready(
            "SnapshotValidationError",
            "Exactly one of PersistentVolumeClaimName and VolumeSnapshotContentName should be \
             specified",
        ))),
    }
}

/// The next step for a VolumeSnapshot whose snapshot the driver is to take.
fn dynamic(view: &View<'_>, snapshot: &Arc<Snapshot>, claim: &Text) -> Decision {
    let made = Text::from(content_name(&snapshot.uid));
    let name = &named(view, snapshot).unwrap_or_else(|| made.clone());
    let is_bound = snapshot.was_taken() || *name != made;
    let known = match is_bound {
        // The cache may be late, and users who rely on the data must not be alarmed for nothing.
        true => view.content(name)?,
        // If the content exists and the watch is late, its POST returns AlreadyExists.
        false => view.informers.content(name),
    };
    let Some(content) = known else {
        if is_bound {
            protect(snapshot, None)?;
            return Ok(missing(name));
        }
        let class = class::choose(view, snapshot)?;
        protect(snapshot, None)?;
        return create::decide(view, snapshot, claim, &class);
    };
    if snapshot.bound() != Some(name) && content.source != ContentSource::Volume {
        let message = format!(
            "VolumeSnapshotContent {name} is pre-provisioned while expecting a dynamically \
             provisioned one"
        );
        let complaint = Complaint::unready("SnapshotContentMismatch", message);
        return Ok(fail(complaint.until_changed(content.object())));
    }
    if !content.is_of(snapshot) {
        return misbound(view, snapshot, &content);
    }
    protect(snapshot, Some(&content))?;
    Ok(follow(view, snapshot, &content))
}

/// The content that it is bound to under another name than ours: backup tools bind contents of any
/// name, and members that were cut loose keep theirs, perhaps without a status that names it.
fn named(view: &View<'_>, snapshot: &Snapshot) -> Option<Text> {
    let ours = |name: &Text| { view.informers.content(name) }.is_some_and(|it| it.is_of(snapshot));
    let name = snapshot.content_name();
    name.filter(|name| snapshot.bound().is_some() || ours(name))
}

/// The next step for a ready VolumeSnapshot, which can only lose its content.
fn ready(view: &View<'_>, snapshot: &Arc<Snapshot>) -> Decision {
    let Some(name) = snapshot.bound() else {
        return Ok(Next::Done);
    };
    let Some(content) = view.content(name)? else {
        protect(snapshot, None)?;
        return Ok(missing(name));
    };
    if !content.is_of(snapshot) {
        return misbound(view, snapshot, &content);
    }
    protect(snapshot, Some(&content))?;
    let free = snapshot.claim();
    let free = free.and_then(|key| claim::release(view, &key, None));
    let joins = || group::join(view, snapshot, &content);
    Ok(free.or_else(joins).unwrap_or(Next::Done))
}

/// The next step for a member of a group snapshot. The group makes it and its content; its status
/// follows its content as any other's.
fn member(view: &View<'_>, snapshot: &Arc<Snapshot>) -> Decision {
    let Some(name) = snapshot.bound() else {
        return Ok(Next::Done);
    };
    let content = view.informers.content(name);
    protect(snapshot, content.as_deref())?;
    Ok(match content.filter(|content| content.is_of(snapshot)) {
        Some(content) if !snapshot.is_ready() || group::names(view, snapshot, &content) => {
            follow(view, snapshot, &content)
        }
        Some(_) | None => Next::Done,
    })
}

/// Adds the missing finalizers.
fn protect(snapshot: &Arc<Snapshot>, content: Option<&Content>) -> Decision<()> {
    let stays_for =
        |content: &&Content| content.is_of(snapshot) && content.policy == Policy::Delete;
    let bound = snapshot.bound().is_some() && content.is_some_and(|content| stays_for(&content));
    let wanted = [Some(SNAPSHOT_AS_SOURCE), bound.then_some(SNAPSHOT_BOUND)];
    let missing = wanted.into_iter().flatten();
    let missing: Vec<&str> = missing.filter(|one| !snapshot.holds(one)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let held = snapshot.finalizers.iter().map(|held| &**held);
    let body = finalizers(&snapshot.version, held.chain(missing));
    Err(patch(Purpose::Finalizers, snapshot.object(), body))
}

/// Makes the status of an unready VolumeSnapshot follow its content.
fn follow(view: &View<'_>, snapshot: &Snapshot, content: &Content) -> Next {
    let group = group::shown(view, snapshot, content);
    let group = group.as_deref().map(|group| &group.name);
    match status::follow(snapshot, content, group) {
        None => Next::Done,
        Some((body, progress)) => patch_status(Purpose::Status(progress), snapshot.object(), body),
    }
}

fn missing(name: &Text) -> Next {
    let complaint = Complaint::unready("SnapshotContentMissing", MISSING);
    fail(complaint.until_changed(Object::Content(name.clone())))
}

/// The content belongs to another VolumeSnapshot. Reported in the same words whether this one was ready
/// or not.
fn misbound(view: &View<'_>, snapshot: &Snapshot, content: &Content) -> Decision {
    let (name, object) = (&content.name, content.object());
    let complaint = if snapshot.bound() == Some(name) {
        // The cache may be late: the binding of a pre-provisioned content is a write of its own.
        if view.learnt(&object).is_none() {
            return Err(read(object));
        }
        Complaint::unready("SnapshotMisbound", MISBOUND)
    } else {
        let message = format!("VolumeSnapshotContent [{name}] is bound to a different snapshot");
        Complaint::unready("SnapshotContentMisbound", message)
    };
    Ok(fail(complaint.until_changed(object)))
}

fn fail(complaint: Complaint) -> Next {
    Next::Fail(Box::new(complaint))
}

/// The patch that removes `ours` from the finalizers, only if the object is still at this version.
pub(super) fn unprotected(version: &str, held: &List, ours: &str) -> Value {
    finalizers(
        version,
        held.iter().map(|held| &**held).filter(|held| *held != ours),
    )
}

/// The patch that sets the finalizers, only if the object is still at this version: others have theirs
/// in the list.
pub(super) fn finalizers<'a>(version: &str, list: impl Iterator<Item = &'a str>) -> Value {
    let list: Vec<&str> = list.collect();
    let list = if list.is_empty() {
        Value::Null
    } else {
        list.into()
    };
    json!({"metadata": {"resourceVersion": version, "finalizers": list}})
}
