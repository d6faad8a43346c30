//! What to ask the API server next: pure decisions of the list-and-watch loop.
//!
//! Nothing here sends or waits. Each outcome of a request goes in, the pause before the next request
//! comes out, and [`Progress::next`] says what that is.

use std::time::Duration;

use crate::retry::RetryPolicy;

/// The next request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ask {
    /// Watch that begins with all objects and goes on with changes (`sendInitialEvents`).
    Stream,
    /// The first page of a list, or the next one.
    Page(Option<String>),
    /// Changes since this version.
    Watch(String),
}

/// A request, or the watch it opened, came to an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// The server closed the watch in an orderly way.
    Closed,
    /// The connection broke, timed out, or what came was no JSON.
    Broken,
    /// The server refused with this HTTP status, or said so in the watch.
    Refused(Refusal),
}

/// A `Status` of the API server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: u16,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) retry_after: Option<Duration>,
    /// `details.causes[].reason` is `ResourceVersionTooLarge`: this server has not seen the version.
    pub(super) version_too_large: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Position {
    Nothing,
    Streaming,
    Paging { token: String, version: String },
    At(String),
}

#[derive(Debug)]
pub(super) struct Progress {
    position: Position,
    stream_refused: bool,
    failures: u32,
}

/// As kube-runtime and client-go: under a second at first, half a minute at most.
const PAUSES: RetryPolicy = RetryPolicy {
    base: Duration::from_millis(800),
    cap: Duration::from_secs(30),
    jitter: 0.5,
};

/// A watch that held this long was no failure, even if nothing happened in it.
const STEADY: Duration = Duration::from_secs(10);

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            position: Position::Nothing,
            stream_refused: false,
            failures: 0,
        }
    }

    pub(super) fn next(&mut self) -> Ask {
        match &self.position {
            Position::Nothing | Position::Streaming if self.stream_refused => Ask::Page(None),
            Position::Nothing | Position::Streaming => {
                self.position = Position::Streaming;
                Ask::Stream
            }
            Position::Paging { token, .. } => Ask::Page(Some(token.clone())),
            Position::At(version) => Ask::Watch(version.clone()),
        }
    }

    /// A page came. If it was the last one, the version of the list.
    pub(super) fn page(&mut self, version: String, token: Option<String>) -> Option<&str> {
        self.failures = 0;
        // The list is as of the first page's version, whatever a later page says.
        let version = match std::mem::replace(&mut self.position, Position::Nothing) {
            Position::Paging { version, .. } => version,
            Position::Nothing | Position::Streaming | Position::At(_) => version,
        };
        self.position = match token {
            Some(token) => Position::Paging { token, version },
            None => Position::At(version),
        };
        match &self.position {
            Position::At(version) => Some(version),
            Position::Nothing | Position::Streaming | Position::Paging { .. } => None,
        }
    }

    /// The watch brought an object or a bookmark with this version.
    pub(super) fn event(&mut self, version: &str) {
        self.failures = 0;
        if let Position::At(known) = &mut self.position
            && !version.is_empty()
        {
            version.clone_into(known);
        }
    }

    /// The watch said that all objects that existed have been sent. Whether that is news.
    pub(super) fn initial_events_end(&mut self, version: &str) -> bool {
        if self.position != Position::Streaming || version.is_empty() {
            return false;
        }
        self.position = Position::At(version.to_owned());
        true
    }

    /// Whether the objects that exist are being streamed and their end has not come.
    pub(super) fn is_streaming(&self) -> bool {
        self.position == Position::Streaming
    }

    /// A request, or after `lasted` the watch it opened, ended; how long to wait before the next.
    pub(super) fn end(&mut self, end: &End, lasted: Duration, unit_random: f64) -> Duration {
        let streaming = self.is_streaming();
        if lasted >= STEADY {
            self.failures = 0;
        }
        match end {
            End::Closed if streaming => {
                // A server that ignores the parameter never says that the initial events are over.
                self.stream_refused = true;
                self.position = Position::Nothing;
            }
            // Watches end every few minutes; one that ended at once must not become a busy loop.
            End::Closed if lasted >= STEADY => return Duration::ZERO,
            End::Closed => {}
            End::Broken if streaming => self.position = Position::Nothing,
            End::Broken => {}
            End::Refused(refusal) => {
                if streaming && matches!(refusal.code, 400 | 406 | 415 | 422) {
                    self.stream_refused = true;
                    self.position = Position::Nothing;
                    return Duration::ZERO;
                }
                if streaming || refusal.needs_list() {
                    if !streaming {
                        // The server is back and says what to do: the pauses of the outage that
                        // made the version expire would leave the cache blind for longer.
                        self.failures = 0;
                    }
                    self.position = Position::Nothing;
                }
            }
        }
        self.failures = self.failures.saturating_add(1);
        let pause = PAUSES.delay(self.failures, unit_random);
        match end {
            End::Refused(Refusal {
                retry_after: Some(least),
                ..
            }) => pause.max(*least),
            End::Refused(_) | End::Closed | End::Broken => pause,
        }
    }

    /// The streamed list fell silent before its end: the server does not know how to end it.
    pub(super) fn stream_is_silent(&mut self) {
        self.stream_refused = true;
        self.position = Position::Nothing;
    }
}

impl Refusal {
    /// Whether the version or the page token is of no use any more.
    fn needs_list(&self) -> bool {
        self.code == 410
            || self.code == 400
            || self.version_too_large
            || matches!(self.reason.as_str(), "Gone" | "Expired")
    }
}

#[cfg(test)]
mod tests;
