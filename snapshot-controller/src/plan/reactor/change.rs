//! Events that the controller receives, and notices that it gives.

use crate::model::{Claim, Content, Group, GroupContent, Snapshot, Text};
use crate::plan::in_flight::Key;
use crate::plan::operation::Sample;

/// A change that an informer reports.
#[derive(Debug)]
pub enum Change<'a> {
    /// A VolumeSnapshot is new, changed or deleted.
    Snapshot {
        /// The record before.
        old: Option<&'a Snapshot>,
        /// The record now.
        new: Option<&'a Snapshot>,
        /// Whether the change comes from the reply to a write of this process, which the writing attempt
        /// looks at itself.
        own: bool,
    },
    /// A VolumeSnapshotContent is new, changed or deleted.
    Content {
        /// The record before.
        old: Option<&'a Content>,
        /// The record now.
        new: Option<&'a Content>,
        /// Whether the change comes from the reply to a write of this process.
        own: bool,
    },
    /// A claim is new, changed or deleted.
    Claim {
        /// Key of the claim.
        key: Text,
        /// The record before.
        old: Option<&'a Claim>,
        /// The record now.
        new: Option<&'a Claim>,
    },
    /// The PersistentVolume of this name is new or changed.
    Volume(Text),
    /// The VolumeSnapshotClass of this name is new, changed or deleted; a deletion may leave one default
    /// of two.
    Class(Text),
    /// A VolumeGroupSnapshot is new, changed or deleted.
    Group {
        /// The record before.
        old: Option<&'a Group>,
        /// The record now.
        new: Option<&'a Group>,
        /// Whether the change comes from the reply to a write of this process.
        own: bool,
    },
    /// A VolumeGroupSnapshotContent is new, changed or deleted.
    GroupContent {
        /// The record before.
        old: Option<&'a GroupContent>,
        /// The record now.
        new: Option<&'a GroupContent>,
        /// Whether the change comes from the reply to a write of this process.
        own: bool,
    },
    /// The VolumeGroupSnapshotClass of this name is new, changed or deleted.
    GroupClass(Text),
    /// The object of this key is unchanged and due for a resync.
    Resync(Key),
}

/// An event for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The object that the event is about.
    pub about: About,
    /// Whether the event's type is `Warning`.
    pub warning: bool,
    /// `reason`
    pub reason: &'static str,
    /// `message`
    pub message: String,
}

/// The object that an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Kind of the object.
    pub kind: sidecar::snapshot::Kind,
    /// Namespace of the object, empty for contents.
    pub namespace: Text,
    /// Name of the object.
    pub name: Text,
    /// UID of the object.
    pub uid: Text,
    /// Resource version of the object.
    pub version: Text,
}

/// Output of the controller for users and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// An event for users.
    Event(Box<Event>),
    /// An operation has ended.
    Sample(Sample),
    /// Number of running operations.
    InFlight(usize),
}

/// A failure after which an attempt is retried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The step that failed.
    pub what: &'static str,
    /// The error's text.
    pub error: String,
}
