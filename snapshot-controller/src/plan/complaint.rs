//! How a failure is reported to users, and which change may end it.

use super::reactor::Failed;
use super::request::Object;
use crate::model::{Kind, Text};

/// A change that may end a failure. Its arrival requeues the failed attempt at once.
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

/// How a failed attempt changes the VolumeSnapshot's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// Leaves the status: the event alone reports the failure.
    Nothing,
    /// Writes the error.
    Error,
    /// Writes the error and `readyToUse: false`.
    Unready,
}

/// The text for a write that failed or was not sent, in upstream's words.
#[must_use]
pub fn unwritten(name: &str, error: &dyn std::fmt::Display) -> String {
    format!("snapshot controller failed to update {name} on API server: {error}")
}

/// A failure, as it is reported to users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The event's reason.
    pub reason: &'static str,
    /// The text of the event and of the error in the status.
    pub message: String,
    /// How the failure changes the status.
    pub record: Record,
    /// Another event, recorded first.
    pub also: Option<(&'static str, String)>,
    /// Changes that may end the failure before the back-off does.
    pub triggers: Vec<RequeueTrigger>,
}

impl Complaint {
    /// A failure reported by an event alone.
    pub fn event(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            record: Record::Nothing,
            also: None,
            triggers: Vec::new(),
        }
    }

    /// A failure reported by an event and in the status, with `readyToUse: false`.
    pub fn unready(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            record: Record::Unready,
            ..Self::event(reason, message)
        }
    }

    /// A failure reported by an event and in the status, whose `readyToUse` stays.
    pub fn error(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            record: Record::Error,
            ..Self::event(reason, message)
        }
    }

    /// The content cannot be created, for this reason.
    pub fn uncreated(kind: Kind, error: &str) -> Self {
        let reason = kind.say(
            "SnapshotContentCreationFailed",
            "GroupSnapshotContentCreationFailed",
        );
        let failed = kind.say(
            "Failed to create snapshot",
            "failed to create group snapshot",
        );
        Self::unready(reason, format!("{failed} content with error {error}"))
    }

    /// The failure, as it is logged.
    #[must_use]
    pub fn failed(&self) -> Failed {
        Failed {
            what: self.reason,
            error: self.message.clone(),
        }
    }

    /// `what` cannot be deleted while these claims are being restored from it; `None` without claims.
    /// Names the first few.
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
        let claims = claims.into_iter().map(Object::Claim);
        let triggers: Vec<_> = claims.map(RequeueTrigger::Object).collect();
        (!triggers.is_empty()).then(|| complaint.until_all(triggers))
    }

    /// Adds triggers, any of which requeues the attempt.
    #[must_use]
    pub fn until_all(mut self, triggers: Vec<RequeueTrigger>) -> Self {
        self.triggers.extend(triggers);
        self
    }

    /// Adds a trigger that requeues the attempt.
    #[must_use]
    pub fn until(mut self, trigger: RequeueTrigger) -> Self {
        self.triggers.push(trigger);
        self
    }

    /// Adds a change of this object as a trigger.
    #[must_use]
    pub fn until_changed(self, object: Object) -> Self {
        self.until(RequeueTrigger::Object(object))
    }
}
