//! Why an attempt on a claim ended without a volume, and what follows from it.
//!
//! The texts end up in events, where people read them, and the class of a failure decides whether a
//! volume may exist of which nobody knows.

use sidecar::rpc_code::{self, Finality};
use tonic::Code;

use crate::model::{SecretRef, Text, VolumeDetail};
use crate::plan::journal::Unwritable;
use crate::plan::outcome::{ApiError, RequeueTrigger, RpcError};
use crate::plan::pv::Unusable;
use crate::plan::request::{NameError, PinnedRequest};
use crate::plan::{parameters, secret, source, topology};

/// What a failure says about the volume, and what is done about the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProvisioningState {
    /// The driver does not work on it. Tried again as long as the claim is there.
    Finished,
    /// The same, and the driver called the request impossible: tried again after a long time.
    Infeasible,
    /// The driver may still work on it: tried again even if the claim is gone.
    InBackground,
    /// Nothing was learnt.
    NoChange,
    /// The driver does not work on it, and another node is to be selected.
    Reschedule,
}

/// Why an attempt ended. Every failure is tried again with back-off, for ever.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The class is not there.
    #[error("storageclass.storage.k8s.io {0:?} not found")]
    NoClass(Text),
    /// The class is of the in-tree plugin that the driver replaced, and cannot be said in the driver's
    /// words.
    #[error("failed to translate storage class: {0}")]
    Class(String),
    /// The driver cannot do it: what, and the capability.
    #[error("CSI driver does not support {0}: it lacks the capability {1}")]
    Incapable(&'static str, &'static str),
    /// `spec.selector` is set.
    #[error("claim Selector is not supported; remove spec.selector")]
    Selector,
    /// There is no name for the volume.
    #[error("{0}")]
    Name(NameError),
    /// The class's parameters are wrong.
    #[error("{0}")]
    Parameters(parameters::Error),
    /// An access mode has no counterpart in CSI.
    #[error("unsupported access mode {0:?}")]
    AccessMode(String),
    /// The data source cannot be used.
    #[error("error getting handle for DataSource: {0}")]
    Source(source::Error),
    /// An object that the volume is made from could not be read: which.
    #[error("error getting {0}: {1}")]
    Read(String, ApiError),
    /// The claim to be cloned could not be read: `namespace/name`.
    #[error("error getting PVC {0}: {1}")]
    SourceClaim(Text, ApiError),
    /// A data source could not be protected from deletion: which.
    #[error("could not add the finalizer that protects {0}: {1}")]
    Protect(String, ApiError),
    /// There is no place for the volume.
    #[error("error generating accessibility requirements: {0}")]
    Topology(topology::Error),
    /// The class does not say which Secret it means.
    #[error("{0}")]
    SecretName(secret::Error),
    /// The Secret could not be read.
    #[error("error getting secret {} in namespace {}: {error}", .0.name, .0.namespace, error = .1)]
    Secret(SecretRef, ApiError),
    /// A value of the Secret is not text, so that no request can carry it.
    #[error(
        "secret {} in namespace {} has a value that is not UTF-8, which CSI cannot carry",
        .0.name, .0.namespace
    )]
    SecretNotText(SecretRef),
    /// The VolumeAttributesClass could not be read.
    #[error("error getting VolumeAttributesClass {0}: {1}")]
    AttributesClass(Text, ApiError),
    /// The VolumeAttributesClass is another driver's.
    #[error("VolumeAttributesClass {0} belongs to driver {1}, not to this one")]
    AttributesClassDriver(Text, Text),
    /// The class is of an in-tree plugin, whose volumes have no VolumeAttributesClass: the API server
    /// refuses a PersistentVolume with both.
    #[error(
        "a claim with the VolumeAttributesClass {0} needs a StorageClass whose provisioner is the CSI \
         driver, not the in-tree plugin that it replaced"
    )]
    AttributesClassInTree(Text),
    /// What the driver would be asked could not be written into the provisioning journal.
    #[error("CreateVolume postponed: cannot write the provisioning journal: {0}")]
    Intend(Unwritable),
    /// The driver cannot be reached, and nothing was sent to it.
    #[error("{0}")]
    Unreachable(RpcError),
    /// The driver refused, failed or did not answer in time.
    #[error("{0}")]
    Call(RpcError),
    /// The driver ran out of room on the selected node.
    #[error("{0}")]
    Full(RpcError),
    /// The driver's answer is no volume that could be used.
    #[error("{0}")]
    Unusable(Unusable),
    /// The same, and the volume was deleted again.
    #[error("{0}")]
    Discarded(Unusable),
    /// The same, and the volume could not be deleted again.
    #[error(
        "{error}. Cleanup of volume {} failed, volume is orphaned: {cleanup}",
        .0.discard().unwrap_or_default(), error = .0, cleanup = .1
    )]
    Orphan(Unusable, RpcError),
    /// What is owed was asked again, and the PersistentVolume of its name is on its way out: it may
    /// be that the driver has made anew what was deleted a moment ago.
    #[error(
        "the PersistentVolume {0} is being deleted; the request will be repeated once it is gone"
    )]
    Leaving(String),
    /// The claim is bound to a PersistentVolume of this name that is gone.
    #[error(
        "the claim has lost its PersistentVolume {0}; the request will be repeated when the claim is gone or the PersistentVolume exists again"
    )]
    Lost(String),
    /// The volume is there, its PersistentVolume could not be saved.
    #[error("error saving the PersistentVolume: {0}")]
    Save(ApiError),
    /// The PersistentVolume that has the volume's name is one of this driver, and says another id.
    #[error(
        "the driver returned volume {id}, but PersistentVolume {volume} refers to another one: nothing is deleted, and the request stays in the provisioning journal until the PersistentVolume is gone"
    )]
    Contradicted {
        /// Name of the PersistentVolume.
        volume: Text,
        /// The driver's id of what it has.
        id: Text,
    },
    /// The PersistentVolume that has the volume's name is another claim's.
    #[error(
        "the name {volume} is that of the PersistentVolume of claim {claim}: make volume names unique with a greater --volume-name-uuid-length"
    )]
    NameTaken {
        /// Name of the PersistentVolume.
        volume: Text,
        /// `namespace/name` of the claim that it is for.
        claim: String,
    },
}

