//! Failures of an attempt on a claim, and their consequences.
//!
//! The texts end up in events, where people read them, and the class of a failure decides whether the driver may have a
//! volume without any record of it.

use sidecar::rpc_code::{self, Finality};
use tonic::Code;

use crate::model::{SecretRef, Text, VolumeDetail};
use crate::plan::journal::Unwritable;
use crate::plan::outcome::{ApiError, RequeueTrigger, RpcError};
use crate::plan::pv::Unusable;
use crate::plan::request::{NameError, PinnedRequest};
use crate::plan::{parameters, secret, source, topology};

/// Consequence of a failure: for the volume, and for the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProvisioningState {
    /// The driver does not work on the volume. Retried as long as the claim exists.
    Finished,
    /// As `Finished`, and the driver called the request infeasible: retried after a long delay.
    Infeasible,
    /// The driver may still work on the volume: retried even if the claim is gone.
    InBackground,
    /// The failure shows nothing about the volume.
    NoChange,
    /// The driver does not work on the volume, and the scheduler has to select another node.
    Reschedule,
}

/// Why an attempt ended. Every failure is retried with back-off, without limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The class does not exist.
    #[error("storageclass.storage.k8s.io {0:?} not found")]
    NoClass(Text),
    /// The class is of the in-tree plugin that the driver replaced, and cannot be translated.
    #[error("failed to translate storage class: {0}")]
    Class(String),
    /// The driver lacks a capability: the feature, and the capability's name.
    #[error("CSI driver does not support {0}: it lacks the capability {1}")]
    Incapable(&'static str, &'static str),
    /// `spec.selector` is set.
    #[error("claim Selector is not supported; remove spec.selector")]
    Selector,
    /// No volume name can be made.
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
    /// An object on the way to the data source could not be read: its kind and name.
    #[error("error getting {0}: {1}")]
    Read(String, ApiError),
    /// The claim to be cloned could not be read: `namespace/name`.
    #[error("error getting PVC {0}: {1}")]
    SourceClaim(Text, ApiError),
    /// A data source could not get the finalizer that protects it: its kind and name.
    #[error("could not add the finalizer that protects {0}: {1}")]
    Protect(String, ApiError),
    /// No topology fits the volume.
    #[error("error generating accessibility requirements: {0}")]
    Topology(topology::Error),
    /// The class names no valid Secret.
    #[error("{0}")]
    SecretName(secret::Error),
    /// The Secret could not be read.
    #[error("error getting secret {} in namespace {}: {error}", .0.name, .0.namespace, error = .1)]
    Secret(SecretRef, ApiError),
    /// A value of the Secret is not UTF-8, and a CSI request cannot carry it.
    #[error(
        "secret {} in namespace {} has a value that is not UTF-8, which CSI cannot carry",
        .0.name, .0.namespace
    )]
    SecretNotText(SecretRef),
    /// The VolumeAttributesClass could not be read.
    #[error("error getting VolumeAttributesClass {0}: {1}")]
    AttributesClass(Text, ApiError),
    /// The VolumeAttributesClass belongs to another driver.
    #[error("VolumeAttributesClass {0} belongs to driver {1}, not to this one")]
    AttributesClassDriver(Text, Text),
    /// The class is of an in-tree plugin, whose volumes have no VolumeAttributesClass: the API server
    /// refuses a PersistentVolume with both.
    #[error(
        "a claim with the VolumeAttributesClass {0} needs a StorageClass whose provisioner is the CSI \
         driver, not the in-tree plugin that it replaced"
    )]
    AttributesClassInTree(Text),
    /// The CreateVolume request could not be written into the provisioning journal.
    #[error("CreateVolume postponed: cannot write the provisioning journal: {0}")]
    Intend(Unwritable),
    /// The driver cannot be reached; it got no request.
    #[error("{0}")]
    Unreachable(RpcError),
    /// The driver refused, failed, or did not answer in time.
    #[error("{0}")]
    Call(RpcError),
    /// The driver has no capacity left on the selected node.
    #[error("{0}")]
    Full(RpcError),
    /// The driver's response contains no usable volume.
    #[error("{0}")]
    Unusable(Unusable),
    /// As `Unusable`, and the volume was deleted again.
    #[error("{0}")]
    Discarded(Unusable),
    /// As `Unusable`, and the volume could not be deleted again.
    #[error(
        "{error}. Cleanup of volume {} failed, volume is orphaned: {cleanup}",
        .0.discard().unwrap_or_default(), error = .0, cleanup = .1
    )]
    Orphan(Unusable, RpcError),
    /// An unsettled request was repeated, and the PersistentVolume of its name is being deleted: the driver may have
    /// recreated what was deleted a moment ago.
    #[error(
        "the PersistentVolume {0} is being deleted; the request will be repeated once it is gone"
    )]
    Leaving(String),
    /// The claim is bound to a PersistentVolume of this name that does not exist any more.
    #[error(
        "the claim has lost its PersistentVolume {0}; the request will be repeated when the claim is gone or the PersistentVolume exists again"
    )]
    Lost(String),
    /// The volume exists, but its PersistentVolume could not be saved.
    #[error("error saving the PersistentVolume: {0}")]
    Save(ApiError),
    /// The PersistentVolume with the volume's name is this driver's, and has another volume handle.
    #[error(
        "the driver returned volume {id}, but PersistentVolume {volume} refers to another one: nothing is deleted, and the request stays in the provisioning journal until the PersistentVolume is gone"
    )]
    Contradicted {
        /// Name of the PersistentVolume.
        volume: Text,
        /// The volume handle that the driver returned.
        id: Text,
    },
    /// The PersistentVolume with the volume's name belongs to another claim.
    #[error(
        "the name {volume} is that of the PersistentVolume of claim {claim}: make volume names unique with a greater --volume-name-uuid-length"
    )]
    NameInUse {
        /// Name of the PersistentVolume.
        volume: Text,
        /// `namespace/name` of that claim.
        claim: String,
    },
}

