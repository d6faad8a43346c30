//! The kinds of contents, and the names of their fields and annotations.

use sidecar::snapshot::{
    BEING_CREATED, BEING_DELETED, CONTENT_BOUND, DELETION_SECRET_NAME, DELETION_SECRET_NAMESPACE,
    GROUP_BEING_CREATED, GROUP_BEING_DELETED, GROUP_CONTENT_BOUND, GROUP_DELETION_SECRET_NAME,
    GROUP_DELETION_SECRET_NAMESPACE,
};

/// The kind of a content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// One snapshot: a VolumeSnapshotContent.
    #[default]
    Single,
    /// A group snapshot: a VolumeGroupSnapshotContent.
    Group,
}

impl Kind {
    /// The finalizer that keeps the content until its snapshots are deleted.
    #[must_use]
    pub const fn finalizer(self) -> &'static str {
        match self {
            Self::Single => CONTENT_BOUND,
            Self::Group => GROUP_CONTENT_BOUND,
        }
    }

    /// The annotation that marks a create call which may have had an effect.
    #[must_use]
    pub const fn being_created(self) -> &'static str {
        match self {
            Self::Single => BEING_CREATED,
            Self::Group => GROUP_BEING_CREATED,
        }
    }

    /// The annotation that marks the deletion of the object that the content was created for.
    #[must_use]
    pub const fn being_deleted(self) -> &'static str {
        match self {
            Self::Single => BEING_DELETED,
            Self::Group => GROUP_BEING_DELETED,
        }
    }

    /// The annotations with name and namespace of the Secret for creation and deletion.
    #[must_use]
    pub const fn deletion_secret(self) -> [&'static str; 2] {
        match self {
            Self::Single => [DELETION_SECRET_NAME, DELETION_SECRET_NAMESPACE],
            Self::Group => [GROUP_DELETION_SECRET_NAME, GROUP_DELETION_SECRET_NAMESPACE],
        }
    }
}