impl Failure {
    /// The PersistentVolume that has the volume's name, `found`, is another claim's.
    #[must_use]
    pub fn name_taken(found: &VolumeDetail) -> Self {
        let claim = found
            .claim
            .as_ref()
            .map(|claim| format!("{}/{}", claim.namespace, claim.name));
        Self::NameTaken {
            volume: found.name.clone(),
            claim: claim.unwrap_or_default(),
        }
    }

    /// A failed CreateVolume; `node` is where it was to be, empty where that does not matter.
    #[must_use]
    pub fn of_call(error: RpcError, node: &str) -> Self {
        if error.code == Code::ResourceExhausted && !node.is_empty() {
            Self::Full(error)
        } else {
            Self::Call(error)
        }
    }

    /// Whether the call that ended with it proves that `asked`, with which a call has had no answer
    /// before, made nothing: the volume was deleted, or the very same words are impossible. Words that
    /// an earlier process asked may have been asked of an earlier version of the driver.
    #[must_use]
    pub fn ends_doubt(&self, asked: &PinnedRequest, inherited: bool) -> bool {
        match self {
            Self::Discarded(_) => true,
            Self::Call(error) => {
                let impossible = [Code::InvalidArgument, Code::OutOfRange, Code::Unimplemented];
                !inherited && asked.is_self_contained() && impossible.contains(&error.code)
            }
            Self::NoClass(_)
            | Self::Class(_)
            | Self::Incapable(..)
            | Self::Selector
            | Self::Name(_)
            | Self::Parameters(_)
            | Self::AccessMode(_)
            | Self::Source(_)
            | Self::Read(..)
            | Self::SourceClaim(..)
            | Self::Protect(..)
            | Self::Topology(_)
            | Self::SecretName(_)
            | Self::Secret(..)
            | Self::SecretNotText(_)
            | Self::AttributesClass(..)
            | Self::AttributesClassDriver(..)
            | Self::AttributesClassInTree(_)
            | Self::Intend(_)
            | Self::Unreachable(_)
            | Self::Full(_)
            | Self::Unusable(_)
            | Self::Orphan(..)
            | Self::Leaving(_)
            | Self::Lost(_)
            | Self::Contradicted { .. }
            | Self::NameTaken { .. }
            | Self::Save(_) => false,
        }
    }

    /// Whether the driver says that there is another volume of the name.
    pub(super) fn is_taken(&self) -> bool {
        matches!(self, Self::Call(error) if error.code == Code::AlreadyExists)
    }

