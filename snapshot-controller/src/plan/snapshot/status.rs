//! What a VolumeSnapshot shows of its content.

use serde_json::Value;
use sidecar::quantity::Quantity;

use crate::model::{Content, ContentStatus, Snapshot, SnapshotStatus, Text};
use crate::plan::status::{Shown, Wanted, change, patch, time};
use crate::plan::view::Progress;

impl Snapshot {
    /// What its status says.
    #[must_use]
    pub fn shown(&self) -> Shown<'_> {
        let status = self.status.as_deref();
        Shown {
            version: &self.version,
            is_bound: self.bound().is_some(),
            is_taken: status.is_some_and(|status| status.creation_time.is_some()),
            ready: status.and_then(|status| status.ready),
            error: status.and_then(|status| status.error.as_ref()),
        }
    }
}

/// The patch after which `snapshot` shows what `content` does and the name of its group, and what that
/// shows for the first time; `None` if it does already.
pub(super) fn follow(
    snapshot: &Snapshot,
    content: &Content,
    group: Option<&Text>,
) -> Option<(Value, Progress)> {
    let (nothing, blank) = (SnapshotStatus::default(), ContentStatus::default());
    let shown = snapshot.status.as_deref().unwrap_or(&nothing);
    let status = content.status.as_deref().unwrap_or(&blank);
    let wanted = Wanted {
        bound: ("boundVolumeSnapshotContentName", &content.name),
        creation_time: status.creation_time.and_then(time),
        ready: status.ready.unwrap_or_default(),
        error: status.error.as_ref(),
    };
    let (mut change, progress) = change(&snapshot.shown(), wanted);
    if let Some(size) = status.restore_size.filter(|size| is_larger(*size, shown)) {
        let quantity = Quantity::from_bytes(size).to_string();
        change.insert("restoreSize".to_owned(), quantity.into());
    }
    if let Some(group) = group.filter(|_| shown.group.is_none()) {
        change.insert("volumeGroupSnapshotName".to_owned(), (&**group).into());
    }
    (!change.is_empty()).then(|| (patch(&snapshot.version, change), progress))
}

/// A size is never taken back or changed: claims are restored with at least that much.
fn is_larger(size: i64, shown: &SnapshotStatus) -> bool {
    match shown.restore_size.as_deref() {
        None => size >= 0,
        Some(text) => size > 0 && text.parse().is_ok_and(Quantity::is_zero),
    }
}
