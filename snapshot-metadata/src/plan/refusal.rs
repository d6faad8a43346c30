//! The status and text that a client gets when a call fails.

use std::error::Error as _;
use std::fmt;

use sidecar::rpc_code;
use tonic::{Code, Status};

/// Longest message that the program accepts from a driver. gRPC's usual limit is a quarter of it, and drivers
/// exceed that when a client sets no limit on the ranges of a message.
pub const LONGEST_OF_DRIVER: usize = 16 << 20;

/// Why a call fails. The client gets `text`; `cause` is for the administrator alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status code that the client gets.
    pub code: Code,
    /// The status message that the client gets.
    pub text: String,
    /// The cause, for the log.
    pub cause: Option<String>,
    /// The class of the refusal, for the metric.
    pub reason: Reason,
}

/// Classes of refusals, for the metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The request is invalid.
    Invalid,
    /// The API server does not accept the token.
    Unauthenticated,
    /// The client has no right to read the VolumeSnapshots.
    Forbidden,
    /// The API server did not answer a review.
    Review,
    /// The driver is not ready.
    NotReady,
    /// The snapshot, its content, its class or the Secret cannot be used.
    Objects,
    /// Too many calls run at once.
    Busy,
    /// The driver returned an error, or does not answer.
    Driver,
    /// The driver's ranges contradict each other.
    Ranges,
    /// The call's deadline has passed.
    Deadline,
    /// This process is terminating.
    Ending,
    /// The client has cancelled the call.
    Cancelled,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Invalid,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::Review,
        Self::NotReady,
        Self::Objects,
        Self::Busy,
        Self::Driver,
        Self::Ranges,
        Self::Deadline,
        Self::Ending,
        Self::Cancelled,
    ];

    /// Value of the metric's label.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::Review => "review",
            Self::NotReady => "not_ready",
            Self::Objects => "objects",
            Self::Busy => "busy",
            Self::Driver => "driver",
            Self::Ranges => "ranges",
            Self::Deadline => "deadline",
            Self::Ending => "ending",
            Self::Cancelled => "cancelled",
        }
    }
}

impl Refusal {
    /// A refusal whose text has nothing to add for the log.
    #[must_use]
    pub fn new(reason: Reason, code: Code, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
            cause: None,
            reason,
        }
    }

    /// Adds a cause for the log.
    #[must_use]
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// The refusal when too many calls run.
    #[must_use]
    pub fn busy() -> Self {
        Self::new(Reason::Busy, Code::Unavailable, "too many requests")
    }

    /// The refusal when the call's deadline has passed.
    #[must_use]
    pub fn too_late() -> Self {
        Self::new(
            Reason::Deadline,
            Code::DeadlineExceeded,
            "context deadline exceeded",
        )
    }

    /// The refusal while this process terminates.
    #[must_use]
    pub fn ending() -> Self {
        Self::new(
            Reason::Ending,
            Code::Unavailable,
            "shutting down, continue at the next offset",
        )
    }

    /// The refusal while the driver is not ready or not connected.
    #[must_use]
    pub fn not_ready() -> Self {
        Self::new(
            Reason::NotReady,
            Code::Unavailable,
            "the CSI driver is not yet ready",
        )
    }
}

/// Translates a driver's status, or the end of the connection to it, for the client.
///
/// Passes on a status that the driver has sent. A status that the transport has made must not look like the
/// driver's, since clients take OUT_OF_RANGE for the end of the volume and FAILED_PRECONDITION for one without
/// tracked changes.
#[must_use]
pub fn of_driver(status: &Status) -> Refusal {
    const TOO_LARGE: &str = "Error, decoded message length too large";
    let text = status.message();
    let refusal = |code, text: String| Refusal::new(Reason::Driver, code, text);
    if status.source().is_some() {
        let text = format!("error reading from server: EOF ({text})");
        return refusal(Code::Unavailable, text);
    }
    let code = status.code();
    if code == Code::Unknown {
        let text = rpc_code::text(status);
        let text = format!("failed to get response from CSI driver: {text}");
        return refusal(Code::Internal, text);
    }
    if code == Code::OutOfRange && text.starts_with(TOO_LARGE) {
        let text = format!("grpc: received message larger than max ({LONGEST_OF_DRIVER})");
        return refusal(Code::ResourceExhausted, text);
    }
    if code == Code::DeadlineExceeded {
        return Refusal::too_late();
    }
    refusal(code, text.to_owned())
}

/// The text of the log line.
impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Some(cause) => write!(out, "{}: {cause}", self.text),
            None => out.write_str(&self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cb_31_cb_32_cb_46_what_a_client_hears_of_the_driver() {
        let boom = "failed to get response from CSI driver: rpc error: code = Unknown desc = boom";
        let broken = std::io::Error::other("broken pipe");
        let lost = Status::from_error(Box::new(broken));
        let large =
            "Error, decoded message length too large: found 99 bytes, the limit is: 9 bytes";
        let large_as = "grpc: received message larger than max (16777216)";
        for (status, code, text) in [
            (
                Status::failed_precondition("no CBT"),
                Code::FailedPrecondition,
                "no CBT",
            ),
            (Status::out_of_range("offset"), Code::OutOfRange, "offset"),
            (Status::not_found("snap-1"), Code::NotFound, "snap-1"),
            (Status::unknown("boom"), Code::Internal, boom),
            (
                Status::out_of_range(large),
                Code::ResourceExhausted,
                large_as,
            ),
            (
                lost,
                Code::Unavailable,
                "error reading from server: EOF (broken pipe)",
            ),
        ] {
            let refusal = of_driver(&status);
            assert_eq!((refusal.code, &*refusal.text), (code, text));
        }
    }
}