    /// What it says about the volume.
    #[must_use]
    pub fn state(&self) -> ProvisioningState {
        match self {
            Self::NoClass(_)
            | Self::Class(_)
            | Self::AttributesClassInTree(_)
            | Self::Incapable(..)
            | Self::Selector
            | Self::Name(_)
            | Self::Parameters(_)
            | Self::AccessMode(_)
            | Self::AttributesClassDriver(..)
            | Self::SecretNotText(_)
            | Self::Discarded(_) => ProvisioningState::Finished,
            Self::Source(error) if error.is_final() => ProvisioningState::Finished,
            Self::Topology(error) if error.reschedules() => ProvisioningState::Reschedule,
            Self::Source(_)
            | Self::Read(..)
            | Self::SourceClaim(..)
            | Self::Protect(..)
            | Self::Topology(_)
            | Self::SecretName(_)
            | Self::Secret(..)
            | Self::AttributesClass(..)
            | Self::Intend(_)
            | Self::Lost(_)
            | Self::Unreachable(_) => ProvisioningState::NoChange,
            Self::Call(error) => match rpc_code::finality(error.code) {
                Finality::Final => ProvisioningState::Finished,
                Finality::Infeasible => ProvisioningState::Infeasible,
                Finality::InDoubt => ProvisioningState::InBackground,
            },
            Self::Full(_) => ProvisioningState::Reschedule,
            Self::Unusable(_)
            | Self::Orphan(..)
            | Self::Leaving(_)
            | Self::Contradicted { .. }
            | Self::NameTaken { .. }
            | Self::Save(_) => ProvisioningState::InBackground,
        }
    }

    /// Whether it may pass by itself within moments: once is no failure yet, and only logged.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Save(_) | Self::Leaving(_) | Self::Lost(_))
    }

    /// Whether it is a failure to whoever waits for the volume: they may have one.
    #[must_use]
    pub fn concerns_users(&self) -> bool {
        !matches!(self, Self::Contradicted { .. })
    }

    /// Text of the Warning event `ProvisioningFailed`.
    #[must_use]
    pub fn event(&self, class: &str) -> String {
        let delayed = match self.state() {
            ProvisioningState::Infeasible => {
                "the driver rejected the request as infeasible, retries are delayed: "
            }
            ProvisioningState::Finished
            | ProvisioningState::InBackground
            | ProvisioningState::NoChange
            | ProvisioningState::Reschedule => "",
        };
        format!("{delayed}failed to provision volume with StorageClass {class:?}: {self}")
    }

    /// What would cure it, so that the claim need not wait for its next retry. `class` is the name
    /// of its class: made anew, it may say something else.
    #[must_use]
    pub fn cure(&self, class: &str) -> Option<RequeueTrigger> {
        match self {
            Self::NoClass(name) => Some(RequeueTrigger::Class(name.clone())),
            Self::Class(_)
            | Self::AttributesClassInTree(_)
            | Self::Parameters(_)
            | Self::SecretName(_) => Some(RequeueTrigger::Class(class.into())),
            Self::Call(error) if error.code == Code::InvalidArgument => {
                Some(RequeueTrigger::Class(class.into()))
            }
            Self::Source(error) => error.cure(),
            Self::SourceClaim(name, error) if error.is_not_found() => {
                Some(RequeueTrigger::SourceClaim(name.clone()))
            }
            Self::AttributesClass(name, _) | Self::AttributesClassDriver(name, _) => {
                Some(RequeueTrigger::AttributesClass(name.clone()))
            }
            Self::Topology(error) => topology_cure(error, class),
            Self::SourceClaim(..)
            | Self::Incapable(..)
            | Self::Selector
            | Self::Name(_)
            | Self::AccessMode(_)
            | Self::Read(..)
            | Self::Protect(..)
            | Self::Secret(..)
            | Self::SecretNotText(_)
            | Self::Intend(_)
            | Self::Unreachable(_)
            | Self::Call(_)
            | Self::Full(_)
            | Self::Unusable(_)
            | Self::Discarded(_)
            | Self::Orphan(..)
            | Self::Leaving(_)
            | Self::Lost(_)
            | Self::Contradicted { .. }
            | Self::NameTaken { .. }
            | Self::Save(_) => None,
        }
    }
}

fn topology_cure(error: &topology::Error, class: &str) -> Option<RequeueTrigger> {
    use topology::Error;
    match error {
        Error::NodeGone(_) => None,
        Error::NoKeys(node) => Some(RequeueTrigger::CsiNode(node.clone())),
        Error::NoNode(node) | Error::NoLabel { node, .. } => {
            Some(RequeueTrigger::Node(node.clone()))
        }
        Error::NotAllowed { .. } | Error::TooMany => Some(RequeueTrigger::Class(class.into())),
        Error::NoKeysAnywhere | Error::NoNodeWithKeys(_) => Some(RequeueTrigger::AnyNode),
    }
}
