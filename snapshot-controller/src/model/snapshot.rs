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
    /// `metadata.resourceVersion`, as it came.
    pub version: Text,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.finalizers`
    pub finalizers: List,
    /// `metadata.ownerReferences`, if there are any.
    pub owners: Option<Box<Owners>>,
    /// `spec.source`
    pub source: Source,
    /// `spec.volumeSnapshotClassName`
    pub class: Option<Text>,
    /// `status`, if there is one.
    pub status: Option<Box<SnapshotStatus>>,
}

/// The fields that decisions need of `metadata.ownerReferences`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    /// All of them as JSON: a list may only be replaced.
    pub json: Text,
    /// UID and name of the group snapshot among them, under whichever version it was written.
    pub group: Option<(Text, Text)>,
}

/// What a VolumeSnapshot is taken from, or stands for.
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
    /// `creationTime`, as it was written.
    pub creation_time: Option<Text>,
    /// `readyToUse`
    pub ready: Option<bool>,
    /// `restoreSize`, a quantity as it was written.
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
    /// `time`, as it was written.
    pub time: Option<Text>,
}

impl Snapshot {
    /// Its key in caches and queues.
    #[must_use]
    pub fn key(&self) -> Text {
        key(&self.namespace, &self.name)
    }

    /// Whether it has this finalizer.
    #[must_use]
    pub fn holds(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|held| &**held == finalizer)
    }

    /// Whether a group snapshot made it and its content. Of what shows that, somebody may have taken
    /// away the finalizer or the owner.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.holds(SNAPSHOT_IN_GROUP) || self.is_owned_member()
    }

    /// Whether a group snapshot made it, which still owns it: one that stands for a content of an
    /// administrator may be owned as well.
    #[must_use]
    pub fn is_owned_member(&self) -> bool {
        matches!(self.source, Source::Claim(_)) && self.owner().is_some()
    }

    /// UID and name of the group snapshot that owns it.
    #[must_use]
    pub fn owner(&self) -> Option<&(Text, Text)> {
        self.owners.as_deref()?.group.as_ref()
    }

    /// The name of the group snapshot that it belongs to: that of its owner, or of the one that its
    /// content's handle has led to.
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

    /// The name that its content has or will have.
    #[must_use]
    pub fn content_name(&self) -> Option<Text> {
        if let Some(bound) = self.bound() {
            return Some(bound.clone());
        }
        // Names of a member and of its content have the same end.
        let member = self.name.strip_prefix("snapshot-");
        match (&self.source, member.filter(|_| self.is_member())) {
            (Source::Content(name), _) => Some(name.clone()),
            (_, Some(end)) => Some(content_name(end).into()),
            (Source::Claim(_), None) => Some(content_name(&self.uid).into()),
            (Source::Unclear, None) => None,
        }
    }

    /// The key of the claim that it is taken from.
    #[must_use]
    pub fn claim(&self) -> Option<Text> {
        match &self.source {
            Source::Claim(name) => Some(key(&self.namespace, name)),
            Source::Content(_) | Source::Unclear => None,
        }
    }

    /// The key of the claim that has to stay for it: it is not ready yet, and work on it has begun.
    /// One that never got so far, for want of a class, must not hold the claim of others; nor one that
    /// was taken and has lost its content, since it never becomes ready.
    #[must_use]
    pub fn uses(&self) -> Option<Text> {
        let uses = !self.is_ready() && self.holds(SNAPSHOT_AS_SOURCE) && !self.is_lost();
        self.claim().filter(|_| uses)
    }

    /// Whether its status says that the content of what was taken is gone, or another's.
    fn is_lost(&self) -> bool {
        let error = self.status.as_deref().and_then(|it| it.error.as_ref());
        let message = error.and_then(|error| error.message.as_deref());
        self.was_taken() && message.is_some_and(|text| [MISSING, MISBOUND].contains(&text))
    }

    /// Whether a volume may be made of it at this moment. Provisioners restore what is ready; one that has lost
    /// its content may have been ready before.
    #[must_use]
    pub fn is_restorable(&self) -> bool {
        self.is_ready() || self.is_lost() || self.holds(SNAPSHOT_IN_USE)
    }

    /// Whether a volume may be made of it, now or later. What is being deleted never becomes ready, provisioners
    /// begin with none that is, and the API server takes no new finalizer with which they could hold it.
    #[must_use]
    pub fn can_be_restored(&self) -> bool {
        !self.deleting || self.is_restorable()
    }

    /// Whether there was a snapshot at some time. Its data is of that moment: it is never taken anew.
    #[must_use]
    pub fn was_taken(&self) -> bool {
        let status = self.status.as_deref();
        status.is_some_and(|s| s.creation_time.is_some() || s.restore_size.is_some())
    }
}
