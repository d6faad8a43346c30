//! Settled snapshots: nearly all of a cluster's many thousand. An attempt on one would end at once, so
//! it needs no place in the queue.

use sidecar::snapshot::{SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND};

use super::Informers;
use crate::model::{Content, ContentSource, Policy, Snapshot};

/// Whether a content needs no work: it is bound and has the finalizer.
#[must_use]
pub fn content_is_settled(content: &Content) -> bool {
    content.source != ContentSource::Unclear
        && !content.snapshot.uid.is_empty()
        && !content.deleting
        && content.is_protected()
}

/// Whether a VolumeSnapshot needs no work: it is ready, and it and the cached content are bound to each
/// other and in no group.
///
/// Its claim may still have our finalizer; the claim's own event requeues that.
#[must_use]
pub fn is_settled(snapshot: &Snapshot, informers: &(dyn Informers + 'static)) -> bool {
    let is_done = !snapshot.deleting
        && snapshot.is_ready()
        && snapshot.holds(SNAPSHOT_AS_SOURCE)
        && !snapshot.is_member()
        && snapshot.group().is_none();
    let content = snapshot.bound().filter(|_| is_done);
    let content = content.and_then(|name| informers.content(name));
    content.is_some_and(|content| {
        let status = content.status.as_deref();
        let of_group = content.group.is_some() || status.is_some_and(|it| it.group.is_some());
        let is_held = content.policy == Policy::Retain || snapshot.holds(SNAPSHOT_BOUND);
        content.is_of(snapshot) && is_held && content_is_settled(&content) && !of_group
    })
}

#[cfg(test)]
mod tests;
