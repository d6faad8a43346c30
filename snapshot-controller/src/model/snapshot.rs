//! VolumeSnapshot.

pub use sidecar::snapshot::{MISBOUND, MISSING};
use sidecar::snapshot::{SNAPSHOT_AS_SOURCE, SNAPSHOT_IN_GROUP, SNAPSHOT_IN_USE, content_name};

use super::{List, Text, key};

/// The fields that decisions need of a VolumeSnapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// `metadata.namespace`
    pub namespace: Text,
    /// `metadata.name`
    pub name: Text,
    /// `metadata.uid`
    pub uid: Text,
    /// `metadata.resourceVersion`, unparsed.
    pub version: Text,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.finalizers`
    pub finalizers: List,
    /// `metadata.ownerReferences`, if present.
    pub owners: Option<Box<Owners>>,
    /// `spec.source`
    pub source: Source,
    /// `spec.volumeSnapshotClassName`
    pub class: Option<Text>,
    /// `status`, if present.
    pub status: Option<Box<SnapshotStatus>>,
}

/// The fields that decisions need of `metadata.ownerReferences`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    /// All owner references as JSON: the list can only be replaced as a whole.
    pub json: Text,
    /// UID and name of the owning group snapshot, in any API version.
    pub group: Option<(Text, Text)>,
}

/// The source of a VolumeSnapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// The claim of this name, in the same namespace.
    Claim(Text),
    /// The VolumeSnapshotContent of this name, which an administrator made.
    Content(Text),
    /// Neither or both, which the API server refuses.
    #[default]
    Unclear,
}

/// The fields that decisions need of `status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotStatus {
    /// `boundVolumeSnapshotContentName`
    pub bound: Option<Text>,
    /// `creationTime`, unparsed.
    pub creation_time: Option<Text>,
    /// `readyToUse`
    pub ready: Option<bool>,
    /// `restoreSize`, an unparsed quantity.
    pub restore_size: Option<Text>,
    /// `error`
    pub error: Option<Failure>,
    /// `volumeGroupSnapshotName`
    pub group: Option<Text>,
}

/// `error` in a status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// `message`
    pub message: Option<Text>,
    /// `time`, unparsed.
    pub time: Option<Text>,
}

impl Snapshot {
    /// The key in caches and queues.
    #[must_use]
    pub fn key(&self) -> Text {
        key(&self.namespace, &self.name)
    }

    /// Whether it has this finalizer.
    #[must_use]
    pub fn holds(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|held| &**held == finalizer)
    }

    /// Whether a group snapshot made it and its content. Both the finalizer and the owner show it, since
    /// somebody may have removed one of them.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.holds(SNAPSHOT_IN_GROUP) || self.is_owned_member()
    }

    /// Whether a group snapshot made it and still owns it. A VolumeSnapshot for a pre-provisioned content may be
    /// owned as well, and does not count.
    #[must_use]
    pub fn is_owned_member(&self) -> bool {
        matches!(self.source, Source::Claim(_)) && self.owner().is_some()
    }

    /// UID and name of the group snapshot that owns it.
    #[must_use]
    pub fn owner(&self) -> Option<&(Text, Text)> {
        self.owners.as_deref()?.group.as_ref()
    }

    /// The name of its group snapshot: the owner's, or the one that the status names.
    #[must_use]
    pub fn group(&self) -> Option<&Text> {
        let named = || self.status.as_deref()?.group.as_ref();
        self.owner().map(|(_, name)| name).or_else(named)
    }

    /// Whether `status.readyToUse` is true.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.status
            .as_deref()
            .is_some_and(|s| s.ready == Some(true))
    }

    /// `status.boundVolumeSnapshotContentName`, unless it is empty.
    #[must_use]
    pub fn bound(&self) -> Option<&Text> {
        let bound = self.status.as_deref()?.bound.as_ref()?;
        Some(bound).filter(|name| !name.is_empty())
    }

    /// The name of its content, which may not exist yet.
    #[must_use]
    pub fn content_name(&self) -> Option<Text> {
        if let Some(bound) = self.bound() {
            return Some(bound.clone());
        }
        // The names of a member and of its content end alike.
        let member = self.name.strip_prefix("snapshot-");
        match (&self.source, member.filter(|_| self.is_member())) {
            (Source::Content(name), _) => Some(name.clone()),
            (_, Some(end)) => Some(content_name(end).into()),
            (Source::Claim(_), None) => Some(content_name(&self.uid).into()),
            (Source::Unclear, None) => None,
        }
    }

    /// The key of the claim that is its source.
    #[must_use]
    pub fn claim(&self) -> Option<Text> {
        match &self.source {
            Source::Claim(name) => Some(key(&self.namespace, name)),
            Source::Content(_) | Source::Unclear => None,
        }
    }

    /// The key of the claim that must stay for it: the VolumeSnapshot is not ready, and work on it has begun.
    /// One that never got a class must not hold other users' claim; nor must one that was taken and has lost its
    /// content, since it never becomes ready.
    #[must_use]
    pub fn uses(&self) -> Option<Text> {
        let uses = !self.is_ready() && self.holds(SNAPSHOT_AS_SOURCE) && !self.is_lost();
        self.claim().filter(|_| uses)
    }

    /// Whether its status says that its content is gone or belongs to another VolumeSnapshot.
    fn is_lost(&self) -> bool {
        let error = self.status.as_deref().and_then(|it| it.error.as_ref());
        let message = error.and_then(|error| error.message.as_deref());
        self.was_taken() && message.is_some_and(|text| [MISSING, MISBOUND].contains(&text))
    }

    /// Whether a volume may be restored from it now. Provisioners restore from ready VolumeSnapshots; one that
    /// has lost its content may have been ready before.
    #[must_use]
    pub fn is_restorable(&self) -> bool {
        self.is_ready() || self.is_lost() || self.holds(SNAPSHOT_IN_USE)
    }

    /// Whether a volume may be restored from it now or later. A VolumeSnapshot that is being deleted never
    /// becomes ready, provisioners do not begin to restore from it, and the API server accepts no new finalizer
    /// with which they could hold it.
    #[must_use]
    pub fn can_be_restored(&self) -> bool {
        !self.deleting || self.is_restorable()
    }

    /// Whether the snapshot was taken at some time. It is never taken again, since its data is of that moment.
    #[must_use]
    pub fn was_taken(&self) -> bool {
        let status = self.status.as_deref();
        status.is_some_and(|s| s.creation_time.is_some() || s.restore_size.is_some())
    }
}
