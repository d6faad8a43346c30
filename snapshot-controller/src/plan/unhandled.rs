//! Detects contents that no sidecar begins with, for minutes.
//!
//! Nothing else would report it: there is no driver of that name, its sidecar does not run or does not
//! serve groups, or the sidecar leaves the content to another node's.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use super::complaint::Complaint;
use crate::model::{ContentHead, Head, Text};

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

impl UnhandledContents {
    /// The reaction if `content` of this VolumeSnapshot or VolumeGroupSnapshot waits for a sidecar.
    pub(super) fn look(
        &mut self,
        of: &Head<'_>,
        content: Option<ContentHead<'_>>,
        now: Timestamp,
    ) -> Option<Reaction> {
        let waits = |it: &ContentHead<'_>| {
            let begun = it.being_created || it.has_status;
            let ends = of.deleting || it.deleting || it.being_deleted;
            !begun && !ends && it.is_of(of)
        };
        let uid = of.uid;
        let waiting = content.filter(waits).and_then(|it| Some((it, it.created?)));
        let Some((content, created)) = waiting else {
            self.forget(uid);
            return None;
        };
        let since = Duration::try_from(now.duration_since(created));
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
        let (kind, name, driver) = (content.kind, content.name, content.driver);
        let check = kind.say("", ", has --feature-gates=CSIVolumeGroupSnapshot=true");
        let message = format!(
            "No csi-snapshotter has started on {} {name} for five minutes: check that the csi-snapshotter of driver {driver} runs{check} and has its permissions",
            kind.content().kind
        );
        let reason = kind.say("SnapshotNotHandled", "GroupSnapshotNotHandled");
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
