//! How requests and calls fail: their class, their text, and what would cure them.
//!
//! The texts end up in events and conditions, where people and scripts read them. No text is ever
//! parsed again in here.

use std::fmt;

use sidecar::csi::access_mode::BadAccessModes;
use tonic::Code;

use super::fairness::Kind;
use super::step::{Announcement, ClaimWrite, VolumeWrite};
use crate::model::{SecretRef, Text};

pub use sidecar::refusal::{ApiError, Refusal};
pub use sidecar::rpc_code::{Finality, RpcError};

/// What a call of this kind that failed with `code` says about its operation.
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

/// What would, when it appears or changes, let a failed attempt succeed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RequeueTrigger {
    /// The PersistentVolume of this name.
    Volume(Text),
    /// The VolumeAttributesClass of this name.
    Class(Text),
    /// The driver itself.
    Driver,
}

/// Why the driver could not be asked, or what it answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The Secret could not be read.
    Secret(SecretRef, ApiError),
    /// A value of the Secret is not text, so that no request can carry it.
    SecretNotText(SecretRef),
    /// Access modes without a counterpart; the volume's name.
    AccessModes(Text, BadAccessModes),
    /// The volume has no handle.
    EmptyHandle,
    /// The volume's in-tree source is served by this driver, which is another one.
    OtherDriver(&'static str),
    /// The volume's in-tree source cannot be said in the driver's words.
    Untranslatable(Text),
    /// The driver answered with less than it was asked for: bytes asked and answered.
    TooSmall(i64, i64),
    /// The driver refused, failed or did not answer in time.
    Call(RpcError),
    /// The driver is away, and was not asked.
    Unreachable(RpcError),
}

/// Why an attempt ended without reaching its goal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The PersistentVolume is not there: claim and volume.
    NoVolume(Text, Text),
    /// In doubt about an object, and it could not be read.
    Read(ApiError),
    /// The claim could not be written.
    Claim(ClaimWrite, Text, ApiError),
    /// The PersistentVolume could not be written: its name, and for
    /// [`VolumeWrite::Grow`] its new capacity.
    Volume(VolumeWrite, Text, String, ApiError),
    /// The driver expands unused volumes only, and pods use this one: claim and driver.
    InUse(Text, String),
    /// Expansion: volume, driver and why.
    Expand(Text, String, Cause),
    /// The failure of an expansion could not be recorded on the claim.
    Unrecorded(Text, Cause, ApiError),
    /// A modification that has begun needs a class that is gone.
    NoClass(Text),
    /// Modification: the target if the call is in doubt, and why.
    Modify(Option<Text>, Cause),
}

