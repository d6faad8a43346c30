//! Makes a VolumeSnapshot's status follow its content's.

use serde_json::Value;
use sidecar::quantity::Quantity;

use crate::model::{Content, ContentStatus, Snapshot, SnapshotStatus, Text};
use crate::plan::status::{Shown, Wanted, change, patch, time};
use crate::plan::view::Progress;

impl Snapshot {
    /// The fields of the status that `change` compares.
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

/// The patch that makes the status of `snapshot` follow `content` and name the group, and the progress
/// it shows for the first time; `None` if the status does already.
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

/// Whether the size is larger. A size is never withdrawn or lowered: claims were restored with at
/// least that much.
fn is_larger(size: i64, shown: &SnapshotStatus) -> bool {
    match shown.restore_size.as_deref() {
        None => size >= 0,
        Some(text) => size > 0 && text.parse().is_ok_and(Quantity::is_zero),
    }
}
