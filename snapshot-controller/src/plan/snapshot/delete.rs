//! Deletes a VolumeSnapshot: annotates its content, deletes the content if that is the policy,
//! releases its claim, then removes the finalizers.

use std::sync::Arc;

use sidecar::snapshot::{SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND, SNAPSHOT_IN_GROUP};

use super::group;
use crate::model::{Content, Policy, Snapshot};
use crate::plan::ask::Ask;
use crate::plan::attempt::Flow;
use crate::plan::claim;
use crate::plan::complaint::Complaint;
use crate::plan::pair::{announce, only_its, remove};
use crate::plan::request::{Purpose, finalizers, held, patch};

/// The script of a VolumeSnapshot that is being deleted.
pub(super) fn delete(ask: Ask<'_>, snapshot: &Snapshot) -> Flow {
    let ours = [SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND, SNAPSHOT_IN_GROUP];
    if !ours.iter().any(|one| snapshot.holds(one)) {
        return Ok(());
    }
    group::unless_held(ask, snapshot)?;
    let content = content(ask, snapshot)?;
    if let Some(content) = &content {
        if let Some(complaint) = Complaint::restoring("Snapshot", ask.restoring(snapshot)) {
            return Err(complaint.into());
        }
        announce(&content.head())?;
        remove(&content.head())?;
    }
    let claim = snapshot.claim();
    if let Some(claim) = claim.filter(|_| snapshot.holds(SNAPSHOT_AS_SOURCE)) {
        claim::release(ask, &claim, Some(&snapshot.key()))?;
    }
    // The content's deletion requeues this VolumeSnapshot.
    let waits = content.is_some_and(|content| content.policy == Policy::Delete);
    let goes = |held: &&str| match *held {
        SNAPSHOT_BOUND => !waits,
        SNAPSHOT_AS_SOURCE | SNAPSHOT_IN_GROUP => true,
        _ => false,
    };
    let left = held(&snapshot.finalizers).filter(|held| !goes(held));
    if left.clone().count() == snapshot.finalizers.len() {
        return Ok(());
    }
    let body = finalizers(&snapshot.version, left);
    patch(Purpose::Unprotect, snapshot.head().object(), body)
}

/// The content that is bound to this VolumeSnapshot.
fn content(ask: Ask<'_>, snapshot: &Snapshot) -> Flow<Option<Arc<Content>>> {
    let Some(name) = snapshot.content_name() else {
        return Ok(None);
    };
    // Without these finalizers no later attempt looks for the content.
    let content = if snapshot.holds(SNAPSHOT_AS_SOURCE) || snapshot.is_member() {
        ask.content(&name)?
    } else {
        ask.informers.content(&name)
    };
    only_its(ask, snapshot, content)
}
