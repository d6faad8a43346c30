//! What can be asked of the API server, and what it can answer.

use serde_json::Value;
pub use sidecar::refusal::{ApiError, Refusal};

use crate::model::{Content, Group, GroupContent, Snapshot, Text};

/// An object, by its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// VolumeSnapshot, `namespace/name`.
    Snapshot(Text),
    /// VolumeSnapshotContent.
    Content(Text),
    /// PersistentVolumeClaim, `namespace/name`.
    Claim(Text),
    /// PersistentVolume.
    Volume(Text),
    /// VolumeGroupSnapshot, `namespace/name`.
    Group(Text),
    /// VolumeGroupSnapshotContent.
    GroupContent(Text),
    /// The claims of a namespace that a label selector selects.
    Claims(Text, Text),
}

impl Object {
    /// Its key; of several, the namespace.
    #[must_use]
    pub fn key(&self) -> &Text {
        match self {
            Self::Snapshot(key)
            | Self::Content(key)
            | Self::Claim(key)
            | Self::Volume(key)
            | Self::Group(key)
            | Self::GroupContent(key)
            | Self::Claims(key, _) => key,
        }
    }
}

/// One request, complete in every detail. Bodies of patches are merge patches.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum Step {
    /// GET, whose answer the cache takes in.
    Read(Object),
    /// PATCH.
    Patch(Object, Value),
    /// PATCH of the status.
    PatchStatus(Object, Value),
    /// POST.
    Create(Object, Value),
    /// DELETE of the object as it is known, or not at all.
    Delete(Object, Exactly),
    /// PUT of the claim with this key, as JSON.
    UpdateClaim(Text, Text),
}

/// One object at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Exactly {
    /// `metadata.uid`
    pub uid: Text,
    /// `metadata.resourceVersion`
    pub version: Text,
}

impl Snapshot {
    /// What requests about it name.
    #[must_use]
    pub fn object(&self) -> Object {
        Object::Snapshot(self.key())
    }

    /// It, as it is known.
    #[must_use]
    pub fn exactly(&self) -> Exactly {
        Exactly {
            uid: self.uid.clone(),
            version: self.version.clone(),
        }
    }
}

impl Group {
    /// What requests about it name.
    #[must_use]
    pub fn object(&self) -> Object {
        Object::Group(self.key())
    }
}

impl GroupContent {
    /// What requests about it name.
    #[must_use]
    pub fn object(&self) -> Object {
        Object::GroupContent(self.name.clone())
    }

    /// It, as it is known.
    #[must_use]
    pub fn exactly(&self) -> Exactly {
        Exactly {
            uid: self.uid.clone(),
            version: self.version.clone(),
        }
    }
}

impl Content {
    /// What requests about it name.
    #[must_use]
    pub fn object(&self) -> Object {
        Object::Content(self.name.clone())
    }

    /// It, as it is known.
    #[must_use]
    pub fn exactly(&self) -> Exactly {
        Exactly {
            uid: self.uid.clone(),
            version: self.version.clone(),
        }
    }
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was done.
    Done,
    /// What was read. The JSON of a claim comes along: claims may only be replaced. Of several, their
    /// names do, one a line.
    Read(Option<Text>),
    /// It was not, or nobody knows.
    Refused(ApiError),
}
