//! Detects contents that no sidecar begins with, for minutes.
//!
//! Nothing else would report it: there is no driver of that name, its sidecar does not run or does not
//! serve groups, or the sidecar leaves the content to another node's.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use super::complaint::Complaint;
use crate::model::{Content, Group, GroupContent, Snapshot, Text};

/// How long a content may wait for the first sign of a sidecar.
const UNHANDLED_AFTER: Duration = Duration::from_mins(5);
/// How long until the event is repeated.
const EVENT_INTERVAL: Duration = Duration::from_hours(1);

/// Time of the last event, by UID of the VolumeSnapshot or VolumeGroupSnapshot.
#[derive(Clone, Debug, Default)]
pub struct UnhandledContents(HashMap<Text, Timestamp>);

/// The reaction to a content that no sidecar has begun with.
#[derive(Clone, Debug)]
pub struct Reaction {
    /// The event to record now.
    pub event: Option<Complaint>,
    /// When to look again.
    pub after: Duration,
}

/// A content that no sidecar has begun with.
#[derive(Clone, Debug)]
pub struct Unhandled<'a> {
    created: Timestamp,
    reason: &'static str,
    kind: &'static str,
    name: &'a Text,
    driver: &'a Text,
    check: &'static str,
}

impl<'a> Unhandled<'a> {
    /// The content of this VolumeSnapshot, if it waits for a sidecar; a member's waits for its group.
    #[must_use]
    pub fn of(of: &Snapshot, content: &'a Content) -> Option<Self> {
        let begun = content.being_created || content.status.is_some();
        let ends = of.deleting || content.deleting || content.being_deleted;
        let waits = !begun && !ends && content.is_of(of) && !of.is_member();
        Some(Self {
            created: content.created.filter(|_| waits)?,
            reason: "SnapshotNotHandled",
            kind: "VolumeSnapshotContent",
            name: &content.name,
            driver: &content.driver,
            check: "",
        })
    }

    /// The content of this VolumeGroupSnapshot, if it waits for a sidecar.
    #[must_use]
    pub fn of_group(of: &Group, content: &'a GroupContent) -> Option<Self> {
        let begun = content.being_created || content.status.is_some();
        let ends = of.deleting || content.deleting || content.being_deleted;
        let waits = !begun && !ends && content.is_of(of);
        Some(Self {
            created: content.created.filter(|_| waits)?,
            reason: "GroupSnapshotNotHandled",
            kind: "VolumeGroupSnapshotContent",
            name: &content.name,
            driver: &content.driver,
            check: ", has --feature-gates=CSIVolumeGroupSnapshot=true",
        })
    }
}

impl UnhandledContents {
    /// The reaction for the object with this UID; `None` if a sidecar has begun.
    pub fn look(
        &mut self,
        uid: &Text,
        content: Option<Unhandled<'_>>,
        now: Timestamp,
    ) -> Option<Reaction> {
        let Some(content) = content else {
            self.forget(uid);
            return None;
        };
        let since = Duration::try_from(now.duration_since(content.created));
        let left = UNHANDLED_AFTER.saturating_sub(since.unwrap_or_default());
        let last = self.0.get(uid).map(|last| now.duration_since(*last));
        let last = last.map(|last| Duration::try_from(last).unwrap_or_default());
        let left =
            left.max(last.map_or(Duration::ZERO, |last| EVENT_INTERVAL.saturating_sub(last)));
        if !left.is_zero() {
            return Some(Reaction {
                event: None,
                after: left,
            });
        }
        self.0.insert(uid.clone(), now);
        let Unhandled {
            reason,
            kind,
            name,
            driver,
            check,
            ..
        } = content;
        let message = format!(
            "No csi-snapshotter has started on {kind} {name} for five minutes: check that the csi-snapshotter of driver {driver} runs{check} and has its permissions"
        );
        Some(Reaction {
            event: Some(Complaint::event(reason, message)),
            after: EVENT_INTERVAL,
        })
    }

    /// Forgets the object with this UID, which is gone or served.
    pub fn forget(&mut self, uid: &Text) {
        self.0.remove(uid);
    }
}
