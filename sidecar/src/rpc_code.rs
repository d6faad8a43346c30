//! gRPC status codes: Go's names, Go's error text, and what a code shows about the operation.
//!
//! Metrics labels, API status messages and events carry Go's spelling, which differs from tonic's
//! (`Canceled`, `OK`).

use std::fmt;

use tonic::{Code, Status};

/// Whether the operation of a failed call may still have an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finality {
    /// There is no response, or it means "in progress": the operation may still run, or have had an effect.
    InDoubt,
    /// The driver has answered: the operation is over and had no effect.
    Final,
    /// Like `Final`, and the same request is not worth repeating soon.
    Infeasible,
}

/// All codes, in numeric order.
pub const ALL: [Code; 17] = [
    Code::Ok,
    Code::Cancelled,
    Code::Unknown,
    Code::InvalidArgument,
    Code::DeadlineExceeded,
    Code::NotFound,
    Code::AlreadyExists,
    Code::PermissionDenied,
    Code::ResourceExhausted,
    Code::FailedPrecondition,
    Code::Aborted,
    Code::OutOfRange,
    Code::Unimplemented,
    Code::Internal,
    Code::Unavailable,
    Code::DataLoss,
    Code::Unauthenticated,
];

/// Distinguishes finished operations from those that may still run.
///
/// `ResourceExhausted` is final (a change of the provisioner's 3.1); the attacher and the resizer override
/// it in their own tables.
pub const fn finality(code: Code) -> Finality {
    match code {
        Code::Cancelled | Code::DeadlineExceeded | Code::Unavailable | Code::Aborted => {
            Finality::InDoubt
        }
        Code::InvalidArgument => Finality::Infeasible,
        Code::Ok
        | Code::Unknown
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::Internal
        | Code::DataLoss
        | Code::Unauthenticated => Finality::Final,
    }
}

/// The code's name in Go.
pub const fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

/// The code's name in gRPC's specification.
pub const fn upper(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

/// The error text of a status in Go: `rpc error: code = Internal desc = boom`.
pub fn text(status: &Status) -> String {
    format!(
        "rpc error: code = {} desc = {}",
        name(status.code()),
        status.message()
    )
}

/// A failed CSI call: code and message of its [`Status`], for decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcError {
    /// gRPC status code.
    pub code: Code,
    /// The driver's message.
    pub message: String,
}

impl RpcError {
    /// The error of a call that was not made.
    #[must_use]
    pub fn unsent(why: String) -> Self {
        Self {
            code: Code::Unavailable,
            message: why,
        }
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (code, message) = (name(self.code), &self.message);
        write!(out, "rpc error: code = {code} desc = {message}")
    }
}

impl std::error::Error for RpcError {}

impl From<&Status> for RpcError {
    fn from(status: &Status) -> Self {
        Self {
            code: status.code(),
            message: status.message().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_number_name_and_finality() {
        let names: Vec<_> = ALL.iter().map(|code| name(*code)).collect();
        assert_eq!(
            names.join(" "),
            "OK Canceled Unknown InvalidArgument DeadlineExceeded NotFound AlreadyExists \
             PermissionDenied ResourceExhausted FailedPrecondition Aborted OutOfRange \
             Unimplemented Internal Unavailable DataLoss Unauthenticated"
        );
        for (number, code) in ALL.iter().enumerate() {
            assert_eq!(*code as usize, number);
        }
        let running: Vec<_> = ALL
            .into_iter()
            .filter(|code| finality(*code) == Finality::InDoubt)
            .map(name)
            .collect();
        assert_eq!(
            running,
            ["Canceled", "DeadlineExceeded", "Aborted", "Unavailable"]
        );
    }

    #[test]
    fn error_text_is_gos() {
        let status = Status::cancelled("context canceled");
        assert_eq!(
            text(&status),
            "rpc error: code = Canceled desc = context canceled"
        );
    }
}
