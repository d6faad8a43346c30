//! Events that the controller receives, and notices that it gives.

use crate::model::{Claim, Content, Group, GroupContent, Snapshot, Text};
use crate::plan::in_flight::Key;
use crate::plan::operation::Sample;

/// A change that an informer reports.
#[derive(Debug)]
pub enum Change<'a> {
    /// A VolumeSnapshot is new, changed or deleted.
    Snapshot(Update<'a, Snapshot>),
    /// A VolumeSnapshotContent is new, changed or deleted.
    Content(Update<'a, Content>),
    /// The claim with this key is new, changed or deleted.
    Claim(Text, Update<'a, Claim>),
    /// The PersistentVolume of this name is new or changed.
    Volume(Text),
    /// The VolumeSnapshotClass of this name is new, changed or deleted; a deletion may leave one default
    /// of two.
    Class(Text),
    /// A VolumeGroupSnapshot is new, changed or deleted.
    Group(Update<'a, Group>),
    /// A VolumeGroupSnapshotContent is new, changed or deleted.
    GroupContent(Update<'a, GroupContent>),
    /// The VolumeGroupSnapshotClass of this name is new, changed or deleted.
    GroupClass(Text),
    /// The object of this key is unchanged and due for a resync.
    Resync(Key),
}

/// An object before and after a change; `None` if it did not or does not exist.
#[derive(Debug)]
pub struct Update<'a, T> {
    /// The record before.
    pub old: Option<&'a T>,
    /// The record now.
    pub new: Option<&'a T>,
    /// Whether the change comes from the reply to a write of this process, which the writing attempt
    /// looks at itself.
    pub own: bool,
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
