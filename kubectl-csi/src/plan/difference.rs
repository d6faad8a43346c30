//! The findings of an audit, in words.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::Ref;

/// The kind of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DifferenceKind {
    UnknownVolume,
    LostVolume,
    OtherSize,
    Published,
    NotPublished,
    UnknownSnapshot,
    LostSnapshot,
}

impl DifferenceKind {
    /// All kinds, in the order of the output.
    pub const ALL: [Self; 7] = [
        Self::UnknownVolume,
        Self::LostVolume,
        Self::OtherSize,
        Self::Published,
        Self::NotPublished,
        Self::UnknownSnapshot,
        Self::LostSnapshot,
    ];

    /// Its name in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::UnknownVolume => "unknownVolume",
            Self::LostVolume => "lostVolume",
            Self::OtherSize => "otherSize",
            Self::Published => "publishedWithoutAttachment",
            Self::NotPublished => "attachmentNotPublished",
            Self::UnknownSnapshot => "unknownSnapshot",
            Self::LostSnapshot => "lostSnapshot",
        }
    }

    /// Heading of the output.
    pub fn title(self) -> &'static str {
        match self {
            Self::UnknownVolume => "Volumes in the storage that this cluster does not know",
            Self::LostVolume => "PersistentVolumes whose volume the driver does not have",
            Self::OtherSize => "PersistentVolumes with another size than in the storage",
            Self::Published => {
                "Volumes that the storage has attached to a node without a VolumeAttachment"
            }
            Self::NotPublished => {
                "VolumeAttachments of volumes that the storage does not have attached there"
            }
            Self::UnknownSnapshot => "Snapshots in the storage that this cluster does not know",
            Self::LostSnapshot => "VolumeSnapshotContents whose snapshot the driver does not have",
        }
    }

    /// Heading for differences that something speaks against.
    pub fn undecided(self) -> &'static str {
        match self {
            Self::UnknownVolume => "volumes that this cluster does not know",
            Self::LostVolume => "PersistentVolumes without a volume",
            Self::UnknownSnapshot => "snapshots that this cluster does not know",
            Self::LostSnapshot => "VolumeSnapshotContents without a snapshot",
            Self::OtherSize => "other sizes",
            Self::Published => "attached to a node without a VolumeAttachment",
            Self::NotPublished => "VolumeAttachments of volumes that are not attached there",
        }
    }

    /// Advice to consider before anybody acts on it.
    pub fn advice(self) -> &'static str {
        match self {
            Self::UnknownVolume => {
                "Unknown is not orphaned: nothing in this cluster names them, and more is not known. Other clusters may use the same storage; their volumes, those made by hand, those that only the templates of workloads or resources of other programs name, and those kept when their PersistentVolume was deleted look the same. Ask every cluster of that storage before you delete one."
            }
            Self::LostVolume => {
                "Their data may be gone, or the driver does not list them. First look in the storage by hand. Set the reclaim policy to Retain before you delete any of these objects or their claims: if the driver only does not list a volume, deleting the object deletes it, too. What is gone has to be restored from a backup into a new claim."
            }
            Self::OtherSize => {
                "A volume that was changed in the storage itself: kubectl csi why on its claim says whether a growth is under way."
            }
            Self::Published => {
                "A node may write to them that Kubernetes does not know of. Another cluster that uses the same storage may have attached them. If a detach was lost, the next attach to another node fails: look in the storage."
            }
            Self::NotPublished => {
                "Somebody detached them in the storage; pods there get input/output errors. csi-attacher compares, too (--reconcile-sync), and attaches them again: if they stay, see its log."
            }
            Self::UnknownSnapshot => {
                "Unknown is not orphaned: nothing in this cluster names them, and more is not known. Snapshots of other clusters that use the same storage, of backup tools, those that only resources of other programs name, or kept when their content was deleted look the same."
            }
            Self::LostSnapshot => {
                "They may be gone, or the driver does not list them. First look in the storage by hand. Set the deletion policy to Retain before you delete any of these objects or their VolumeSnapshots: if the driver only does not list a snapshot, deleting the object deletes it, too."
            }
        }
    }
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    pub kind: DifferenceKind,
    /// The driver's handle of the volume or snapshot.
    pub handle: String,
    /// The object of the cluster, if there is one.
    pub object: Option<Ref>,
    /// The driver's name of a node.
    pub node: Option<String>,
    pub bytes: Option<i64>,
    /// The size in the cluster, if both sides have one.
    pub expected: Option<i64>,
    /// Reasons against the difference; empty if it is certain.
    pub why: BTreeSet<Arc<str>>,
}

