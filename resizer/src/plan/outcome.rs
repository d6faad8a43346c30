//! Failures of requests and calls: their class, their text, and the trigger that may resolve them.
//!
//! The texts appear in events and conditions, where users and scripts read them. The resizer never
//! parses them.

use serde_json::Value;
use sidecar::controller::CallError;
use sidecar::controller::request::Object as _;
use sidecar::csi::access_mode::BadAccessModes;
use tonic::Code;

use super::fairness::Kind;
use super::request::{Announcement, ClaimWrite, Purpose, VolumeWrite, Write};
use crate::keys::{PRE_RESIZE_CAPACITY, STORAGE_RESIZER};
use crate::model::{SecretRef, Text};

pub use sidecar::refusal::{ApiError, Refusal};
pub use sidecar::rpc_code::{Finality, RpcError};

/// The finality of a call of this kind that failed with `code`.
#[must_use]
pub fn classify(kind: Kind, code: Code) -> Finality {
    match code {
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Unavailable
        | Code::ResourceExhausted
        | Code::Aborted => Finality::InDoubt,
        Code::InvalidArgument => Finality::Infeasible,
        Code::OutOfRange | Code::NotFound if kind == Kind::Expand => Finality::Infeasible,
        Code::Ok
        | Code::Unknown
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::Internal
        | Code::DataLoss
        | Code::Unauthenticated => Finality::Final,
    }
}

/// An event after which a failed attempt may succeed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RequeueTrigger {
    /// The PersistentVolume of this name appears or changes.
    Volume(Text),
    /// The VolumeAttributesClass of this name appears or changes.
    Class(Text),
    /// The driver is reachable again.
    Driver,
}

/// Why the driver was not called, or its error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// The API server did not return the Secret.
    #[error("error getting secret {} in namespace {}: {}", .0.name, .0.namespace, .1)]
    Secret(SecretRef, ApiError),
    /// A value of the Secret is not text, so no request can carry it.
    #[error(
        "error getting secret {} in namespace {}: it has a value that is not UTF-8, which no CSI request can carry",
        .0.name,
        .0.namespace
    )]
    SecretNotText(SecretRef),
    /// Access modes without an equivalent in CSI; the first value is the volume's name.
    #[error("failed to get capabilities of volume {0} with {1}")]
    AccessModes(Text, BadAccessModes),
    /// The volume has no handle.
    #[error("empty volume handle")]
    EmptyHandle,
    /// Another driver, this one, serves the volume's in-tree source.
    #[error(
        "the volume has an in-tree source that the driver {0} serves; the claim's annotation {STORAGE_RESIZER} must \
         name that one"
    )]
    OtherDriver(&'static str),
    /// The volume's in-tree source cannot be translated.
    #[error("failed to translate persistent volume: {0}")]
    Untranslatable(Text),
    /// The driver returned less than requested: requested and returned bytes.
    #[error("the driver made the volume {1} bytes large, {0} were asked for")]
    TooSmall(i64, i64),
    /// The call failed, or had no response in time.
    #[error("{0}")]
    Call(RpcError),
    /// The driver is unreachable, so the call was not made.
    #[error("{0}")]
    Unreachable(RpcError),
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The PersistentVolume does not exist: claim and volume.
    #[error("PV {1:?} bound to pvc {0:?} not found")]
    NoVolume(Text, Text),
    /// An object with an unknown last write could not be read.
    #[error("could not read the object again: {0}")]
    Read(ApiError),
    /// The claim could not be written.
    #[error("{}", of_claim(*.0, .1, .2))]
    Claim(ClaimWrite, Text, ApiError),
    /// The PersistentVolume could not be written: its name, and for
    /// [`VolumeWrite::Grow`] its new capacity.
    #[error("{}", of_volume(*.0, .1, .2, .3))]
    Volume(VolumeWrite, Text, String, ApiError),
    /// The driver expands unused volumes only, and pods use this one: claim and driver.
    #[error(
        "Unable to expand {0} because CSI driver {1} only supports offline expansion and volume is currently in-use"
    )]
    InUse(Text, String),
    /// Expansion: volume, driver and why.
    #[error("resize volume {0:?} by resizer {1:?} failed: {2}")]
    Expand(Text, String, Cause),
    /// The failure of an expansion could not be recorded on the claim.
    #[error(
        "resizing failed in controller with {} but failed to update PVC {} with: {}",
        .1,
        .0,
        of_claim(ClaimWrite::RecordResizeError, .0, .2)
    )]
    Unrecorded(Text, Cause, ApiError),
    /// A modification that has begun needs a class that is gone.
    #[error(
        "get VAC with vac name {0} in VACInformer cache failed: volumeattributesclass.storage.k8s.io {0:?} not found"
    )]
    NoClass(Text),
    /// Modification: the target if the outcome of the call is unknown, and why.
    #[error("{}{}", .1, still(.0.as_ref()))]
    Modify(Option<Text>, Cause),
}

