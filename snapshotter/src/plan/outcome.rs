//! How requests and calls fail: their texts, and what they mean for the next attempt.
//!
//! The texts end up in statuses and events, where people and scripts read them. No text is ever
//! parsed again in here.

mod text;

use sidecar::controller::CallError;
use sidecar::snapshot::secret::Unclear;
use tonic::Code;

use super::request::{ContentWrite, Written};
use crate::model::{Kind, SecretRef, Text};

pub use sidecar::refusal::{ApiError, Refusal};
pub use sidecar::rpc_code::{Finality, RpcError};

/// What a call for a snapshot or a group that failed with `code` says. The provisioner counts
/// `ResourceExhausted` among what is final; here it is not.
#[must_use]
pub fn classify(code: Code) -> Finality {
    match code {
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Unavailable
        | Code::ResourceExhausted
        | Code::Aborted => Finality::InDoubt,
        Code::InvalidArgument | Code::OutOfRange | Code::Unimplemented | Code::AlreadyExists => {
            Finality::Infeasible
        }
        Code::Ok
        | Code::Unknown
        | Code::NotFound
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::Internal
        | Code::DataLoss
        | Code::Unauthenticated => Finality::Final,
    }
}

/// What an attempt was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Taking the snapshot.
    Create,
    /// Looking it up.
    Check,
    /// Deleting it.
    Delete,
}

/// What would, when it appears or changes, let a failed attempt succeed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequeueTrigger {
    /// The class of this name.
    Class(Text),
    /// The driver itself.
    Driver,
}

/// Why an attempt did not reach its goal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// A snapshot is to be taken, and no class says how.
    NoClassNamed,
    /// The class of this name is not there.
    NoClass(Text),
    /// The class has a parameter of this name, which is none of its.
    ReservedKey(String),
    /// The class does not say clearly which Secret it means.
    Unclear(Unclear),
    /// The annotations name a Secret by nothing.
    Unnamed,
    /// The Secret could not be read. Whether annotations named it.
    Secret(SecretRef, ApiError, bool),
    /// A value of the Secret is not text, so that no request can carry it.
    SecretNotText(SecretRef, bool),
    /// Nothing is bound to the content, so that the snapshot has no name.
    Unbound,
    /// The annotation about where the snapshot must be usable cannot be understood.
    Topology(String),
    /// Nobody names the snapshots of the group.
    NoMembers,
    /// The driver refused, failed or did not answer in time.
    Call(RpcError),
    /// The driver is away, and was not asked.
    Away(RpcError),
    /// The driver answered without an id.
    NoId,
    /// The driver answered about something else than it was asked about; how. Nothing is known by that
    /// of what there is in storage.
    Unfit(String),
    /// The driver knows no snapshot of this handle.
    NotFound(Text),
    /// The content could not be written.
    Write(ContentWrite, ApiError),
    /// The content's status could not be written.
    Status(ApiError),
    /// In doubt about the content, and it could not be read.
    Read(ApiError),
    /// The API server has taken this, and it does not show in the content.
    NoEffect(Written),
}

impl From<CallError> for Problem {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Failed(error) => Self::Call(error),
            CallError::Unreachable(error) => Self::Away(error),
        }
    }
}

/// Why an attempt ended without reaching its goal, and all that its text needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What it was doing.
    pub task: Task,
    /// What it is a content of.
    pub kind: Kind,
    /// Name of the content.
    pub content: Text,
    /// The volume's handle, or a list of them, where a snapshot is to be taken.
    pub volume: Option<Text>,
    /// Why.
    pub problem: Problem,
}

impl Failure {
    /// What would let it succeed, so that the content need not wait for its next retry. `class`: the one that
    /// the content names.
    #[must_use]
    pub fn trigger(&self, class: Option<&Text>) -> Option<RequeueTrigger> {
        match &self.problem {
            Problem::NoClass(name) => Some(RequeueTrigger::Class(name.clone())),
            Problem::ReservedKey(_) | Problem::Unclear(_) => {
                class.cloned().map(RequeueTrigger::Class)
            }
            Problem::Call(_) if self.is_infeasible() => class.cloned().map(RequeueTrigger::Class),
            // A call that ran when the driver went ends as one that could not be made.
            Problem::Call(error) if error.code == Code::Unavailable => Some(RequeueTrigger::Driver),
            Problem::Away(_) => Some(RequeueTrigger::Driver),
            Problem::NoClassNamed
            | Problem::Unnamed
            | Problem::Secret(..)
            | Problem::SecretNotText(..)
            | Problem::Unbound
            | Problem::Topology(_)
            | Problem::NoMembers
            | Problem::Call(_)
            | Problem::NoId
            | Problem::Unfit(_)
            | Problem::NotFound(_)
            | Problem::Write(..)
            | Problem::Status(_)
            | Problem::Read(_)
            | Problem::NoEffect(_) => None,
        }
    }

    /// Whether the same request is not worth repeating soon.
    #[must_use]
    pub fn is_infeasible(&self) -> bool {
        self.finality() == Some(Finality::Infeasible)
    }

