//! Makes the spans of one controller.

use std::fmt;
use std::time::Duration;

use csi_proto::otlp::{self, StatusCode};
use jiff::Timestamp;
use tokio::time::Instant;

use super::export::Exporter;
use crate::election::Fence;

/// Makes the spans of one controller; clones share the exporter.
#[derive(Clone)]
pub struct Tracer {
    pub(super) exporter: Exporter,
    scope: &'static str,
    pub(super) fence: Fence,
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer")
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

impl Tracer {
    /// The tracer of the controller named `scope`, which works under the lease that `fence` tracks.
    #[must_use]
    pub fn new(exporter: Exporter, scope: &'static str, fence: Fence) -> Self {
        Self {
            exporter,
            scope,
            fence,
        }
    }

    pub(super) fn emit(&self, span: otlp::Span) {
        self.exporter.take(self.scope, span);
    }
}

/// A moment, on the wall clock and on a monotonic clock.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub(super) world: Timestamp,
    steady: Instant,
}

impl Moment {
    pub(super) fn now() -> Self {
        Self {
            world: Timestamp::now(),
            steady: Instant::now(),
        }
    }

    /// Nanoseconds since 1970, `by` before this moment.
    pub(super) fn before(self, by: Duration) -> u64 {
        nanos(self.world).saturating_sub(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(super) fn nanos(self) -> u64 {
        self.before(Duration::ZERO)
    }

    /// The current nanoseconds since 1970, as if the clock had not been set since this moment.
    pub(super) fn until_now(self) -> u64 {
        let since = u64::try_from(self.steady.elapsed().as_nanos()).unwrap_or(0);
        self.nanos().saturating_add(since)
    }
}

/// Nanoseconds since 1970.
pub(super) fn nanos(time: Timestamp) -> u64 {
    u64::try_from(time.as_nanosecond()).unwrap_or(0)
}

pub(super) fn error(message: Option<String>) -> otlp::Status {
    otlp::Status {
        message: message.unwrap_or_default(),
        code: StatusCode::Error.into(),
    }
}
