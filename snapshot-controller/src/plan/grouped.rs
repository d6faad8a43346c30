//! What groups have something to do with: it is looked at when it becomes known whether they are served.

use super::in_flight::Key;
use crate::model::{Content, Snapshot};

/// Of what a VolumeSnapshot says.
#[must_use]
pub fn of_snapshot(snapshot: &Snapshot) -> Option<Key> {
    let grouped = snapshot.is_member() || snapshot.group().is_some();
    grouped.then(|| Key::Snapshot(snapshot.key()))
}

/// Of what a content says: its VolumeSnapshot may join a group, and itself may be left over of one.
pub fn of_content(content: &Content) -> impl Iterator<Item = Key> {
    let joins = content.part_of().is_some();
    let half = content.made_for().is_some() && content.snapshot.uid.is_empty();
    let joins = joins.then(|| Key::Snapshot(content.snapshot_key()));
    let half = half.then(|| Key::Content(content.name.clone()));
    joins.into_iter().chain(half)
}
