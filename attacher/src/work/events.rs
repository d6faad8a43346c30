//! Warning events on volumes whose attach or detach keeps failing.
//!
//! Events are hints: the attacher writes them only where the service account may, and seldom enough
//! that people read them.

use std::sync::OnceLock;

use sidecar::kube::events::{Recorder, Reference, Severity};

use crate::model::{Attachment, Volume};
use crate::plan::event;
use crate::plan::outcome::{Direction, Failure};

/// Writes the events once [`allow`](Self::allow) was called.
#[derive(Default)]
pub struct FailureEvents {
    recorder: OnceLock<Recorder>,
}

impl FailureEvents {
    /// Enables events.
    pub fn allow(&self, recorder: Recorder) {
        // A second recorder would behave the same.
        let _ = self.recorder.set(recorder);
    }

    /// The `failures`-th attempt in a row on `attachment` failed.
    pub fn failed(
        &self,
        attachment: &Attachment,
        volume: Option<&Volume>,
        failure: &Failure,
        failures: u32,
    ) {
        let (Some(recorder), Some(name)) = (self.recorder.get(), &attachment.volume) else {
            return;
        };
        if !event::is_worth_warning(failures) {
            return;
        }
        let about = Reference {
            api_version: "v1".into(),
            kind: "PersistentVolume".into(),
            name: name.to_string(),
            uid: volume
                .and_then(|volume| volume.uid)
                .map(|uid| uid.to_string())
                .unwrap_or_default(),
            ..Reference::default()
        };
        let (node, by) = (&attachment.node, &attachment.name);
        let (reason, message) = match Direction::of(attachment) {
            Direction::Attach => (
                "FailedAttachVolume",
                format!(
                    "attaching to node {node} keeps failing (VolumeAttachment {by}): {failure}"
                ),
            ),
            Direction::Detach => (
                "FailedDetachVolume",
                format!(
                    "detaching from node {node} keeps failing (VolumeAttachment {by}): {failure}"
                ),
            ),
        };
        recorder.record(&about, Severity::Warning, reason, message);
    }
}
