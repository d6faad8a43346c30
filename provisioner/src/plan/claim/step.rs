//! The next step of an attempt.

use std::sync::Arc;

use sidecar::controller::request::said;

use super::Failure;
use crate::model::{Claim, Text, VolumeDetail};
use crate::plan::identity::Identity;
use crate::plan::journal::{Intent, Unwritable};
use crate::plan::outcome::ApiError;
use crate::plan::request::{PinnedRequest, Request};

/// The one next thing to do, complete in every detail.
pub enum Step {
    /// A request, whose reply [`answered`](super::Attempt::answered) takes in.
    Ask(Request),
    /// A step of more than one request, whose reply [`step_answered`](super::Attempt::step_answered) takes in.
    Claim(ClaimStep),
    /// The attempt is over.
    Done(End),
    /// The attempt is over.
    Fail(Failure),
}

/// A step of an attempt for a claim that takes more than one request.
pub enum ClaimStep {
    /// The call that the driver is about to get is written into the provisioning journal.
    Intend(Arc<PinnedRequest>, Intent),
    /// GET of the PersistentVolume that has the name of the one to be saved: it may be another
    /// volume's. With the volume, LIST of all: one of any name that is the volume's counts more.
    LoadNamesake(Text, Option<Identity>),
}

/// The reply to a [`ClaimStep`].
pub enum ClaimReply {
    /// The call is in the journal, or why not.
    Intended(Arc<PinnedRequest>, Result<(), Unwritable>),
    /// The PersistentVolume of this name or of the volume.
    Namesake(Text, Result<Box<VolumeDetail>, ApiError>),
}

impl ClaimStep {
    /// The reply to it if it fails with `error`.
    #[must_use]
    pub fn refused(self, error: ApiError) -> ClaimReply {
        match self {
            Self::Intend(prepared, _) => {
                ClaimReply::Intended(prepared, Err(Unwritable::Refused(error)))
            }
            Self::LoadNamesake(name, _) => ClaimReply::Namesake(name, Err(error)),
        }
    }
}

impl ClaimReply {
    /// See [`Ask::line`](sidecar::controller::request::Ask::line).
    #[must_use]
    pub fn line(&self) -> String {
        match self {
            Self::Intended(request, result) => {
                let what = format!("journal entry of {}", request.name);
                said(what, result.as_ref().err())
            }
            Self::Namesake(name, result) => {
                said(format!("search for {name}"), result.as_ref().err())
            }
        }
    }
}

/// An event of type Normal on the claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// Reason `Provisioning`.
    Provisioning,
    /// Reason `Provisioning`, of the component `external-provisioner`: somebody else fills the volume.
    Populator,
    /// Reason `Provisioning`: another node is asked for the volume, since this one is gone.
    Left(String),
    /// Reason `ProvisioningSucceeded`; the volume's name.
    Succeeded(String),
}

impl Announcement {
    /// Text of the event on `claim`.
    #[must_use]
    pub fn text(&self, claim: &Claim) -> String {
        match self {
            Self::Provisioning => format!(
                "External provisioner is provisioning volume for claim \"{}\"",
                claim.key()
            ),
            Self::Populator => {
                "Assuming an external populator will provision the volume".to_owned()
            }
            Self::Left(node) => format!(
                "Node {node} is gone, and CreateVolume for it got no answer: the volume is created for another node; later csi-provisioner checks whether the first call created one as well"
            ),
            Self::Succeeded(name) => format!("Successfully provisioned volume {name}"),
        }
    }
}

/// How an attempt ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Belongs to another provisioner, or is not ready yet. Nothing is reported.
    NotOurs,
    /// Node deployment: no node is selected, the provisioners have to settle whose the claim is.
    Contend,
    /// Ours, and nothing to be done: the class is another provisioner's, or somebody else fills the
    /// volume. Counts as failed in the metrics, as it always did.
    Stopped,
    /// There is a PersistentVolume already. Counts as failed in the metrics, as it always did.
    Exists,
    /// There is a PersistentVolume of the name, and nobody knows for which of several calls it was
    /// made: they are repeated when the claim needs no volume any more. Silent.
    Owing,
    /// What was owed for a claim that needs no volume any more has left nothing without a
    /// PersistentVolume. Silent.
    Repaid,
    /// This attempt made the volume.
    Provisioned,
}