impl Difference {
    pub(super) fn new(kind: DifferenceKind, handle: &str) -> Self {
        Self {
            kind,
            handle: handle.to_owned(),
            object: None,
            node: None,
            bytes: None,
            expected: None,
            why: BTreeSet::new(),
        }
    }

    pub(super) fn of(mut self, object: Ref) -> Self {
        self.object = Some(object);
        self
    }

    pub(super) fn on(mut self, node: &str) -> Self {
        self.node = Some(node.to_owned());
        self
    }

    /// Identifies the difference across two looks; sizes may change.
    pub(super) fn key(&self) -> (DifferenceKind, &str, Option<&Ref>, Option<&str>) {
        let node = self.node.as_deref();
        (self.kind, &self.handle, self.object.as_ref(), node)
    }
}

/// The kind of a note: no difference, but worth a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoteKind {
    /// A claim with an unfinished call in the journal; the object is the journal's Lease.
    MayExist,
    /// The cluster knows the volume or snapshot by another driver's name.
    OtherDriver,
    Kept,
    Driverless,
    Nodeless,
    Unused,
}

impl NoteKind {
    /// All kinds, in the order of the output.
    pub const ALL: [Self; 6] = [
        Self::MayExist,
        Self::OtherDriver,
        Self::Kept,
        Self::Driverless,
        Self::Nodeless,
        Self::Unused,
    ];

    /// Its name in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::MayExist => "mayExist",
            Self::OtherDriver => "otherDriver",
            Self::Kept => "kept",
            Self::Driverless => "driverless",
            Self::Nodeless => "nodeless",
            Self::Unused => "unused",
        }
    }

    /// Heading of the output.
    pub fn title(self) -> &'static str {
        match self {
            Self::MayExist => "Claims for which a volume may exist that nothing names",
            Self::OtherDriver => {
                "Volumes and snapshots that this cluster knows by another driver's name"
            }
            Self::Kept => {
                "Volumes that are kept though their claims are gone (reclaim policy Retain)"
            }
            Self::Driverless => "Volumes of drivers that are not in this cluster",
            Self::Nodeless => "Attachments to nodes that do not exist any more",
            Self::Unused => "Claims that no pod has used for long",
        }
    }

    /// Advice to consider before anybody acts on it.
    pub fn advice(self) -> &'static str {
        match self {
            Self::MayExist => {
                "csi-provisioner's journal has open calls for them, by the claim's UID; it asks again until the answer is final. As long as one is open, no volume is called unknown."
            }
            Self::OtherDriver => {
                "Two drivers serve one storage. What one of them deletes is gone for both."
            }
            Self::Kept => {
                "Nobody will touch them: kubectl csi why pv/NAME says how to use one again."
            }
            Self::Driverless => "Nobody can attach or delete them before the driver is back.",
            Self::Nodeless => "kubectl csi why volumeattachment/NAME says what keeps each of them.",
            Self::Unused => "Whether their data is still wanted only their owners know.",
        }
    }
}

/// A note.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    pub kind: NoteKind,
    pub object: Ref,
    /// Depending on `kind`: the claim's UID, the driver, the node, or a time.
    pub detail: Option<String>,
}
