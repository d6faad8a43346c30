//! Snapshots in the cluster and in the storage, and those that had to be kept.

use std::collections::{BTreeMap, BTreeSet};

use super::{Claim, Content, Damage, Finding, Origin, Snapshot, State, finding};

/// Compares snapshots in the cluster and in the storage.
pub(super) fn storage(state: &State) -> Vec<Finding> {
    let mut found = Vec::new();
    let contents = || state.contents.iter();
    let handles: BTreeSet<_> = contents().filter_map(|it| it.handle.as_deref()).collect();
    let names: BTreeSet<_> = contents().filter_map(Content::taken_as).collect();
    let known = &state.known;
    let nobodys = |it: &str| known.free.contains(it) || known.kept.contains(it);
    for taken in &state.taken {
        let (handle, name) = (taken.handle.as_str(), taken.name.as_str());
        let stands = handles.contains(handle) || names.contains(name);
        if !stands && !nobodys(handle) && !nobodys(name) {
            let object = format!("{handle} ({name})");
            found.push(finding(Damage::SnapshotWithoutContent, object));
        }
    }
    for content in contents().filter(|it| !it.terminating) {
        let Some(handle) = &content.handle else {
            continue;
        };
        if !is_stored(state, handle) && !known.free.contains(handle) {
            let object = format!("{} ({handle})", content.name);
            found.push(finding(Damage::ContentWithoutSnapshot, object));
        }
    }
    let volumes: BTreeSet<_> = state.stored.iter().map(|it| it.handle.as_str()).collect();
    let gone =
        { known.kept.iter() }.filter(|it| !volumes.contains(it.as_str()) && !is_stored(state, it));
    found.extend(gone.map(|it| finding(Damage::KeptGone, it)));
    let mut of_each: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for content in contents().filter(|it| !it.snapshot_uid.is_empty()) {
        let all = of_each.entry(&content.snapshot_uid).or_default();
        all.push(&content.name);
    }
    for (uid, contents) in of_each.into_iter().filter(|(_, all)| all.len() > 1) {
        let object = format!("{uid}: {contents:?}");
        found.push(finding(Damage::TwoContents, object));
    }
    found
}

fn is_stored(state: &State, handle: &str) -> bool {
    state.taken.iter().any(|it| it.handle == handle)
}

/// Work that is still in progress.
pub(super) fn settled(state: &State) -> Vec<Finding> {
    let mut found = Vec::new();
    for snapshot in &state.snapshots {
        if snapshot.terminating {
            // No provisioner restores it any more, and the claim that waits for it keeps it, as with upstream's.
            if !snapshot.ready || !is_awaited(state, snapshot) {
                found.push(finding(Damage::SnapshotStays, &snapshot.name));
            }
        } else if !snapshot.ready && can_be_ready(state, snapshot) {
            found.push(finding(Damage::SnapshotPending, &snapshot.name));
        }
    }
    for content in &state.contents {
        let of = { state.snapshots.iter() }.find(|it| it.uid == content.snapshot_uid);
        let lives = of.is_some_and(|it| !it.terminating);
        let lost = !content.retained && !content.snapshot_uid.is_empty() && of.is_none();
        if ((content.terminating && !lives) || lost) && !waits_for_people(state, content) {
            found.push(finding(Damage::SnapshotStays, &content.name));
        }
        let there = { content.handle.as_ref() }.is_some_and(|it| is_stored(state, it));
        if content.made_by_hand && !content.terminating && !content.ready && there {
            found.push(finding(Damage::SnapshotPending, &content.name));
        }
    }
    found
}

/// Whether the content waits for its owner: the VolumeSnapshot was deleted after somebody had removed its finalizers.
/// snapshot-controller then leaves a content with policy Delete alone: the manifest may come from another cluster where
/// the VolumeSnapshot still exists.
fn waits_for_people(state: &State, content: &Content) -> bool {
    let (handle, name) = (content.handle.clone(), content.taken_as());
    let freed = { handle.into_iter().chain(name) }.any(|it| state.known.free.contains(&it));
    let is_orphan = !state
        .snapshots
        .iter()
        .any(|it| it.uid == content.snapshot_uid);
    freed && is_orphan && !content.retained && !content.snapshot_uid.is_empty()
}

fn is_awaited(state: &State, snapshot: &Snapshot) -> bool {
    let waits = |it: &&Claim| !it.bound;
    let mut waiting = state.claims.iter().filter(waits);
    waiting.any(|it| it.source == Some(Origin::Snapshot(snapshot.name.clone())))
}

/// Whether its source exists.
fn can_be_ready(state: &State, snapshot: &Snapshot) -> bool {
    match &snapshot.source {
        Origin::Claim(name) => {
            let claim = state.claims.iter().find(|it| it.name == *name);
            claim.is_some_and(|it| it.bound && !it.terminating)
        }
        Origin::Snapshot(content) => {
            let content = state.contents.iter().find(|it| it.name == *content);
            content.is_some_and(|it| {
                let stored = { it.handle.as_ref() }.is_some_and(|it| is_stored(state, it));
                let others = !it.snapshot_uid.is_empty() && it.snapshot_uid != snapshot.uid;
                !it.terminating && stored && !others
            })
        }
    }
}

/// Everything that is left.
pub(super) fn left(state: &State) -> impl Iterator<Item = Finding> {
    let snapshots = state.snapshots.iter().map(|it| &it.name);
    let contents = { state.contents.iter() }.filter(|it| !waits_for_people(state, it));
    let contents = contents.map(|it| &it.name);
    { snapshots.chain(contents) }.map(|name| finding(Damage::SnapshotStays, name))
}
