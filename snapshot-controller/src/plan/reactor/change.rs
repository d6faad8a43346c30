//! What a controller is told, and what it tells.

use crate::model::{Claim, Content, Group, GroupContent, Snapshot, Text};
use crate::plan::in_flight::Key;
use crate::plan::operation::Sample;

/// What an informer tells.
#[derive(Debug)]
pub enum Change<'a> {
    /// A VolumeSnapshot is new or has changed, or is gone.
    Snapshot {
        /// What was known of it.
        old: Option<&'a Snapshot>,
        /// What is known now.
        new: Option<&'a Snapshot>,
        /// Whether it is known from the answer to a write of this process, which the attempt that
        /// wrote it looks at.
        own: bool,
    },
    /// A VolumeSnapshotContent is new or has changed, or is gone.
    Content {
        /// What was known of it.
        old: Option<&'a Content>,
        /// What is known now.
        new: Option<&'a Content>,
        /// As above.
        own: bool,
    },
    /// A claim is new or has changed, or is gone.
    Claim {
        /// Its key.
        key: Text,
        /// What was known of it.
        old: Option<&'a Claim>,
        /// What is known now.
        new: Option<&'a Claim>,
    },
    /// A PersistentVolume of this name is new or has changed.
    Volume(Text),
    /// A VolumeSnapshotClass of this name is new or has changed, or is gone: of two defaults one is left.
    Class(Text),
    /// A VolumeGroupSnapshot is new or has changed, or is gone.
    Group {
        /// What was known of it.
        old: Option<&'a Group>,
        /// What is known now.
        new: Option<&'a Group>,
        /// As above.
        own: bool,
    },
    /// A VolumeGroupSnapshotContent is new or has changed, or is gone.
    GroupContent {
        /// What was known of it.
        old: Option<&'a GroupContent>,
        /// What is known now.
        new: Option<&'a GroupContent>,
        /// As above.
        own: bool,
    },
    /// A VolumeGroupSnapshotClass of this name is new or has changed, or is gone.
    GroupClass(Text),
    /// Nothing happened to what this key is about; the time for a resync has come.
    Resync(Key),
}

/// An event for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What it is about.
    pub about: About,
    /// Whether something may need attention.
    pub warning: bool,
    /// `reason`
    pub reason: &'static str,
    /// `message`
    pub message: String,
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its kind.
    pub kind: sidecar::snapshot::Kind,
    /// Its namespace, empty for contents.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
    /// Its UID.
    pub uid: Text,
    /// Its version.
    pub version: Text,
}

/// What the world is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Users are.
    Event(Box<Event>),
    /// Something that is waited for has come to its end.
    Sample(Sample),
    /// So many things are waited for.
    InFlight(usize),
}

/// Why an attempt is to be retried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// What failed.
    pub what: &'static str,
    /// Why.
    pub error: String,
}
