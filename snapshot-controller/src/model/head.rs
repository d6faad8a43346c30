//! The fields that single snapshots and group snapshots have in common.

use jiff::Timestamp;
use sidecar::snapshot::{
    self, CONTENT, CONTENT_BOUND, GROUP_CONTENT, GROUP_CONTENT_BOUND, GROUP_SNAPSHOT, SNAPSHOT,
    content_name, group_content_name,
};

use super::{
    Content, ContentSource, Failure, Group, GroupContent, GroupSource, List, Policy, Snapshot,
    SnapshotRef, Source, Text, key,
};

/// Single snapshots or group snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// VolumeSnapshots and VolumeSnapshotContents.
    Single,
    /// VolumeGroupSnapshots and VolumeGroupSnapshotContents.
    Group,
}

impl Kind {
    /// The value for this kind.
    #[must_use]
    pub fn say<T>(self, single: T, group: T) -> T {
        match self {
            Self::Single => single,
            Self::Group => group,
        }
    }

    /// The kind of the objects that users create.
    #[must_use]
    pub fn whole(self) -> snapshot::Kind {
        self.say(SNAPSHOT, GROUP_SNAPSHOT)
    }

    /// The kind of their contents.
    #[must_use]
    pub fn content(self) -> snapshot::Kind {
        self.say(CONTENT, GROUP_CONTENT)
    }

    /// The noun in sentences.
    #[must_use]
    pub fn noun(self) -> &'static str {
        self.say("snapshot", "group snapshot")
    }

    /// The noun at the beginning of some sentences.
    #[must_use]
    pub fn capital(self) -> &'static str {
        self.say("Snapshot", "GroupSnapshot")
    }

    /// The name of the content that is made for the object with this UID.
    #[must_use]
    pub fn content_name(self, uid: &str) -> Text {
        match self {
            Self::Single => content_name(uid).into(),
            Self::Group => group_content_name(uid).into(),
        }
    }
}

/// The common fields of a VolumeSnapshot or VolumeGroupSnapshot.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// Whether it is a group.
    pub kind: Kind,
    /// `metadata.namespace`
    pub namespace: &'a Text,
    /// `metadata.name`
    pub name: &'a Text,
    /// `metadata.uid`
    pub uid: &'a Text,
    /// `metadata.resourceVersion`
    pub version: &'a Text,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.finalizers`
    pub finalizers: &'a List,
    /// The source that its content must have.
    pub source: ContentSource,
    /// The name of the content that it names as its source.
    pub named: Option<&'a Text>,
    /// The name of its class.
    pub class: Option<&'a Text>,
    /// The name of its content in the status, unless it is empty.
    pub bound: Option<&'a Text>,
    /// Whether the status has a creation time.
    pub has_time: bool,
    /// Whether it was taken at some time.
    pub was_taken: bool,
    /// `status.readyToUse`
    pub ready: Option<bool>,
    /// `status.error`
    pub error: Option<&'a Failure>,
}

impl Head<'_> {
    /// The key in caches and queues.
    #[must_use]
    pub fn key(&self) -> Text {
        key(self.namespace, self.name)
    }
}

/// Reads the common fields off a record.
macro_rules! head {
    ($record:ident, $kind:ident, $source:ident::$volumes:ident) => {
        impl $record {
            /// The fields that VolumeSnapshots and VolumeGroupSnapshots have in common.
            #[must_use]
            pub fn head(&self) -> Head<'_> {
                let status = self.status.as_deref();
                let (source, named) = match &self.source {
                    $source::$volumes(_) => (ContentSource::Volume, None),
                    $source::Content(name) => (ContentSource::Snapshot, Some(name)),
                    $source::Unclear => (ContentSource::Unclear, None),
                };
                Head {
                    kind: Kind::$kind,
                    namespace: &self.namespace,
                    name: &self.name,
                    uid: &self.uid,
                    version: &self.version,
                    deleting: self.deleting,
                    finalizers: &self.finalizers,
                    source,
                    named,
                    class: self.class.as_ref(),
                    bound: self.bound(),
                    has_time: status.is_some_and(|status| status.creation_time.is_some()),
                    was_taken: self.was_taken(),
                    ready: status.and_then(|status| status.ready),
                    error: status.and_then(|status| status.error.as_ref()),
                }
            }
        }
    };
}

