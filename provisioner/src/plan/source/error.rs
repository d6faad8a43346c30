//! Why a data source cannot be used.
//!
//! Users read these texts, in events on their claims.

use crate::keys::ALLOW_MODE_CHANGE;
use crate::model::{Quantity, Text, VolumeMode};
use crate::plan::outcome::RequeueTrigger;

/// Error of a data source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The data source is in another namespace, and the gate is off.
    #[error(
        "dataSourceRef.namespace is set, but the feature gate CrossNamespaceVolumeDataSource is \
         off in the provisioner"
    )]
    CrossNamespaceOff,
    /// No ReferenceGrant allows the claim to use the data source.
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
    /// The data source has no name.
    #[error("the claim's data source has no name")]
    NoName,
    /// The VolumeSnapshot is of another API group.
    #[error(
        "the claim's data source is a VolumeSnapshot of the API group {0:?} instead of snapshot.storage.k8s.io"
    )]
    Group(Text),
    /// The snapshot is being deleted.
    #[error("snapshot {0} is currently being deleted")]
    SnapshotDeleting(Text),
    /// The snapshot has no VolumeSnapshotContent.
    #[error("snapshot {0} not bound")]
    SnapshotUnbound(Text),
    /// The content belongs to another snapshot.
    #[error(
        "snapshotcontent {0} is not bound to the snapshot: its volumeSnapshotRef names another one"
    )]
    ContentMismatch(Text),
    /// The snapshot belongs to another driver.
    #[error(
        "snapshotcontent {content} belongs to driver {driver}, not to the StorageClass's provisioner; a \
         StorageClass with that provisioner is needed"
    )]
    SnapshotDriver {
        /// The content.
        content: Text,
        /// The content's driver.
        driver: Text,
    },
    /// The snapshot is not ready.
    #[error("snapshot {0} is not Ready")]
    SnapshotNotReady(Text),
    /// The content has no snapshot handle.
    #[error("snapshotcontent {0} has no snapshotHandle")]
    NoSnapshotHandle(Text),
    /// The claim requests no size.
    #[error("the claim requests no storage")]
    NoRequest,
    /// The requested size is less than the snapshot's.
    #[error(
        "requested volume size {requested} is less than the size {restore} for the source snapshot"
    )]
    TooSmallForSnapshot {
        /// Size that the claim requests.
        requested: Quantity,
        /// Restore size of the snapshot.
        restore: Quantity,
    },
    /// The volume modes differ, and the content does not allow a conversion.
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
    /// The source claim is not bound.
    #[error("the PVC source {0} is not bound")]
    SourceUnbound(Text),
    /// The source claim is being deleted.
    #[error("the PVC source {0} is currently being deleted")]
    SourceDeleting(Text),
    /// The source claim has no class.
    #[error("the PVC source {0} has no storageClassName")]
    SourceWithoutClass(Text),
    /// The claim has no class.
    #[error("the claim has no storageClassName, which a clone needs")]
    ClaimWithoutClass,
    /// The requested size is less than the source claim's.
    #[error("requested volume size {requested} is less than the size {present} of the PVC source")]
    TooSmallForClone {
        /// Size that the claim requests.
        requested: Quantity,
        /// Size that the source claim requests.
        present: Quantity,
    },
    /// The source claim names no volume.
    #[error("the PVC source {0} has no volumeName")]
    SourceWithoutVolume(Text),
    /// The source volume has no `spec.csi`; it may be in-tree.
    #[error("the source volume {0} is no CSI volume")]
    VolumeNotCsi(Text),
    /// The source volume belongs to another driver.
    #[error(
        "the source volume {volume} belongs to driver {driver}, not to the StorageClass's provisioner; a \
         StorageClass with that provisioner is needed"
    )]
    VolumeDriver {
        /// The volume.
        volume: Text,
        /// The volume's driver.
        driver: Text,
    },
    /// The source volume is bound to another claim.
    #[error("the source volume {volume} is not bound to the PVC source {claim}")]
    VolumeNotOfSource {
        /// The volume.
        volume: Text,
        /// The claim to be cloned.
        claim: Text,
    },
    /// The source volume is not bound.
    #[error("the source volume {0} is not bound")]
    VolumeUnbound(Text),
    /// The volume modes differ.
    #[error("the source volume has mode {}, the claim {}; a clone cannot convert", from.name(), to.name())]
    CloneMode {
        /// Mode of the source.
        from: VolumeMode,
        /// Mode of the claim.
        to: VolumeMode,
    },
}

impl Error {
    /// The object that would cure it, if that is watched.
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

    /// Whether no change in the cluster could cure it: the claim itself is wrong, or not allowed.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            Self::CrossNamespaceOff | Self::NotGranted { .. } | Self::NoName | Self::Group(_)
        )
    }
}
