//! The next step of an attempt.

use std::sync::Arc;

use sidecar::controller::request::said;

use super::Failure;
use crate::model::{Claim, Text, VolumeDetail};
use crate::plan::identity::Identity;
use crate::plan::journal::{Intent, Unwritable};
use crate::plan::outcome::ApiError;
use crate::plan::request::{PinnedRequest, Request};

/// The next step, complete in every detail.
pub enum Step {
    /// A request, whose reply [`answered`](super::Attempt::answered) takes in.
    Ask(Request),
    /// A step of more than one request, whose reply [`step_answered`](super::Attempt::step_answered) takes in.
    Claim(ClaimStep),
    /// The attempt is over, and did not fail.
    Done(End),
    /// The attempt failed.
    Fail(Failure),
}

/// A step of an attempt for a claim that takes more than one request.
pub enum ClaimStep {
    /// Writes the request that the driver is about to get into the provisioning journal.
    Intend(Arc<PinnedRequest>, Intent),
    /// GET of the PersistentVolume with the name of the one to be saved, which may refer to another volume. With an
    /// [`Identity`], LIST of all: one of any name that refers to this volume takes precedence.
    LoadExistingPv(Text, Option<Identity>),
}

/// The reply to a [`ClaimStep`].
pub enum ClaimReply {
    /// The request is in the journal, or why it is not.
    Intended(Arc<PinnedRequest>, Result<(), Unwritable>),
    /// The PersistentVolume of this name, or one that refers to the volume.
    ExistingPv(Text, Result<Box<VolumeDetail>, ApiError>),
}

impl ClaimStep {
    /// The reply to it if it fails with `error`.
    #[must_use]
    pub fn refused(self, error: ApiError) -> ClaimReply {
        match self {
            Self::Intend(prepared, _) => {
                ClaimReply::Intended(prepared, Err(Unwritable::Refused(error)))
            }
            Self::LoadExistingPv(name, _) => ClaimReply::ExistingPv(name, Err(error)),
        }
    }

    /// See [`Ask::name`](sidecar::controller::request::Ask::name).
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Intend(..) => "PATCH journal Lease".to_owned(),
            Self::LoadExistingPv(name, None) => format!("GET PersistentVolume {name}"),
            Self::LoadExistingPv(_, Some(_)) => "LIST PersistentVolumes".to_owned(),
        }
    }
}

impl ClaimReply {
    /// See [`Ask::failure`](sidecar::controller::request::Ask::failure).
    #[must_use]
    pub fn failure(&self) -> Option<(&'static str, String)> {
        match self {
            Self::Intended(_, Err(error)) => Some(("Journal", error.to_string())),
            // The name is normally free.
            Self::ExistingPv(_, Err(error)) if !error.is_not_found() => Some(error.code_and_text()),
            Self::Intended(_, Ok(())) | Self::ExistingPv(..) => None,
        }
    }

    /// See [`Ask::line`](sidecar::controller::request::Ask::line).
    #[must_use]
    pub fn line(&self) -> String {
        match self {
            Self::Intended(request, result) => {
                let what = format!("journal entry of {}", request.name);
                said(what, result.as_ref().err())
            }
            Self::ExistingPv(name, result) => {
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
    /// Reason `Provisioning`, of the component `external-provisioner`: a volume populator provisions the volume.
    Populator,
    /// Reason `Provisioning`: the request goes to another node, since this one is gone.
    Left(String),
    /// Reason `ProvisioningSucceeded`, with the volume's name.
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
    /// Node deployment: no node is selected, and the provisioners have to compete for the claim.
    Contend,
    /// Ours, but nothing to do: the class names another provisioner, or a volume populator provisions the volume.
    /// Counts as failed in the metrics, as upstream always did.
    Stopped,
    /// A PersistentVolume exists already. Counts as failed in the metrics, as upstream always did.
    Exists,
    /// A PersistentVolume of the name exists, and any of several calls may have made its volume: the requests are
    /// repeated when the claim needs no volume any more. Nothing is reported.
    LeftUnsettled,
    /// The unsettled requests of a claim that needs no volume any more have left no volume without a PersistentVolume.
    /// Nothing is reported.
    Settled,
    /// This attempt made the volume.
    Provisioned,
}
