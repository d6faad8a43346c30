//! Makes a VolumeSnapshot's status follow its content's.

use serde_json::{Map, Value};
use sidecar::quantity::Quantity;

use crate::model::{Content, ContentStatus, Snapshot, SnapshotStatus, Text};
use crate::plan::request::Progress;
use crate::plan::status::{change, time};

/// The fields of the status that must change so that it follows `content` and names the group, and the progress that
/// they show for the first time.
pub(super) fn follow(
    snapshot: &Snapshot,
    content: &Content,
    group: Option<&Text>,
) -> (Map<String, Value>, Progress) {
    let (nothing, blank) = (SnapshotStatus::default(), ContentStatus::default());
    let shown = snapshot.status.as_deref().unwrap_or(&nothing);
    let status = content.status.as_deref().unwrap_or(&blank);
    let taken = status.creation_time.and_then(time);
    let (mut change, progress) = change(&snapshot.head(), &content.head(), taken);
    if let Some(size) = status.restore_size.filter(|size| is_larger(*size, shown)) {
        let quantity = Quantity::from_bytes(size).to_string();
        change.insert("restoreSize".to_owned(), quantity.into());
    }
    if let Some(group) = group.filter(|_| shown.group.is_none()) {
        change.insert("volumeGroupSnapshotName".to_owned(), (&**group).into());
    }
    (change, progress)
}

/// Whether the size is larger. A size is never withdrawn or lowered: claims were restored with at
/// least that much.
fn is_larger(size: i64, shown: &SnapshotStatus) -> bool {
    match shown.restore_size.as_deref() {
        None => size >= 0,
        Some(text) => size > 0 && text.parse().is_ok_and(Quantity::is_zero),
    }
}