head!(Snapshot, Single, Source::Claim);
head!(Group, Group, GroupSource::Claims);

impl Group {
    /// The name of its content, which may not exist yet.
    #[must_use]
    pub fn content_name(&self) -> Option<Text> {
        match (self.bound(), &self.source) {
            (Some(name), _) | (None, GroupSource::Content(name)) => Some(name.clone()),
            (None, GroupSource::Claims(_)) => Some(Kind::Group.content_name(&self.uid)),
            (None, GroupSource::Unclear) => None,
        }
    }
}

/// The common fields of a VolumeSnapshotContent or VolumeGroupSnapshotContent.
#[derive(Clone, Copy, Debug)]
pub struct ContentHead<'a> {
    /// Whether it is a group's.
    pub kind: Kind,
    /// `metadata.name`
    pub name: &'a Text,
    /// `metadata.uid`
    pub uid: &'a Text,
    /// `metadata.resourceVersion`
    pub version: &'a Text,
    /// `metadata.creationTimestamp`
    pub created: Option<Timestamp>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.finalizers`
    pub finalizers: &'a List,
    /// Whether an annotation says that the driver may be taking the snapshot.
    pub being_created: bool,
    /// Whether an annotation says that its VolumeSnapshot or VolumeGroupSnapshot is being deleted.
    pub being_deleted: bool,
    /// The VolumeSnapshot or VolumeGroupSnapshot that it refers to.
    pub of: &'a SnapshotRef,
    /// `spec.source`
    pub source: ContentSource,
    /// The name of its class.
    pub class: Option<&'a Text>,
    /// `spec.driver`
    pub driver: &'a Text,
    /// `spec.deletionPolicy`
    pub policy: Policy,
    /// Whether it has a status.
    pub has_status: bool,
    /// `status.readyToUse`
    pub ready: Option<bool>,
    /// `status.error`
    pub error: Option<&'a Failure>,
}

impl ContentHead<'_> {
    /// The finalizer that keeps it until the sidecar has deleted the snapshot.
    #[must_use]
    pub fn finalizer(&self) -> &'static str {
        self.kind.say(CONTENT_BOUND, GROUP_CONTENT_BOUND)
    }

    /// Whether it has that finalizer.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        let mut held = self.finalizers.iter();
        held.any(|held| **held == *self.finalizer())
    }

    /// Whether it refers to an object of this name, whatever its UID.
    #[must_use]
    pub fn names(&self, head: &Head<'_>) -> bool {
        self.of.name == *head.name && self.of.namespace == *head.namespace
    }

    /// Whether it refers to this object, by UID.
    #[must_use]
    pub fn is_of(&self, head: &Head<'_>) -> bool {
        self.names(head) && self.of.uid == *head.uid
    }

    /// The key of the object that it refers to.
    #[must_use]
    pub fn of_key(&self) -> Text {
        key(&self.of.namespace, &self.of.name)
    }
}

/// Reads the common fields off a record.
macro_rules! content_head {
    ($record:ident, $kind:ident, $of:ident) => {
        impl $record {
            /// The fields that VolumeSnapshotContents and VolumeGroupSnapshotContents have in common.
            #[must_use]
            pub fn head(&self) -> ContentHead<'_> {
                let status = self.status.as_deref();
                ContentHead {
                    kind: Kind::$kind,
                    name: &self.name,
                    uid: &self.uid,
                    version: &self.version,
                    created: self.created,
                    deleting: self.deleting,
                    finalizers: &self.finalizers,
                    being_created: self.being_created,
                    being_deleted: self.being_deleted,
                    of: &self.$of,
                    source: self.source,
                    class: self.class.as_ref(),
                    driver: &self.driver,
                    policy: self.policy,
                    has_status: status.is_some(),
                    ready: status.and_then(|status| status.ready),
                    error: status.and_then(|status| status.error.as_ref()),
                }
            }
        }
    };
}

content_head!(Content, Single, snapshot);
content_head!(GroupContent, Group, group);
