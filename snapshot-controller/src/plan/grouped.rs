//! The objects that concern groups: they are requeued when it becomes known whether groups are served.

use super::in_flight::Key;
use crate::model::{Content, Snapshot};

/// The VolumeSnapshot itself, if it is in a group.
#[must_use]
pub fn of_snapshot(snapshot: &Snapshot) -> Option<Key> {
    let grouped = snapshot.is_member() || snapshot.group().is_some();
    grouped.then(|| Key::Snapshot(snapshot.key()))
}

/// The content's VolumeSnapshot, which may join a group, and the content, which may be left over from
/// one.
pub fn of_content(content: &Content) -> impl Iterator<Item = Key> {
    let joins = content.part_of().is_some();
    let half = content.made_for().is_some() && content.snapshot.uid.is_empty();
    let joins = joins.then(|| Key::Snapshot(content.snapshot_key()));
    let half = half.then(|| Key::Content(content.name.clone()));
    joins.into_iter().chain(half)
}
