//! Failures of requests and calls: their texts, and the effect on the next attempt.
//!
//! The texts appear in statuses and events, where users and scripts read them. The snapshotter never parses
//! them.

mod text;

use sidecar::controller::CallError;
use sidecar::snapshot::secret::Unclear;
use tonic::Code;

use super::request::{ContentWrite, Written};
use crate::model::{Content, Kind, SecretRef, Source, Text};

pub use sidecar::refusal::{ApiError, Refusal};
pub use sidecar::rpc_code::{Finality, RpcError};

/// The finality of a create call that failed with `code`. For the provisioner `ResourceExhausted` is final;
/// here it is not.
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

/// The task of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Create the snapshot.
    Create,
    /// Look it up.
    Check,
    /// Delete it.
    Delete,
}

/// An event after which a failed attempt may succeed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequeueTrigger {
    /// The class of this name appears or changes.
    Class(Text),
    /// The driver is reachable again.
    Driver,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The content names no class for a new snapshot.
    NoClassNamed,
    /// The class of this name does not exist.
    NoClass(Text),
    /// The class has an unknown parameter with a reserved prefix.
    ReservedKey(String),
    /// The class's reference to the Secret is ambiguous.
    Unclear(Unclear),
    /// The annotations reference a Secret with an empty name or namespace.
    Unnamed,
    /// The Secret could not be read; the flag says whether annotations reference it.
    Secret(SecretRef, ApiError, bool),
    /// A value of the Secret is not text, so no request can carry it; the flag is the same.
    SecretNotText(SecretRef, bool),
    /// The content is unbound, so the snapshot has no name.
    Unbound,
    /// The annotation with the requisite topology does not parse.
    Topology(String),
    /// The handles of the group's snapshots are unknown.
    NoMembers,
    /// The call failed, or had no response in time.
    Call(RpcError),
    /// The driver is unreachable, so the call was not made.
    Away(RpcError),
    /// The driver's response has no ID.
    NoId,
    /// The driver's response is about something else, described here. It shows nothing about the storage.
    Unfit(String),
    /// The driver does not find the snapshot with this handle.
    NotFound(Text),
    /// The content could not be written.
    Write(ContentWrite, ApiError),
    /// The content's status could not be written.
    Status(ApiError),
    /// A content with an unknown last write could not be read.
    Read(ApiError),
    /// The API server accepted this write, but it does not show in the content.
    NoEffect(Written),
}

impl From<&CallError> for Problem {
    fn from(error: &CallError) -> Self {
        match error {
            CallError::Failed(error) => Self::Call(error.clone()),
            CallError::Unreachable(error) => Self::Away(error.clone()),
        }
    }
}

/// The failure of an attempt, with everything that its text needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The attempt's task.
    pub task: Task,
    /// The kind of the content.
    pub kind: Kind,
    /// Name of the content.
    pub content: Text,
    /// Handle of the volume, or a list of handles, for a new snapshot.
    pub volume: Option<Text>,
    /// The problem.
    pub problem: Problem,
}

impl Failure {
    /// The attempt on this content fails with `problem`.
    #[must_use]
    pub fn new(task: Task, name: &Text, content: &Content, problem: Problem) -> Self {
        let volume = match &content.source {
            Some(Source::Volume(volume)) => Some(volume.clone()),
            Some(Source::Volumes(volumes)) => {
                let all: Vec<&str> = volumes.iter().map(|volume| &**volume).collect();
                Some(format!("[{}]", all.join(" ")).into())
            }
            Some(Source::Snapshot(_) | Source::Group(_)) | None => None,
        };
        Self {
            task,
            kind: content.kind(),
            content: name.clone(),
            volume,
            problem,
        }
    }

    /// The trigger after which a retry need not wait for its back-off. `class`: the one that the content
    /// names.
    #[must_use]
    pub fn trigger(&self, class: Option<&Text>) -> Option<RequeueTrigger> {
        match &self.problem {
            Problem::NoClass(name) => Some(RequeueTrigger::Class(name.clone())),
            Problem::ReservedKey(_) | Problem::Unclear(_) => {
                class.cloned().map(RequeueTrigger::Class)
            }
            Problem::Call(_) if self.is_infeasible() => class.cloned().map(RequeueTrigger::Class),
            // A call that was under way when the driver ended fails like one that could not be made.
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

    /// Whether repeating the same request soon makes no sense.
    #[must_use]
    pub fn is_infeasible(&self) -> bool {
        self.finality() == Some(Finality::Infeasible)
    }

    /// The finality of a failed create call; `None` for other failures.
    #[must_use]
    pub fn finality(&self) -> Option<Finality> {
        match (&self.problem, self.task) {
            (Problem::Call(error), Task::Create) => Some(classify(error.code)),
            _ => None,
        }
    }

    /// Whether the driver has no snapshot, for sure.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(
            self.finality(),
            Some(Finality::Final | Finality::Infeasible)
        )
    }

    /// Whether the attempt failed before the call, because an input was missing.
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

    /// Whether a write had no response, or one that leaves its outcome unknown.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        self.write_error().is_some_and(ApiError::is_unknown)
    }

    /// The API server's error, if a write failed.
    fn write_error(&self) -> Option<&ApiError> {
        if let Problem::Write(_, error) | Problem::Status(error) = &self.problem {
            return Some(error);
        }
        None
    }

    /// Whether only this process is concerned, so that the snapshot's user gets no event: an unknown outcome
    /// or a conflict resolves itself soon.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.write_error().is_some_and(|error| !is_lasting(error))
            || matches!(self.problem, Problem::Read(_))
    }

    /// The message of the event for a failed deletion, if there is one.
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

/// Whether a retry would get the same error.
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