impl Failure {
    /// What would cure it, so that the task need not wait for its next retry.
    #[must_use]
    pub fn trigger(&self) -> Option<RequeueTrigger> {
        if let Self::NoVolume(_, volume) = self {
            return Some(RequeueTrigger::Volume(volume.clone()));
        }
        if let Self::NoClass(class) = self {
            return Some(RequeueTrigger::Class(class.clone()));
        }
        // A call that ran when the driver went ends as one that could not be made.
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

    /// What the driver or the way to it has to do with it.
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

    /// What kind of task fails like this.
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

    /// Whether it concerns nobody but this process: nothing to tell the claim's owner.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        match self {
            Self::NoVolume(..)
            | Self::Read(_)
            | Self::Claim(ClaimWrite::MarkResizing | ClaimWrite::TakeOver, ..)
            | Self::Volume(VolumeWrite::RemoveAnnotation, ..) => true,
            // It may be done, and the next attempt finds out.
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

    /// The event that tells the claim's owner, if there is anything to tell.
    #[must_use]
    pub fn announcement(&self, kind: Kind) -> Option<Announcement> {
        (!self.is_quiet()).then(|| Announcement {
            warning: true,
            reason: match kind {
                Kind::Expand => "VolumeResizeFailed",
                Kind::Modify => "VolumeModifyFailed",
            },
            message: self.for_owner(),
        })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret(SecretRef { namespace, name }, error) => {
                write!(
                    out,
                    "error getting secret {name} in namespace {namespace}: {error}"
                )
            }
            Self::SecretNotText(SecretRef { namespace, name }) => write!(
                out,
                "error getting secret {name} in namespace {namespace}: it has a value that is not \
                 UTF-8, which no CSI request can carry"
            ),
            Self::AccessModes(volume, error) => {
                write!(
                    out,
                    "failed to get capabilities of volume {volume} with {error}"
                )
            }
            Self::EmptyHandle => out.write_str("empty volume handle"),
            Self::OtherDriver(driver) => write!(
                out,
                "the volume has an in-tree source that the driver {driver} serves; the claim's \
                 annotation {} must name that one",
                crate::keys::STORAGE_RESIZER
            ),
            Self::Untranslatable(why) => {
                write!(out, "failed to translate persistent volume: {why}")
            }
            Self::TooSmall(asked, answered) => write!(
                out,
                "the driver made the volume {answered} bytes large, {asked} were asked for"
            ),
            Self::Call(error) | Self::Unreachable(error) => write!(out, "{error}"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoVolume(claim, volume) => {
                write!(out, "PV {volume:?} bound to pvc {claim:?} not found")
            }
            Self::Read(error) => write!(out, "could not read the object again: {error}"),
            Self::Claim(write, claim, error) => write_claim(out, *write, claim, error),
            Self::Volume(write, volume, capacity, error) => match write {
                VolumeWrite::RemoveAnnotation => write!(
                    out,
                    "failed removing annotation {} from pv {volume:?}: {error}",
                    crate::keys::PRE_RESIZE_CAPACITY
                ),
                VolumeWrite::Grow => write!(
                    out,
                    "error updating pv {volume:?} by resizer: updating capacity of PV {volume:?} \
                     to {capacity} failed: update capacity of PV {volume} failed: {error}"
                ),
                VolumeWrite::SetClass => write!(
                    out,
                    "setting the volume attributes class of PV {volume:?} failed: {error}"
                ),
            },
            Self::InUse(claim, driver) => write!(
                out,
                "Unable to expand {claim} because CSI driver {driver} only supports offline \
                 expansion and volume is currently in-use"
            ),
            Self::Expand(volume, driver, cause) => {
                write!(
                    out,
                    "resize volume {volume:?} by resizer {driver:?} failed: {cause}"
                )
            }
            Self::Unrecorded(claim, cause, error) => {
                write!(
                    out,
                    "resizing failed in controller with {cause} but failed to update PVC {claim} \
                     with: "
                )?;
                write_claim(out, ClaimWrite::RecordResizeError, claim, error)
            }
            Self::NoClass(class) => write!(
                out,
                "get VAC with vac name {class} in VACInformer cache failed: \
                 volumeattributesclass.storage.k8s.io {class:?} not found"
            ),
            Self::Modify(None, cause) => write!(out, "{cause}"),
            Self::Modify(Some(target), cause) => {
                write!(out, "{cause}. Still modifying to VAC {target}")
            }
        }
    }
}

fn write_claim(
    out: &mut fmt::Formatter<'_>,
    write: ClaimWrite,
    claim: &Text,
    error: &ApiError,
) -> fmt::Result {
    match write {
        ClaimWrite::MarkResizing => write!(out, "marking pvc {claim:?} as resizing failed: "),
        ClaimWrite::TakeOver => write!(out, "taking over pvc {claim:?} failed: "),
        ClaimWrite::MarkPendingOnNode => {
            write!(
                out,
                "mark PVC {claim:?} as node expansion required failed: "
            )
        }
        ClaimWrite::RequireFileSystemResize => {
            write!(
                out,
                "mark PVC {claim:?} as file system resize required failed: "
            )
        }
        ClaimWrite::FinishResize => write!(out, "mark PVC {claim:?} as resize finished failed: "),
        ClaimWrite::RecordResizeError => {
            write!(
                out,
                "mark PVC {claim:?} as controller expansion failed, errored with: "
            )
        }
        ClaimWrite::MarkModifying => write!(out, "mark PVC {claim:?} as modifying failed: "),
        ClaimWrite::MarkPendingClass => {
            write!(out, "mark PVC {claim:?} as waiting for its class failed: ")
        }
        ClaimWrite::RecordModifyError => {
            write!(out, "mark PVC {claim:?} as modify failed, errored with: ")
        }
        ClaimWrite::FinishModify => write!(out, "mark PVC {claim:?} as modified failed: "),
        ClaimWrite::CancelModify => {
            write!(
                out,
                "mark PVC {claim:?} as no longer being modified failed: "
            )
        }
    }?;
    write!(out, "can't patch status of  PVC {claim} with {error}")
}

impl std::error::Error for Failure {}
