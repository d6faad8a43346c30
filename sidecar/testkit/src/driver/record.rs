//! What the driver was asked, and how it answered.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tonic::Code;

/// One call.
#[derive(Clone)]
pub struct Call {
    /// Position in the order of arrival, from 0, never reused.
    pub number: usize,
    /// Method without service, such as `ControllerPublishVolume`.
    pub method: &'static str,
    /// What it is about: volume, then node; or the name of the volume to create.
    pub subject: Vec<String>,
    /// When it arrived.
    pub started: Instant,
    /// When it was answered or given up; `None` while it runs.
    pub ended: Option<Instant>,
    /// The time that the caller gives it (`grpc-timeout`).
    pub deadline: Option<Duration>,
    /// The `:authority` of the caller.
    pub authority: String,
    /// The span that it is made for (`traceparent`); empty when absent.
    pub traceparent: String,
    /// The answer; `None` while it runs, and when the caller gave it up.
    pub code: Option<Code>,
    pub(super) request: Arc<dyn Any + Send + Sync>,
    pub(super) text: String,
}

impl Call {
    /// The request, secrets included, if it is of this type.
    #[must_use]
    pub fn request<T: 'static>(&self) -> Option<&T> {
        self.request.downcast_ref()
    }

    /// The volume it is about; empty when there is none.
    #[must_use]
    pub fn volume(&self) -> &str {
        self.subject.first().map(String::as_str).unwrap_or_default()
    }

    /// The node it is about; empty when there is none.
    #[must_use]
    pub fn node(&self) -> &str {
        self.subject.get(1).map(String::as_str).unwrap_or_default()
    }

    /// Whether it was neither answered nor given up.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.ended.is_none()
    }

    /// Whether the caller went away before the answer.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.ended.is_some() && self.code.is_none()
    }
}

/// Method, request without secrets, code.
impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} -> {:?}", self.method, self.text, self.code)
    }
}

/// What the transport knows about a call.
#[derive(Clone, Debug, Default)]
pub(super) struct Envelope {
    pub(super) authority: String,
    pub(super) deadline: Option<Duration>,
    pub(super) traceparent: String,
}

impl Envelope {
    pub(super) fn of<B>(request: &http::Request<B>) -> Self {
        let timeout = request.headers().get("grpc-timeout");
        let traceparent = request.headers().get("traceparent");
        let traceparent = traceparent.and_then(|value| value.to_str().ok());
        Self {
            traceparent: traceparent.unwrap_or_default().to_owned(),
            authority: request
                .uri()
                .authority()
                .map(ToString::to_string)
                .unwrap_or_default(),
            deadline: timeout
                .and_then(|value| value.to_str().ok())
                .and_then(timeout_of),
        }
    }
}

/// `grpc-timeout`: up to eight digits and a unit.
fn timeout_of(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let count: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(count * 3600)),
        "M" => Some(Duration::from_secs(count * 60)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}
