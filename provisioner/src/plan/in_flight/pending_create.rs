//! What attempts leave in the books, and begin with.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;

use crate::model::{Claim, Text};
use crate::plan::identity::Identity;

/// What was asked for a claim and may have made a volume of which nobody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCreate<P> {
    /// The claim as it was last seen; it may be gone.
    pub claim: Arc<Claim>,
    /// What had no answer when it was asked last: it is repeated word for word. It may still be
    /// running, or its volume could not be saved.
    pub pinned: Option<Arc<P>>,
    /// What had no answer once and was refused since. A refusal proves nothing about the call before
    /// it, but something else may be asked for the claim. Repeated when the claim needs no volume
    /// any more.
    pub owed: Vec<Arc<P>>,
    /// Since when.
    pub since: Instant,
    /// What an earlier process asked.
    pub inherited: Vec<Arc<P>>,
    /// What is pinned was owed, and is tried for the claim once.
    pub recalled: bool,
}

impl<P> PendingCreate<P> {
    /// Everything that was asked.
    pub fn requests(&self) -> impl Iterator<Item = &Arc<P>> {
        self.pinned.iter().chain(&self.owed)
    }
}

/// A volume whose PersistentVolume could not be saved yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsaved {
    /// Its name.
    pub name: Text,
    /// The object.
    pub object: Arc<Value>,
    /// The volume.
    pub identity: Identity,
}

/// What an attempt leaves behind in the books.
#[derive(Clone, Debug)]
pub enum Outcome<P> {
    /// The claim has its volume, is somebody else's, or needs none.
    Over,
    /// The claim needs no volume any more, and what was owed for it and asked again had no answer.
    Owed(Arc<P>),
    /// Nothing is to be repeated word for word as long as the claim needs a volume.
    Final {
        /// The driver called the request impossible: it is repeated after a long time only, unless
        /// the class of this UID is replaced.
        infeasible: Option<Text>,
    },
    /// The driver may still be working on it.
    InDoubt(Arc<P>),
    /// It is owed, and its volume seems to have the name: it is tried next, for the claim.
    Recalled(Arc<P>),
    /// There is a volume, and this object could not be saved.
    Unsaved(Arc<P>, Unsaved),
    /// Nothing was learnt about what the driver does.
    Unchanged,
}

impl<P> Outcome<P> {
    /// What was asked last and may have made a volume.
    pub(super) fn asked(&self) -> Option<&Arc<P>> {
        match self {
            Self::Owed(asked)
            | Self::InDoubt(asked)
            | Self::Recalled(asked)
            | Self::Unsaved(asked, _) => Some(asked),
            Self::Over | Self::Final { .. } | Self::Unchanged => None,
        }
    }
}

/// What an attempt begins with.
#[derive(Clone, Debug)]
pub struct Start<P> {
    /// What is in doubt.
    pub doubt: Option<PendingCreate<P>>,
    /// The object that is to be saved before anything else.
    pub unsaved: Option<Unsaved>,
}
