//! What is waited for, and what a look at an object says about it. Pure.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use jiff::Timestamp;

use crate::text::Text;

/// What users wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// A claim: until its PersistentVolume is saved.
    Provisioned,
    /// A claim: until its PersistentVolume is bound.
    Bound,
    /// A PersistentVolume: until it is gone, with its volume.
    Deleted,
    /// A VolumeAttachment: until it is attached.
    Attached,
    /// A VolumeAttachment: until it is detached.
    Detached,
    /// A claim: until its volume is larger.
    ExpandedStorage,
    /// A claim: until the node has made use of that.
    ExpandedNode,
    /// A claim: until its volume has other attributes.
    Modified,
    /// A VolumeSnapshot: until its moment.
    SnapshotCut,
    /// A VolumeSnapshot: until it can be used.
    SnapshotReady,
    /// A VolumeSnapshot: until it is gone.
    SnapshotDeleted,
}

impl Stage {
    /// The label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Provisioned => "provisioned",
            Self::Bound => "bound",
            Self::Deleted => "deleted",
            Self::Attached => "attached",
            Self::Detached => "detached",
            Self::ExpandedStorage => "expanded_storage",
            Self::ExpandedNode => "expanded_node",
            Self::Modified => "modified",
            Self::SnapshotCut => "snapshot_cut",
            Self::SnapshotReady => "snapshot_ready",
            Self::SnapshotDeleted => "snapshot_deleted",
        }
    }

    /// Whether it is over once the object is gone.
    #[must_use]
    pub const fn ends_with_object(self) -> bool {
        matches!(self, Self::Deleted | Self::Detached | Self::SnapshotDeleted)
    }
}

/// An object, by its UID: eight bytes, since there may be many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u64);

impl Id {
    /// The object of this UID.
    #[must_use]
    pub fn of(uid: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        uid.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// Since when something is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// Since this second since 1970, as the object says; 0 if that cannot be read.
    At(u32),
    /// Since it is seen like this: no object says it. What this process finds when it begins has begun nobody knows when.
    Seen,
    /// Since somebody was seen to have made a choice without which there is nothing to do, in the same way. The choice may
    /// be taken back.
    Chosen,
}

/// Who says that something has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The object that is waited for.
    Own,
    /// Another object, so that the one that is waited for may look for a while as if it had not.
    Another,
}

/// What is seen of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Something is waited for.
    Open {
        /// Since when.
        since: Since,
        /// Whether this program or its driver should get on with it: not if somebody else is waited for.
        moves: bool,
    },
    /// The object is beyond it, and another one says since when. In the first list nobody knows yet which comes first.
    Begun(u32),
    /// The object is beyond it.
    Passed,
    /// It has ended.
    Done {
        /// When, if an object says so: if it was before this process led, another one may have counted it.
        at: Option<Timestamp>,
        /// Who says so.
        end: End,
    },
    /// It is not waited for, or not any more.
    Dropped,
}

/// What a look at an object says about one stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// Of what.
    pub stage: Stage,
    /// Of which object.
    pub object: Id,
    /// What.
    pub what: What,
    /// The StorageClass, where that is told.
    pub class: &'a str,
    /// The driver, for a controller that serves several, if it is known.
    pub driver: Option<Text>,
    /// Else the names of objects that know it, the first one first; empty where there is none.
    pub owners: [&'a str; 2],
}

impl<'a> Step<'a> {
    /// Of a stage without a class.
    #[must_use]
    pub fn new(stage: Stage, object: Id, what: What) -> Self {
        Self {
            stage,
            object,
            what,
            class: "",
            driver: None,
            owners: ["", ""],
        }
    }

    /// Of a driver that objects of these names know.
    #[must_use]
    pub fn owned_by(self, owners: [&'a str; 2]) -> Self {
        Self { owners, ..self }
    }

    /// Of an object of this class.
    #[must_use]
    pub fn of_class(self, class: &'a str) -> Self {
        Self { class, ..self }
    }
}

/// Whole seconds since 1970; 0 if the text is no time.
#[must_use]
pub fn seconds(text: Option<&str>) -> u32 {
    let time = text.and_then(|text| text.parse::<Timestamp>().ok());
    time.and_then(|time| u32::try_from(time.as_second()).ok())
        .unwrap_or_default()
}