impl From<&CallError> for Cause {
    fn from(error: &CallError) -> Self {
        match error {
            CallError::Failed(error) => Self::Call(error.clone()),
            CallError::Unreachable(error) => Self::Unreachable(error.clone()),
        }
    }
}

impl Failure {
    /// The failure of a write. `None` if the write records another failure, or the claim is gone.
    #[must_use]
    pub fn of_write(write: &Write, error: &ApiError) -> Option<Self> {
        let (key, error) = (write.object.key().into(), error.clone());
        Some(match write.purpose {
            Purpose::Claim(what) if what.is_record() || error.is_not_found() => return None,
            Purpose::Claim(what) => Self::Claim(what, key, error),
            Purpose::Volume(what) => {
                let capacity = write.body.patch().pointer("/spec/capacity/storage");
                let capacity = capacity.and_then(Value::as_str).unwrap_or_default();
                Self::Volume(what, key, capacity.to_owned(), error)
            }
        })
    }

    /// The trigger after which a retry need not wait for its back-off.
    #[must_use]
    pub fn trigger(&self) -> Option<RequeueTrigger> {
        if let Self::NoVolume(_, volume) = self {
            return Some(RequeueTrigger::Volume(volume.clone()));
        }
        if let Self::NoClass(class) = self {
            return Some(RequeueTrigger::Class(class.clone()));
        }
        // A call that was under way when the driver ended fails like one that could not be made.
        let without_driver = match self.cause()? {
            Cause::Unreachable(_) => true,
            Cause::Call(error) => error.code == Code::Unavailable,
            Cause::Secret(..)
            | Cause::SecretNotText(_)
            | Cause::AccessModes(..)
            | Cause::EmptyHandle
            | Cause::OtherDriver(_)
            | Cause::Untranslatable(_)
            | Cause::TooSmall(..) => false,
        };
        without_driver.then_some(RequeueTrigger::Driver)
    }

    /// The cause, if the driver or the path to it is involved.
    #[must_use]
    pub fn cause(&self) -> Option<&Cause> {
        match self {
            Self::Expand(_, _, cause) | Self::Modify(_, cause) | Self::Unrecorded(_, cause, _) => {
                Some(cause)
            }
            Self::NoVolume(..)
            | Self::Read(_)
            | Self::Claim(..)
            | Self::Volume(..)
            | Self::InUse(..)
            | Self::NoClass(_) => None,
        }
    }

    /// Whether the next retry waits for the longer time after an infeasible request.
    #[must_use]
    pub fn is_slow(&self, kind: Kind) -> bool {
        match self.cause() {
            Some(Cause::Call(error)) => classify(kind, error.code) == Finality::Infeasible,
            Some(Cause::OtherDriver(_)) => true,
            Some(
                Cause::Secret(..)
                | Cause::SecretNotText(_)
                | Cause::AccessModes(..)
                | Cause::EmptyHandle
                | Cause::Untranslatable(_)
                | Cause::TooSmall(..)
                | Cause::Unreachable(_),
            )
            | None => false,
        }
    }

