//! The recorded calls and their responses.

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
    /// The subject of the call: volume, then node; or the name of the volume to create.
    pub subject: Vec<String>,
    /// Time of arrival.
    pub started: Instant,
    /// Time of the response or cancellation; `None` while it runs.
    pub ended: Option<Instant>,
    /// The caller's time limit (`grpc-timeout`).
    pub deadline: Option<Duration>,
    /// The `:authority` of the caller.
    pub authority: String,
    /// The caller's span (`traceparent`); empty when absent.
    pub traceparent: String,
    /// The response's status; `None` while it runs, and if the caller cancelled it.
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

    /// The volume of the call; empty if none.
    #[must_use]
    pub fn volume(&self) -> &str {
        self.subject.first().map(String::as_str).unwrap_or_default()
    }

    /// The node of the call; empty if none.
    #[must_use]
    pub fn node(&self) -> &str {
        self.subject.get(1).map(String::as_str).unwrap_or_default()
    }

    /// Whether the call was neither answered nor cancelled.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.ended.is_none()
    }

    /// Whether the caller went away before the response.
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

/// The transport's metadata of a call.
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