impl Failure {
    /// The PersistentVolume with the volume's name, `found`, belongs to another claim.
    #[must_use]
    pub fn name_in_use(found: &VolumeDetail) -> Self {
        let claim = found
            .claim
            .as_ref()
            .map(|claim| format!("{}/{}", claim.namespace, claim.name));
        Self::NameInUse {
            volume: found.name.clone(),
            claim: claim.unwrap_or_default(),
        }
    }

    /// A failed CreateVolume; `node` is the node of the request, empty where topology does not matter.
    #[must_use]
    pub fn of_call(error: RpcError, node: &str) -> Self {
        if error.code == Code::ResourceExhausted && !node.is_empty() {
            Self::Full(error)
        } else {
            Self::Call(error)
        }
    }

    /// Whether this failure proves that `asked`, of which an earlier call had no answer, left no volume: the volume was
    /// deleted, or the very same request is impossible. A request that an earlier process sent (`sent_earlier`) may
    /// have reached an earlier version of the driver, which proves nothing.
    #[must_use]
    pub fn settles_outcome(&self, asked: &PinnedRequest, sent_earlier: bool) -> bool {
        match self {
            Self::Discarded(_) => true,
            Self::Call(error) => {
                let impossible = [Code::InvalidArgument, Code::OutOfRange, Code::Unimplemented];
                !sent_earlier && asked.is_self_contained() && impossible.contains(&error.code)
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
            | Self::NameInUse { .. }
            | Self::Save(_) => false,
        }
    }

    /// Whether the driver answered that another volume of the name exists.
    pub(super) fn is_name_in_use(&self) -> bool {
        matches!(self, Self::Call(error) if error.code == Code::AlreadyExists)
    }

    /// The consequence of the failure.
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
            | Self::NameInUse { .. }
            | Self::Save(_) => ProvisioningState::InBackground,
        }
    }

    /// Whether it may pass by itself within moments: the first one is only logged, without an event.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Save(_) | Self::Leaving(_) | Self::Lost(_))
    }

    /// Whether users get an event. They do not where they may have their volume already.
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

    /// The object that would cure the failure, so that the claim need not wait for its next retry. `class` is the name
    /// of its class, which may be made anew with other fields.
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
            | Self::NameInUse { .. }
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
