//! What a client is told when a call fails.

use std::error::Error as _;
use std::fmt;

use sidecar::rpc_code;
use tonic::{Code, Status};

/// Longest message of a driver. gRPC's usual limit is a quarter of it, and drivers do not keep to it when they are
/// asked for as many ranges as they like.
pub const LONGEST_OF_DRIVER: usize = 16 << 20;

/// Why a call fails. What a client may know is in `text`; what only an administrator may know is in `cause`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For the client.
    pub code: Code,
    /// For the client.
    pub text: String,
    /// For the log.
    pub cause: Option<String>,
    /// For the metric.
    pub reason: Reason,
}

/// Classes of refusals, for the metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The request cannot be served.
    Invalid,
    /// The token is not accepted.
    Unauthenticated,
    /// The right is missing.
    Forbidden,
    /// A review could not be made.
    Review,
    /// The driver is not ready.
    NotReady,
    /// Snapshot, content, class or Secret cannot be used.
    Objects,
    /// Too many at once.
    Busy,
    /// The driver says so, or cannot be asked.
    Driver,
    /// The driver's answers contradict each other.
    Ranges,
    /// The time is over.
    Deadline,
    /// This process ends.
    Ending,
    /// The client does not want it any more.
    Cancelled,
}

impl Reason {
    /// As the metric's label has it.
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
    /// One whose text is all there is to say.
    #[must_use]
    pub fn new(reason: Reason, code: Code, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
            cause: None,
            reason,
        }
    }

    /// With more to say in the log.
    #[must_use]
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Too much is going on.
    #[must_use]
    pub fn busy() -> Self {
        Self::new(Reason::Busy, Code::Unavailable, "too many requests")
    }

    /// The time of the call is over.
    #[must_use]
    pub fn too_late() -> Self {
        Self::new(
            Reason::Deadline,
            Code::DeadlineExceeded,
            "context deadline exceeded",
        )
    }

    /// This process ends.
    #[must_use]
    pub fn ending() -> Self {
        Self::new(
            Reason::Ending,
            Code::Unavailable,
            "shutting down, continue at the next offset",
        )
    }

    /// The driver is not ready, or away.
    #[must_use]
    pub fn not_ready() -> Self {
        Self::new(
            Reason::NotReady,
            Code::Unavailable,
            "the CSI driver is not yet ready",
        )
    }
}

/// What a driver's status, or the end of the connection to it, is to the client.
///
/// A status that the driver has sent is passed on; what was made of it on the way must not look as if the
/// driver said it, since clients take OUT_OF_RANGE for the end of the volume and FAILED_PRECONDITION for
/// one without tracked changes.
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

/// As it stands in the log.
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
