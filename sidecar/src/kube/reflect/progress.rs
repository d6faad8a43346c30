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
    streaming: Streaming,
    failures: u32,
    /// Lists begun because the server refused a version or a token, since a watch last held. Apart
    /// from the failures, because each page and each event of such a list is a success.
    relists: u32,
}

/// Whether lists are streamed. Servers are replaced and close watches when they end, so that one
/// failure is no reason to page for ever.
#[derive(Debug)]
struct Streaming {
    wanted: bool,
    /// Streams without an end, since one had it.
    failures: u32,
    /// Complete lists to be read in pages before a stream is tried again.
    paged: u32,
}

/// A server that cannot stream costs a request, or a silence, in so many lists.
const MOST_PAGED: u32 = 64;

/// As kube-runtime and client-go: under a second at first, half a minute at most.
const PAUSES: RetryPolicy = RetryPolicy {
    base: Duration::from_millis(800),
    cap: Duration::from_secs(30),
    jitter: 0.5,
};

/// A watch that held this long was no failure, even if nothing happened in it.
const STEADY: Duration = Duration::from_secs(10);

/// A server that asks to be left alone for longer is asked again after this: caches that see nothing
/// for an hour are worse for it than one more request.
const LONGEST_ASKED: Duration = Duration::from_secs(300);

impl Streaming {
    /// Pages twice as many lists as after the failure before.
    fn failed(&mut self) {
        self.paged = 1_u32
            .checked_shl(self.failures)
            .map_or(MOST_PAGED, |lists| lists.min(MOST_PAGED));
        self.failures = self.failures.saturating_add(1);
    }
}

impl Progress {
    /// `stream`: lists are to be streamed where the server can.
    pub(super) fn new(stream: bool) -> Self {
        Self {
            position: Position::Nothing,
            streaming: Streaming {
                wanted: stream,
                failures: 0,
                paged: 0,
            },
            failures: 0,
            relists: 0,
        }
    }

    pub(super) fn next(&mut self) -> Ask {
        let paged = !self.streaming.wanted || self.streaming.paged > 0;
        match &self.position {
            Position::Nothing | Position::Streaming if paged => Ask::Page(None),
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
            None => {
                self.streaming.paged = self.streaming.paged.saturating_sub(1);
                Position::At(version)
            }
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
        self.streaming.failures = 0;
        true
    }

    /// Whether the objects that exist are being streamed and their end has not come.
    pub(super) fn is_streaming(&self) -> bool {
        self.position == Position::Streaming
    }

    /// Whether a list is read in pages and its end has not come.
    pub(super) fn is_paging(&self) -> bool {
        matches!(self.position, Position::Paging { .. })
    }

    /// Everything is to be listed again, whatever is known. A list that is under way goes on.
    pub(super) fn start_over(&mut self) {
        if matches!(self.position, Position::At(_)) {
            self.position = Position::Nothing;
        }
    }

    /// A request ended, or the watch that it opened and that told of changes for as long as `lasted`;
    /// how long to wait before the next.
    pub(super) fn end(&mut self, end: &End, lasted: Duration, unit_random: f64) -> Duration {
        let streaming = self.is_streaming();
        if lasted >= STEADY {
            self.failures = 0;
            self.relists = 0;
        }
        match end {
            // A server that ignores the parameter never says that the initial events are over.
            End::Closed if streaming => self.stream_has_no_end(),
            // Watches end every few minutes; one that ended at once must not become a busy loop.
            End::Closed if lasted >= STEADY => return Duration::ZERO,
            End::Closed => {}
            End::Broken if streaming => self.position = Position::Nothing,
            End::Broken => {}
            End::Refused(refusal) => {
                if streaming && matches!(refusal.code, 400 | 406 | 415 | 422) {
                    self.stream_has_no_end();
                    return Duration::ZERO;
                }
                if streaming {
                    self.position = Position::Nothing;
                } else if refusal.needs_list() {
                    return self.relist(refusal, unit_random);
                }
            }
        }
        self.failures = self.failures.saturating_add(1);
        pause(self.failures, end.asked(), unit_random)
    }

    /// The server is back and says what to do: the pauses of the outage that made the version expire
    /// would leave the cache blind for longer. One that refuses what its own list said is no better
    /// than one that fails.
    fn relist(&mut self, refusal: &Refusal, unit_random: f64) -> Duration {
        self.failures = 0;
        self.relists = self.relists.saturating_add(1);
        self.position = Position::Nothing;
        pause(self.relists, refusal.retry_after, unit_random)
    }

    /// The streamed list ended, was refused or fell silent before its end: this list is read in
    /// pages.
    pub(super) fn stream_has_no_end(&mut self) {
        self.streaming.failed();
        self.position = Position::Nothing;
    }
}

fn pause(failures: u32, asked: Option<Duration>, unit_random: f64) -> Duration {
    let own = PAUSES.delay(failures, unit_random);
    asked.map_or(own, |asked| own.max(asked.min(LONGEST_ASKED)))
}

impl End {
    fn asked(&self) -> Option<Duration> {
        match self {
            Self::Refused(refusal) => refusal.retry_after,
            Self::Closed | Self::Broken => None,
        }
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
