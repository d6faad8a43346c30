//! The state that attempts start with, and the outcome that they leave.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;

use crate::model::{Claim, Text};
use crate::plan::identity::Identity;

/// Requests of a claim that may have made a volume without any record of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCreate<P> {
    /// The last known state of the claim, which may be gone.
    pub claim: Arc<Claim>,
    /// The request whose last call had no answer: it is repeated word for word. The call may still be running, or its
    /// volume could not be saved.
    pub pinned: Option<Arc<P>>,
    /// Requests that once had no answer, and that the driver has refused since. A refusal proves nothing about the call
    /// before it, but another request may be sent for the claim. They are repeated when the claim needs no volume any
    /// more.
    pub unsettled: Vec<Arc<P>>,
    /// Time since when the claim has had requests with unknown outcome.
    pub since: Instant,
    /// Requests that an earlier process sent.
    pub sent_earlier: Vec<Arc<P>>,
    /// The pinned request is an old, unsettled one that is tried for the claim once.
    pub was_unsettled: bool,
}

impl<P> PendingCreate<P> {
    /// The pinned request and the unsettled ones.
    pub fn requests(&self) -> impl Iterator<Item = &Arc<P>> {
        self.pinned.iter().chain(&self.unsettled)
    }
}

/// A volume whose PersistentVolume could not be saved yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsaved {
    /// Name of the PersistentVolume.
    pub name: Text,
    /// The PersistentVolume.
    pub object: Arc<Value>,
    /// The driver's volume.
    pub identity: Identity,
}

/// Outcome of an attempt.
#[derive(Clone, Debug)]
pub enum Outcome<P> {
    /// The claim has its volume, belongs to another provisioner, or needs none.
    Over,
    /// The claim needs no volume any more, and a repeated unsettled request had no answer.
    Unsettled(Arc<P>),
    /// No request has to be repeated word for word as long as the claim needs a volume.
    Final {
        /// UID of the class, if the driver called the request infeasible: it is repeated after a long time only, unless
        /// the class is replaced.
        infeasible: Option<Text>,
    },
    /// The driver may still be working on it.
    Unknown(Arc<P>),
    /// An unsettled request, whose volume seems to have the name: it is sent next, for the claim.
    RepeatUnsettled(Arc<P>),
    /// The driver has the volume, and this object could not be saved.
    Unsaved(Arc<P>, Unsaved),
    /// The attempt learnt nothing about the state of the calls.
    Unchanged,
}

impl<P> Outcome<P> {
    /// The last request, if it may have made a volume.
    pub(super) fn asked(&self) -> Option<&Arc<P>> {
        match self {
            Self::Unsettled(asked)
            | Self::Unknown(asked)
            | Self::RepeatUnsettled(asked)
            | Self::Unsaved(asked, _) => Some(asked),
            Self::Over | Self::Final { .. } | Self::Unchanged => None,
        }
    }
}

/// State at the start of an attempt.
#[derive(Clone, Debug)]
pub struct Start<P> {
    /// Calls with unknown outcome.
    pub pending: Option<PendingCreate<P>>,
    /// The PersistentVolume that must be saved before anything else.
    pub unsaved: Option<Unsaved>,
}
