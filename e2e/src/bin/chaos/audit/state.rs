//! What both sides list at one moment.

use crate::acts::ledger::Known;

/// What something is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// `namespace/name` of a claim.
    Claim(String),
    /// `namespace/name` of a VolumeSnapshot; of a VolumeSnapshot: name of the content that it names.
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
    /// What it is a copy of.
    pub(crate) source: Option<Origin>,
    /// The PersistentVolume that somebody made for it by hand.
    pub(crate) made_for: Option<String>,
    /// Bytes asked for.
    pub(crate) requested: i64,
    /// Bytes it has by its status.
    pub(crate) capacity: i64,
    /// An expansion is under way by its status.
    pub(crate) growing: bool,
}

/// A PersistentVolume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) handle: String,
    /// UID of its claim.
    pub(crate) claim: String,
    /// `namespace/name` of its claim; empty if it has none.
    pub(crate) claim_name: String,
    pub(crate) capacity: i64,
    pub(crate) terminating: bool,
    /// It outlives its claim.
    pub(crate) retained: bool,
}

/// A VolumeAttachment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Attachment {
    pub(crate) name: String,
    /// Name of its PersistentVolume.
    pub(crate) volume: String,
    /// The driver's id of the node.
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
    /// Name it was created by.
    pub(crate) name: String,
    /// `namespace/name` of the claim it was created for, as the driver was told.
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
    /// UID of its VolumeSnapshot; empty if it is not bound.
    pub(crate) snapshot_uid: String,
    /// What it stands for, by its status or its source.
    pub(crate) handle: Option<String>,
    pub(crate) ready: bool,
    pub(crate) terminating: bool,
    /// It outlives its VolumeSnapshot, and the snapshot outlives it.
    pub(crate) retained: bool,
    /// Its source is a snapshot that was there.
    pub(crate) made_by_hand: bool,
}

impl Content {
    /// The name by which its snapshot is asked for.
    pub(super) fn taken_as(&self) -> Option<String> {
        let uid = self.name.strip_prefix("snapcontent-")?;
        (!self.made_by_hand).then(|| format!("snapshot-{uid}"))
    }
}

/// A snapshot in the storage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) handle: String,
    /// Name it was taken by.
    pub(crate) name: String,
}

/// Everything at one moment.
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
    /// What people have done that nobody can see.
    pub(crate) known: Known,
}
