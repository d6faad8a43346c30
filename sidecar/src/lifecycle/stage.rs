//! The stages of objects, and the progress that a state of an object shows. Pure.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use jiff::Timestamp;

use crate::text::Text;

/// A stage that users wait for.
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
    /// A claim: until the node has finished the expansion.
    ExpandedNode,
    /// A claim: until its volume has its new attributes.
    Modified,
    /// A VolumeSnapshot: until it is cut.
    SnapshotCut,
    /// A VolumeSnapshot: until it is ready.
    SnapshotReady,
    /// A VolumeSnapshot: until it is gone.
    SnapshotDeleted,
}

impl Stage {
    /// Value of the label `stage`.
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

    /// Whether the stage ends when the object is gone.
    #[must_use]
    pub const fn ends_with_object(self) -> bool {
        matches!(self, Self::Deleted | Self::Detached | Self::SnapshotDeleted)
    }
}

/// Hash of an object's UID: eight bytes, because a process may track many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u64);

impl Id {
    /// Hashes the UID.
    #[must_use]
    pub fn of(uid: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        uid.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// The beginning of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// A timestamp of the object, in seconds since 1970; 0 if it cannot be parsed.
    At(u32),
    /// The moment at which this process sees the state, for which no object has a timestamp. Unknown for objects of the
    /// first lists.
    Seen,
    /// Like [`Seen`](Self::Seen), for the selection of a node, without which no work can start. The scheduler may undo
    /// it.
    Chosen,
}

/// The object that shows the end of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The object of the stage.
    Own,
    /// Another object: the object of the stage may show the stage as open for a while.
    Another,
}

/// The progress of one stage that a state of an object shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The stage is open.
    Open {
        /// The beginning of the stage.
        since: Since,
        /// Whether this program or its driver has to act; false while users, the scheduler or a node have to.
        moves: bool,
    },
    /// The object is past the stage, which began at this second since 1970. Another object shows the end, and may be
    /// listed before or after this one.
    Begun(u32),
    /// The object is past the stage.
    Passed,
    /// The stage has ended.
    Done {
        /// The timestamp of the end, if an object has one: an earlier leader may have counted ends before this process led.
        at: Option<Timestamp>,
        /// The object that shows it.
        end: End,
    },
    /// Nobody waits for the stage, or nobody does any longer.
    Dropped,
}

impl Progress {
    /// The object shows that the stage has ended, without a timestamp.
    pub const DONE: Self = Self::Done {
        at: None,
        end: End::Own,
    };

    /// A stage that began at `since`, and on which this program or its driver has to act.
    #[must_use]
    pub const fn open(since: Since) -> Self {
        Self::Open { since, moves: true }
    }
}

/// The progress of one stage of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// The stage.
    pub stage: Stage,
    /// The object.
    pub object: Id,
    /// The progress.
    pub progress: Progress,
    /// The StorageClass, empty for stages without the label.
    pub class: &'a str,
    /// The driver, for a controller that serves several, if it is known.
    pub driver: Option<Text>,
    /// Names of objects that know the driver, in order of preference; empty for none.
    pub owners: [&'a str; 2],
}

impl<'a> Step<'a> {
    /// A step of a stage without a class.
    #[must_use]
    pub fn new(stage: Stage, object: Id, progress: Progress) -> Self {
        Self {
            stage,
            object,
            progress,
            class: "",
            driver: None,
            owners: ["", ""],
        }
    }

    /// Names the objects that know the driver.
    #[must_use]
    pub fn owned_by(self, owners: [&'a str; 2]) -> Self {
        Self { owners, ..self }
    }

    /// Sets the StorageClass.
    #[must_use]
    pub fn of_class(self, class: &'a str) -> Self {
        Self { class, ..self }
    }
}
