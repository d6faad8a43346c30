//! The fields of Kubernetes objects that the provisioner reads: small records instead of the full types.
//!
//! Decisions, caches and tests share these records and nothing else. Objects without anything due are not kept, or only
//! in part. No client, no runtime and no clock in here; [`work::record`](crate::work::record) reads the records from
//! the API.
//!
//! | file | object |
//! |---|---|
//! | `claim` | PersistentVolumeClaim |
//! | `volume` | PersistentVolume |
//! | `class` | StorageClass, VolumeAttributesClass |
//! | `node` | Node, CSINode |
//! | `attachment` | VolumeAttachment |
//! | `snapshot` | VolumeSnapshot, VolumeSnapshotContent |
//! | `grant` | ReferenceGrant |
//! | `capacity` | CSIStorageCapacity |

mod attachment;
mod capacity;
mod claim;
mod class;
mod grant;
mod node;
mod snapshot;
mod volume;

pub use attachment::Attachment;
pub use capacity::{NodeTopology, OwnerReference, StorageCapacity};
pub use claim::{Claim, ClaimPhase, DataSource};
pub use class::{AttributesClass, BindingMode, Class, SelectorTerm};
pub use grant::{Grant, GrantFrom, GrantTo};
pub use node::{CsiNode, DriverKeys, Node};
pub use sidecar::quantity::Quantity;
pub use sidecar::secret::SecretRef;
pub use sidecar::text::{List, Pairs, Text};
pub use snapshot::{Content, Snapshot, SnapshotRef};
pub use volume::{
    ClaimRef, Csi, Due, FinalizerAction, FinalizerDue, InTree, Owner, Reclaim, Source, Volume,
    VolumeDetail, VolumePhase,
};

/// Volume mode: how a pod gets the volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum VolumeMode {
    /// As a mounted file system.
    #[default]
    Filesystem,
    /// As a raw block device.
    Block,
}

impl VolumeMode {
    /// The mode that the API spells `text`; an unknown text is a file system.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "Block" => Self::Block,
            _ => Self::Filesystem,
        }
    }

    /// The mode in the API's spelling.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Filesystem => "Filesystem",
            Self::Block => "Block",
        }
    }
}
