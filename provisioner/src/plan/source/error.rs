//! Why a data source cannot be used.
//!
//! Users read these texts, in events on their claims.

use crate::keys::ALLOW_MODE_CHANGE;
use crate::model::{Quantity, Text, VolumeMode};
use crate::plan::outcome::RequeueTrigger;

/// Why a data source cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Another namespace without the gate.
    #[error(
        "dataSourceRef.namespace is set, but the feature gate CrossNamespaceVolumeDataSource is \
         off in the provisioner"
    )]
    CrossNamespaceOff,
    /// Nobody allows it.
    #[error(
        "no ReferenceGrant in the namespace of {kind} {origin} allows PersistentVolumeClaim \
         {claim} to use it"
    )]
    NotGranted {
        /// The claim.
        claim: Text,
        /// Kind of the data source.
        kind: Text,
        /// Namespace and name of the data source.
        origin: Text,
    },
    /// No name.
    #[error("the claim's data source has no name")]
    NoName,
    /// A snapshot of another API.
    #[error(
        "the claim's data source is a VolumeSnapshot of the API group {0:?} instead of snapshot.storage.k8s.io"
    )]
    Group(Text),
    /// The snapshot is being deleted.
    #[error("snapshot {0} is currently being deleted")]
    SnapshotDeleting(Text),
    /// The snapshot is not bound.
    #[error("snapshot {0} not bound")]
    SnapshotUnbound(Text),
    /// The content is another snapshot's.
    #[error(
        "snapshotcontent {0} is not bound to the snapshot: its volumeSnapshotRef names another one"
    )]
    ContentMismatch(Text),
    /// Another driver's snapshot.
    #[error(
        "snapshotcontent {content} belongs to driver {driver}, not to the StorageClass's provisioner; a \
         StorageClass with that provisioner is needed"
    )]
    SnapshotDriver {
        /// The content.
        content: Text,
        /// Its driver.
        driver: Text,
    },
    /// Not ready.
    #[error("snapshot {0} is not Ready")]
    SnapshotNotReady(Text),
    /// No handle.
    #[error("snapshotcontent {0} has no snapshotHandle")]
    NoSnapshotHandle(Text),
    /// The claim says no size.
    #[error("the claim requests no storage")]
    NoRequest,
    /// Too small.
    #[error(
        "requested volume size {requested} is less than the size {restore} for the source snapshot"
    )]
    TooSmallForSnapshot {
        /// What is requested.
        requested: Quantity,
        /// What is needed.
        restore: Quantity,
    },
    /// Another mode, and nobody allows it.
    #[error(
        "requested volume has mode {}, the snapshot's source had {}; converting is prevented \
         unless the VolumeSnapshotContent has the annotation {ALLOW_MODE_CHANGE}: \"true\"",
        to.name(), from.name()
    )]
    ModeConversion {
        /// Mode of the snapshot's source.
        from: VolumeMode,
        /// Mode of the claim.
        to: VolumeMode,
    },
    /// Not bound.
    #[error("the PVC source {0} is not bound")]
    SourceUnbound(Text),
    /// Being deleted.
    #[error("the PVC source {0} is currently being deleted")]
    SourceDeleting(Text),
    /// No class.
    #[error("the PVC source {0} has no storageClassName")]
    SourceWithoutClass(Text),
    /// No class.
    #[error("the claim has no storageClassName, which a clone needs")]
    ClaimWithoutClass,
    /// Too small.
    #[error("requested volume size {requested} is less than the size {present} of the PVC source")]
    TooSmallForClone {
        /// What is requested.
        requested: Quantity,
        /// What the source has.
        present: Quantity,
    },
    /// No volume.
    #[error("the PVC source {0} has no volumeName")]
    SourceWithoutVolume(Text),
    /// In-tree, for example.
    #[error("the source volume {0} is no CSI volume")]
    VolumeNotCsi(Text),
    /// Another driver's.
    #[error(
        "the source volume {volume} belongs to driver {driver}, not to the StorageClass's provisioner; a \
         StorageClass with that provisioner is needed"
    )]
    VolumeDriver {
        /// The volume.
        volume: Text,
        /// Its driver.
        driver: Text,
    },
    /// Somebody else's.
    #[error("the source volume {volume} is not bound to the PVC source {claim}")]
    VolumeNotOfSource {
        /// The volume.
        volume: Text,
        /// The claim to be cloned.
        claim: Text,
    },
    /// Not bound.
    #[error("the source volume {0} is not bound")]
    VolumeUnbound(Text),
    /// Another mode.
    #[error("the source volume has mode {}, the claim {}; a clone cannot convert", from.name(), to.name())]
    CloneMode {
        /// Mode of the source.
        from: VolumeMode,
        /// Mode of the claim.
        to: VolumeMode,
    },
}

impl Error {
    /// What would cure it, as far as it is watched.
    #[must_use]
    pub fn cure(&self) -> Option<RequeueTrigger> {
        if let Self::NotGranted { origin, .. } = self {
            let namespace = origin.split('/').next().unwrap_or_default();
            return Some(RequeueTrigger::Grant(namespace.into()));
        }
        if let Self::SourceUnbound(claim) = self {
            return Some(RequeueTrigger::SourceClaim(claim.clone()));
        }
        None
    }

    /// Whether nothing in the cluster could change it: the claim itself is wrong, or not allowed.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            Self::CrossNamespaceOff | Self::NotGranted { .. } | Self::NoName | Self::Group(_)
        )
    }
}