    /// What the driver's answer to a call that takes a snapshot says, if this is one.
    #[must_use]
    pub fn finality(&self) -> Option<Finality> {
        match (&self.problem, self.task) {
            (Problem::Call(error), Task::Create) => Some(classify(error.code)),
            _ => None,
        }
    }

    /// Whether the driver was not asked because something that comes before is missing.
    #[must_use]
    pub fn is_before_the_call(&self) -> bool {
        match self.problem {
            Problem::NoClassNamed
            | Problem::NoClass(_)
            | Problem::ReservedKey(_)
            | Problem::Unclear(_)
            | Problem::Unnamed
            | Problem::Secret(..)
            | Problem::SecretNotText(..)
            | Problem::Unbound
            | Problem::Topology(_)
            | Problem::NoMembers => true,
            Problem::Call(_)
            | Problem::Away(_)
            | Problem::NoId
            | Problem::Unfit(_)
            | Problem::NotFound(_)
            | Problem::Write(..)
            | Problem::Status(_)
            | Problem::Read(_)
            | Problem::NoEffect(_) => false,
        }
    }

    /// What was in the way of a write, if that is what failed.
    #[must_use]
    pub fn refused(&self) -> Option<&ApiError> {
        match &self.problem {
            Problem::Write(_, error) | Problem::Status(error) | Problem::Read(error) => Some(error),
            Problem::NoClassNamed
            | Problem::NoClass(_)
            | Problem::ReservedKey(_)
            | Problem::Unclear(_)
            | Problem::Unnamed
            | Problem::Secret(..)
            | Problem::SecretNotText(..)
            | Problem::Unbound
            | Problem::Topology(_)
            | Problem::NoMembers
            | Problem::Call(_)
            | Problem::Away(_)
            | Problem::NoId
            | Problem::Unfit(_)
            | Problem::NotFound(_)
            | Problem::NoEffect(_) => None,
        }
    }

    /// Whether a write had no answer, or one that leaves open whether it was applied.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        match &self.problem {
            Problem::Write(_, error) | Problem::Status(error) => error.refusal == Refusal::Unknown,
            Problem::NoClassNamed
            | Problem::NoClass(_)
            | Problem::ReservedKey(_)
            | Problem::Unclear(_)
            | Problem::Unnamed
            | Problem::Secret(..)
            | Problem::SecretNotText(..)
            | Problem::Unbound
            | Problem::Topology(_)
            | Problem::NoMembers
            | Problem::Call(_)
            | Problem::Away(_)
            | Problem::NoId
            | Problem::Unfit(_)
            | Problem::NotFound(_)
            | Problem::Read(_)
            | Problem::NoEffect(_) => false,
        }
    }

    /// Whether it concerns nobody but this process: nothing to tell the snapshot's owner. What the
    /// API server does not say, or what somebody else has written, is over soon.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.refused().is_some_and(|error| !is_lasting(error))
            || matches!(self.problem, Problem::Read(_))
    }

    /// The event that tells of a failed deletion, if there is one for this.
    #[must_use]
    pub fn of_deletion(&self) -> Option<String> {
        let what = match &self.problem {
            Problem::Unnamed | Problem::Secret(..) | Problem::SecretNotText(..) => {
                "Failed to get snapshot credentials"
            }
            Problem::Status(_) => "Failed to clear content status",
            Problem::Call(_) | Problem::Away(_) | Problem::NoMembers | Problem::NoEffect(_) => {
                match self.kind {
                    Kind::Single => "Failed to delete snapshot",
                    Kind::Group => "Failed to delete group snapshot",
                }
            }
            Problem::NoClassNamed
            | Problem::NoClass(_)
            | Problem::ReservedKey(_)
            | Problem::Unclear(_)
            | Problem::Unbound
            | Problem::Topology(_)
            | Problem::NoId
            | Problem::Unfit(_)
            | Problem::NotFound(_)
            | Problem::Write(..)
            | Problem::Read(_) => return None,
        };
        Some(format!("{what}: {self}"))
    }
}

impl std::error::Error for Failure {}

/// Whether the API server will say the same next time.
fn is_lasting(error: &ApiError) -> bool {
    match error.refusal {
        Refusal::Forbidden | Refusal::AlreadyExists | Refusal::Other => true,
        Refusal::NotFound | Refusal::Conflict | Refusal::Unknown => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_62_s_63_s_69_what_a_code_says() {
        use Finality::{Final, InDoubt, Infeasible};
        for (code, expected) in [
            (Code::Unknown, Final),
            (Code::NotFound, Final),
            (Code::AlreadyExists, Infeasible),
            (Code::PermissionDenied, Final),
            (Code::FailedPrecondition, Final),
            (Code::OutOfRange, Infeasible),
            (Code::Unimplemented, Infeasible),
            (Code::Internal, Final),
            (Code::DataLoss, Final),
            (Code::Unauthenticated, Final),
            (Code::InvalidArgument, Infeasible),
            (Code::Cancelled, InDoubt),
            (Code::DeadlineExceeded, InDoubt),
            (Code::Unavailable, InDoubt),
            (Code::ResourceExhausted, InDoubt),
            (Code::Aborted, InDoubt),
        ] {
            assert_eq!(classify(code), expected, "{code:?}");
        }
    }
}
