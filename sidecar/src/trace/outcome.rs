//! The meaning of the collector's responses. Pure; the table is from OpenTelemetry's protocol.

use std::time::Duration;

use csi_proto::otlp::{ExportTraceServiceResponse, RETRY_INFO, RetryInfo, RichStatus};
use prost::Message as _;
use tonic::{Code, Status};

use crate::rpc_code;

/// A collector that asks for a longer pause gets a request after this one.
const LONGEST: Duration = Duration::from_secs(300);

/// The result of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The collector accepted the batch, except for some spans.
    Sent {
        /// Number of refused spans.
        refused: u64,
        /// The reason for the refusal.
        why: String,
    },
    /// The collector did not accept the batch, and may later.
    Again {
        /// The reason.
        why: String,
        /// The pause that the collector asks for, if any.
        after: Option<Duration>,
    },
    /// The collector will never accept the batch.
    Refused {
        /// The reason.
        why: String,
    },
}

impl Outcome {
    /// Numbers of sent and refused spans out of `spans`; `None` if not known yet.
    #[must_use]
    pub(super) fn settled(&self, spans: u64) -> Option<(u64, u64)> {
        match self {
            Self::Sent { refused, .. } => Some((spans - refused, *refused)),
            Self::Refused { .. } => Some((0, spans)),
            Self::Again { .. } => None,
        }
    }
}

/// The result of an export of `spans` spans.
#[must_use]
pub(super) fn outcome(answer: Result<ExportTraceServiceResponse, Status>, spans: u64) -> Outcome {
    let status = match answer {
        Ok(response) => {
            let partial = response.partial_success.unwrap_or_default();
            let refused = u64::try_from(partial.rejected_spans).unwrap_or(0);
            return Outcome::Sent {
                refused: refused.min(spans),
                why: partial.error_message,
            };
        }
        Err(status) => status,
    };
    let (why, after) = (rpc_code::text(&status), retry_delay(&status));
    match status.code() {
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss => Outcome::Again { why, after },
        // The collector is overloaded if it names a pause; otherwise it has no room for this batch at
        // all.
        Code::ResourceExhausted if after.is_some() => Outcome::Again { why, after },
        Code::Ok
        | Code::Unknown
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Unimplemented
        | Code::Internal
        | Code::Unauthenticated => Outcome::Refused { why },
    }
}

fn retry_delay(status: &Status) -> Option<Duration> {
    let rich = RichStatus::decode(status.details()).ok()?;
    let info = rich.details.iter().find(|one| one.type_url == RETRY_INFO)?;
    let delay = RetryInfo::decode(&*info.value).ok()?.retry_delay?;
    let seconds = u64::try_from(delay.seconds).unwrap_or(0);
    let nanos = u32::try_from(delay.nanos).unwrap_or(0);
    let delay = Duration::from_secs(seconds).checked_add(Duration::from_nanos(nanos.into()));
    Some(delay.unwrap_or(LONGEST).min(LONGEST))
}

#[cfg(test)]
mod tests {
    use csi_proto::otlp::{self, ExportTracePartialSuccess};

    use super::*;

    fn refusal(code: Code, details: Vec<u8>) -> Outcome {
        let status = Status::with_details(code, "no", details.into());
        outcome(Err(status), 10)
    }

    #[test]
    fn o_11_what_is_sent_again_and_what_is_dropped() {
        for code in rpc_code::ALL {
            let again = matches!(
                code,
                Code::Cancelled
                    | Code::DeadlineExceeded
                    | Code::Aborted
                    | Code::OutOfRange
                    | Code::Unavailable
                    | Code::DataLoss
            );
            let outcome = refusal(code, Vec::new());
            assert_eq!(outcome.settled(10).is_none(), again, "{code:?}");
            assert!(again || outcome.settled(10) == Some((0, 10)), "{code:?}");
        }
    }

    #[test]
    fn o_11_the_collector_says_when_to_come_back() {
        let info = |seconds, nanos| {
            let delay = RetryInfo {
                retry_delay: Some(otlp::Duration { seconds, nanos }),
            };
            let any = otlp::Any {
                type_url: RETRY_INFO.to_owned(),
                value: delay.encode_to_vec(),
            };
            let details = vec![any];
            RichStatus { details }.encode_to_vec()
        };
        for (seconds, nanos, expected) in [
            (7, 0, Duration::from_secs(7)),
            (0, 500_000_000, Duration::from_millis(500)),
            (-1, -1, Duration::ZERO),
            (i64::MAX, i32::MAX, LONGEST),
        ] {
            for code in [Code::ResourceExhausted, Code::Unavailable] {
                let outcome = refusal(code, info(seconds, nanos));
                let after = match outcome {
                    Outcome::Again { after, .. } => after,
                    Outcome::Sent { .. } | Outcome::Refused { .. } => None,
                };
                assert_eq!(after, Some(expected), "{code:?} {seconds}");
            }
        }
        let nonsense = refusal(Code::ResourceExhausted, b"nonsense".to_vec());
        assert_eq!(nonsense.settled(10), Some((0, 10)));
    }

    #[test]
    fn o_11_a_part_is_taken() {
        for (rejected, expected) in [(0, (10, 0)), (3, (7, 3)), (11, (0, 10)), (-1, (10, 0))] {
            let partial_success = Some(ExportTracePartialSuccess {
                rejected_spans: rejected,
                error_message: "too old".to_owned(),
            });
            let outcome = outcome(Ok(ExportTraceServiceResponse { partial_success }), 10);
            assert_eq!(outcome.settled(10), Some(expected), "{rejected}");
        }
        let all = outcome(Ok(ExportTraceServiceResponse::default()), 10);
        assert_eq!(all.settled(10), Some((10, 0)));
    }
}
