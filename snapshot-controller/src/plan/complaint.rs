//! What a failure tells users, and what ends it.

use super::request::Object;
use crate::model::Text;

/// What a failed attempt waits for. Whatever it is, its arrival brings the attempt back at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RequeueTrigger {
    /// The VolumeSnapshotClass of this name, new, changed or gone.
    Class(Text),
    /// Any VolumeSnapshotClass, new, changed or gone.
    AnyClass,
    /// The VolumeGroupSnapshotClass of this name, new, changed or gone.
    GroupClass(Text),
    /// Any VolumeGroupSnapshotClass, new, changed or gone.
    AnyGroupClass,
    /// The object, new or changed.
    Object(Object),
}

/// What becomes of the VolumeSnapshot's status when an attempt fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// Nothing: the event alone tells.
    Nothing,
    /// The error is written.
    Error,
    /// The error is written, and that it is not ready.
    Unready,
}

/// What users are told of a write that failed, or was not begun, in upstream's words.
#[must_use]
pub fn unwritten(name: &str, error: &dyn std::fmt::Display) -> String {
    format!("snapshot controller failed to update {name} on API server: {error}")
}

/// A failure that users are told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The event's reason.
    pub reason: &'static str,
    /// The event's text, and that of the error in the status.
    pub message: String,
    /// What becomes of the status.
    pub record: Record,
    /// One more event, told before.
    pub also: Option<(&'static str, String)>,
    /// What ends it, besides time.
    pub triggers: Vec<RequeueTrigger>,
}

impl Complaint {
    /// Told by an event alone.
    pub fn event(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            record: Record::Nothing,
            also: None,
            triggers: Vec::new(),
        }
    }

    /// Told by an event, and written into the status, which is not ready then.
    pub fn unready(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            record: Record::Unready,
            ..Self::event(reason, message)
        }
    }

    /// Told by an event, and written into the status, whose readiness stays.
    pub fn error(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            record: Record::Error,
            ..Self::event(reason, message)
        }
    }

    /// A content cannot be made, for this reason.
    pub fn uncreated(error: impl std::fmt::Display) -> Self {
        let message = format!("Failed to create snapshot content with error {error}");
        Self::unready("SnapshotContentCreationFailed", message)
    }

    /// A content of a group cannot be made, for this reason.
    pub fn ungrouped(error: &impl std::fmt::Display) -> Self {
        let message = format!("failed to create group snapshot content with error {error}");
        Self::unready("GroupSnapshotContentCreationFailed", message)
    }

    /// `what` cannot go while these claims are restored from it; `None` if there are none. The first few
    /// are named.
    #[must_use]
    pub fn restoring(what: &str, claims: Vec<Text>) -> Option<Self> {
        const NAMED: usize = 3;
        let named: Vec<&str> = claims.iter().take(NAMED).map(|claim| &**claim).collect();
        let others = match claims.len().saturating_sub(NAMED) {
            0 => String::new(),
            number => format!(" and {number} more"),
        };
        let named = named.join(", ");
        let message = format!("{what} is being used to restore a PVC: {named}{others}");
        let complaint = Self::event("SnapshotDeletePending", message);
        let triggers: Vec<_> = claims
            .into_iter()
            .map(|claim| RequeueTrigger::Object(Object::Claim(claim)))
            .collect();
        (!triggers.is_empty()).then(|| complaint.until_all(triggers))
    }

    /// The same, which any of `triggers` ends.
    #[must_use]
    pub fn until_all(mut self, triggers: Vec<RequeueTrigger>) -> Self {
        self.triggers.extend(triggers);
        self
    }

    /// The same, which `trigger` ends.
    #[must_use]
    pub fn until(mut self, trigger: RequeueTrigger) -> Self {
        self.triggers.push(trigger);
        self
    }

    /// The same, which a change of this object ends.
    #[must_use]
    pub fn until_changed(self, object: Object) -> Self {
        self.until(RequeueTrigger::Object(object))
    }
}
