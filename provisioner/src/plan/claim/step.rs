//! What an attempt asks for, and what it is told.
//!
//! The executor and the crash simulation speak this language and need nothing else.

use std::sync::Arc;

use csi_proto::csi::{CreateVolumeRequest, CreateVolumeResponse, DeleteVolumeRequest};
use sidecar::csi::Migrated;

use super::Failure;
use crate::model::{AttributesClass, Claim, Content, SecretRef, Snapshot, Text, VolumeDetail};
use crate::plan::edit::Edit;
use crate::plan::identity::Identity;
use crate::plan::in_flight::Unsaved;
use crate::plan::journal::Unwritable;
use crate::plan::outcome::{ApiError, RpcError};
use crate::plan::request::{PinnedRequest, Secrets};

/// The one next thing to do, complete in every detail.
#[derive(Debug)]
pub enum Step {
    /// Event on the claim.
    Announce(Announcement),
    /// GET of a VolumeSnapshot: namespace and name.
    LoadSnapshot(Text, Text),
    /// GET of a VolumeSnapshotContent.
    LoadContent(Text),
    /// GET of the claim to be cloned: namespace and name.
    LoadSourceClaim(Text, Text),
    /// GET of the PersistentVolume to be cloned.
    LoadSourceVolume(Text),
    /// GET of the PersistentVolume that has the name of the one to be saved: it may be another
    /// volume's. With the volume, LIST of all: one of any name that is the volume's counts more.
    LoadNamesake(Text, Option<Identity>),
    /// LIST of the one claim of this namespace and name that a volume is asked for although it is gone, or
    /// has one.
    LoadOwner(Text, Text),
    /// GET of a Secret.
    LoadSecret(SecretRef),
    /// GET of a VolumeAttributesClass.
    LoadAttributesClass(Text),
    /// GET and PUT of a data source: it gets a finalizer.
    ProtectSource(Edit),
    /// The provisioning journal gets what the driver is about to be asked.
    Intend(Arc<PinnedRequest>),
    /// `CreateVolume`. From here on the request is repeated until there is an answer.
    Create(Arc<PinnedRequest>, Box<CreateVolumeRequest>),
    /// `DeleteVolume` of a volume that nobody can use: up to five times at once, within the time
    /// limit of one call.
    Discard(Box<DeleteVolumeRequest>, Migrated),
    /// POST of the PersistentVolume.
    Save(Unsaved),
    /// GET and PUT of the snapshot: it loses its finalizer. Its failure is only logged.
    ReleaseSource(Edit),
    /// GET and PUT of the claim: another node is to be selected, after this failure.
    Unselect(Edit, Failure),
    /// The attempt is over.
    Done(End),
    /// The attempt is over.
    Fail(Failure),
}

impl Step {
    /// The answer to it if it is not taken.
    #[must_use]
    pub fn unsent(&self, why: String) -> Answer {
        if matches!(self, Self::Create(..) | Self::Discard(..)) {
            Answer::Unreachable(RpcError::unsent(why))
        } else {
            Answer::Refused(ApiError::local(why))
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
                "Node {node} is gone, and CreateVolume for it got no answer: the volume is created elsewhere, and one that may exist there is looked for later"
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

/// What came of a step.
pub enum Answer {
    /// Done: the event is on its way, the object is written or needed no change.
    Done,
    /// The API server refused, or did not answer.
    Refused(ApiError),
    /// The provisioning journal does not take it.
    Unwritable(Unwritable),
    /// The snapshot.
    Snapshot(Box<Snapshot>),
    /// The snapshot's content.
    Content(Box<Content>),
    /// The claim to be cloned, or the one that a volume is asked for.
    SourceClaim(Box<Claim>),
    /// A PersistentVolume.
    PersistentVolume(Box<VolumeDetail>),
    /// The attributes class.
    AttributesClass(Box<AttributesClass>),
    /// The Secret.
    Secret(Secrets),
    /// The Secret has a value that is not UTF-8.
    SecretNotText,
    /// The driver's answer.
    Created(Box<CreateVolumeResponse>),
    /// The call failed.
    Failed(RpcError),
    /// The driver cannot be reached, and nothing was sent to it.
    Unreachable(RpcError),
}
