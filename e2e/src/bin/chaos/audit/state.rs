//! The state of the cluster and the storage at one moment.

use crate::acts::ledger::Known;

/// The data source of a claim or of a VolumeSnapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// `namespace/name` of a claim.
    Claim(String),
    /// `namespace/name` of a VolumeSnapshot; for a VolumeSnapshot: name of the content that it
    /// names.
    Snapshot(String),
}

/// A claim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Claim {
    /// `namespace/name`.
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) bound: bool,
    pub(crate) terminating: bool,
    /// Its data source.
    pub(crate) source: Option<Origin>,
    /// The PersistentVolume that an administrator made for it by hand.
    pub(crate) made_for: Option<String>,
    /// Requested bytes.
    pub(crate) requested: i64,
    /// Bytes in its status.
    pub(crate) capacity: i64,
    /// An expansion is in progress according to its status.
    pub(crate) growing: bool,
}

/// A PersistentVolume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) handle: String,
    /// UID of its claim.
    pub(crate) claim: String,
    /// `namespace/name` of its claim; empty without one.
    pub(crate) claim_name: String,
    pub(crate) capacity: i64,
    pub(crate) terminating: bool,
    /// Its reclaim policy is Retain.
    pub(crate) retained: bool,
}

/// A VolumeAttachment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Attachment {
    pub(crate) name: String,
    /// Name of its PersistentVolume.
    pub(crate) volume: String,
    /// The driver's ID of the node.
    pub(crate) node: String,
    pub(crate) attached: bool,
    pub(crate) terminating: bool,
}

/// A namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Namespace {
    pub(crate) name: String,
    pub(crate) terminating: bool,
}

/// A volume in the storage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) handle: String,
    /// The name in the CreateVolume request.
    pub(crate) name: String,
    /// `namespace/name` of its claim, from the CreateVolume request.
    pub(crate) claim: String,
    pub(crate) capacity: i64,
    /// Nodes it is attached to.
    pub(crate) nodes: Vec<String>,
}

/// A VolumeSnapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// `namespace/name`.
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) source: Origin,
    pub(crate) ready: bool,
    pub(crate) terminating: bool,
}

/// A VolumeSnapshotContent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) name: String,
    /// UID of its VolumeSnapshot; empty if unbound.
    pub(crate) snapshot_uid: String,
    /// The snapshot handle in its status or source.
    pub(crate) handle: Option<String>,
    pub(crate) ready: bool,
    pub(crate) terminating: bool,
    /// Its deletion policy is Retain.
    pub(crate) retained: bool,
    /// It is pre-provisioned.
    pub(crate) made_by_hand: bool,
}

impl Content {
    /// The name in the CreateSnapshot request.
    pub(super) fn taken_as(&self) -> Option<String> {
        let uid = self.name.strip_prefix("snapcontent-")?;
        (!self.made_by_hand).then(|| format!("snapshot-{uid}"))
    }
}

/// A snapshot in the storage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) handle: String,
    /// The name in the CreateSnapshot request.
    pub(crate) name: String,
}

/// The state at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) namespaces: Vec<Namespace>,
    pub(crate) claims: Vec<Claim>,
    pub(crate) volumes: Vec<Volume>,
    pub(crate) attachments: Vec<Attachment>,
    pub(crate) snapshots: Vec<Snapshot>,
    pub(crate) contents: Vec<Content>,
    pub(crate) stored: Vec<Stored>,
    pub(crate) taken: Vec<Taken>,
    /// Facts that only the acts themselves show.
    pub(crate) known: Known,
}
