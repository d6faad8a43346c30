//! Whether no sidecar answers: a content that nobody begins with, for minutes.
//!
//! Nothing else would tell: there is no driver of that name, its sidecar does not run, or it leaves the
//! content to another node's.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use super::complaint::Complaint;
use crate::model::{Content, Snapshot, Text};

/// So long a content may be without any sign of a sidecar.
const PATIENCE: Duration = Duration::from_mins(5);
/// So long it is not said again.
const PAUSE: Duration = Duration::from_hours(1);

/// When it was said last, by UID of the VolumeSnapshot.
#[derive(Debug, Default)]
pub struct Silent(HashMap<Text, Timestamp>);

/// What is to be done about a content that nobody begins with.
#[derive(Debug)]
pub struct Silence {
    /// What users are told now.
    pub told: Option<Complaint>,
    /// After so long it is looked at again.
    pub again: Duration,
}

impl Silent {
    /// What is to be done, `None` if somebody has begun.
    pub fn look(&mut self, of: &Snapshot, content: &Content, now: Timestamp) -> Option<Silence> {
        let begun = content.being_created || content.status.is_some();
        let ends = of.deleting || content.deleting || content.being_deleted;
        if begun || ends || !content.is_of(of) || of.is_member() {
            self.forget(&of.uid);
            return None;
        }
        let since = Duration::try_from(now.duration_since(content.created?));
        let left = PATIENCE.saturating_sub(since.unwrap_or_default());
        let last = self.0.get(&of.uid).map(|last| now.duration_since(*last));
        let last = last.map(|last| Duration::try_from(last).unwrap_or_default());
        let left = left.max(last.map_or(Duration::ZERO, |last| PAUSE.saturating_sub(last)));
        if !left.is_zero() {
            return Some(Silence {
                told: None,
                again: left,
            });
        }
        self.0.insert(of.uid.clone(), now);
        let (name, driver) = (&content.name, &content.driver);
        let message = format!(
            "No csi-snapshotter has started on VolumeSnapshotContent {name} for five minutes: check that the csi-snapshotter of driver {driver} runs and has its permissions"
        );
        Some(Silence {
            told: Some(Complaint::event("SnapshotNotHandled", message)),
            again: PAUSE,
        })
    }

    /// The VolumeSnapshot with this UID is gone.
    pub fn forget(&mut self, uid: &Text) {
        self.0.remove(uid);
    }
}