    /// Whether only this process is concerned, so that the claim's user gets no event.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        match self {
            Self::NoVolume(..)
            | Self::Read(_)
            | Self::Claim(ClaimWrite::MarkResizing | ClaimWrite::TakeOver, ..)
            | Self::Volume(VolumeWrite::RemoveAnnotation, ..) => true,
            // The patch may have been applied; the next attempt finds out.
            Self::Claim(ClaimWrite::FinishModify, _, error)
                if error.refusal == Refusal::Unknown =>
            {
                true
            }
            Self::Claim(_, _, error) | Self::Volume(_, _, _, error) => {
                error.refusal == Refusal::Conflict
            }
            Self::InUse(..)
            | Self::Expand(..)
            | Self::Unrecorded(..)
            | Self::NoClass(_)
            | Self::Modify(..) => false,
        }
    }

    fn for_owner(&self) -> String {
        if let Self::NoClass(class) = self {
            return format!("VAC {class:?} does not exist.");
        }
        self.to_string()
    }

    /// The event for the claim's user, if there is one.
    #[must_use]
    pub fn announcement(&self, kind: Kind) -> Option<Announcement> {
        let reason = match kind {
            Kind::Expand => "VolumeResizeFailed",
            Kind::Modify => "VolumeModifyFailed",
        };
        (!self.is_quiet()).then(|| Announcement::warning(reason, self.for_owner()))
    }
}

/// Text for a failed write of a claim.
fn of_claim(write: ClaimWrite, claim: &Text, error: &ApiError) -> String {
    let what = match write {
        ClaimWrite::MarkResizing => format!("marking pvc {claim:?} as resizing failed"),
        ClaimWrite::TakeOver => format!("taking over pvc {claim:?} failed"),
        ClaimWrite::MarkPendingOnNode => {
            format!("mark PVC {claim:?} as node expansion required failed")
        }
        ClaimWrite::FinishResize => format!("mark PVC {claim:?} as resize finished failed"),
        ClaimWrite::RecordResizeError => {
            format!("mark PVC {claim:?} as controller expansion failed, errored with")
        }
        ClaimWrite::MarkModifying => format!("mark PVC {claim:?} as modifying failed"),
        ClaimWrite::MarkPendingClass => {
            format!("mark PVC {claim:?} as waiting for its class failed")
        }
        ClaimWrite::RecordModifyError => {
            format!("mark PVC {claim:?} as modify failed, errored with")
        }
        ClaimWrite::FinishModify => format!("mark PVC {claim:?} as modified failed"),
        ClaimWrite::CancelModify => {
            format!("mark PVC {claim:?} as no longer being modified failed")
        }
    };
    format!("{what}: can't patch status of  PVC {claim} with {error}")
}

/// Text for a failed write of a PersistentVolume.
fn of_volume(write: VolumeWrite, volume: &Text, capacity: &str, error: &ApiError) -> String {
    match write {
        VolumeWrite::RemoveAnnotation => {
            format!("failed removing annotation {PRE_RESIZE_CAPACITY} from pv {volume:?}: {error}")
        }
        VolumeWrite::Grow => format!(
            "error updating pv {volume:?} by resizer: updating capacity of PV {volume:?} to {capacity} \
             failed: update capacity of PV {volume} failed: {error}"
        ),
        VolumeWrite::SetClass => {
            format!("setting the volume attributes class of PV {volume:?} failed: {error}")
        }
    }
}

/// Text for the class that the volume may get in spite of the failure.
fn still(target: Option<&Text>) -> String {
    target.map_or_else(String::new, |target| {
        format!(". Still modifying to VAC {target}")
    })
}
