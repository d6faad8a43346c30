//! Decides on the next request of the list-and-watch loop: pure.
//!
//! Nothing here sends or waits. The caller reports each outcome of a request, gets the pause before the
//! next request, and asks [`Progress::next`] for that request.

use std::time::Duration;

use crate::retry::RetryPolicy;

/// The next request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ask {
    /// A watch that begins with all objects and goes on with changes (`sendInitialEvents`).
    Stream,
    /// The first page of a list, or the next one.
    Page(Option<String>),
    /// A watch of the changes since this version.
    Watch(String),
}

/// How a request, or the watch that it opened, ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// The server closed the watch gracefully.
    Closed,
    /// The connection broke, timed out, or sent something that is not JSON.
    Broken,
    /// The server refused with this HTTP status, or with an error event in the watch.
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
    pages: Pages,
    /// Requests that failed since a watch last reported something or lasted.
    failures: u32,
    /// Lists since a watch last lasted, complete or abandoned because a token expired. Separate from the
    /// failures, because a server may accept each of them, and the watch after it for a moment.
    lists: u32,
    /// Consecutive watches that the server closed gracefully before they had lasted.
    early: u32,
    /// Whether the open watch has brought an object.
    told: bool,
}

/// Maximum number of objects in a page. A page is held as text while it is parsed, so pages are small as
/// long as the server keeps a list's version for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pages {
    Small,
    Large,
    Whole,
}

/// Whether lists are streamed. Servers close watches when they are replaced, so one failure is no reason
/// to page for ever.
#[derive(Debug)]
struct Streaming {
    wanted: bool,
    /// Streams that ended before their end marker, since one last had it.
    failures: u32,
    /// Number of lists to page before a stream is tried again.
    paged: u32,
}

/// A server that cannot stream costs one request, or one silence, per this many lists.
const MOST_PAGED: u32 = 64;

/// The same as kube-runtime and client-go: under a second at first, half a minute at most.
const PAUSES: RetryPolicy = RetryPolicy {
    base: Duration::from_millis(800),
    cap: Duration::from_secs(30),
    jitter: 0.5,
};

/// A watch that lasted this long did not fail, even if it reported nothing.
const STEADY: Duration = Duration::from_secs(10);

/// A watch that was closed gracefully is reopened at once, but only once in this time if that repeats.
const EARLY: Duration = Duration::from_secs(1);

/// Number of failures after which a forbidden watch counts as not granted.
const FORBIDDEN: u32 = 5;

/// A server that demands a longer pause gets a request after this: caches that see nothing for an hour do
/// more harm than one more request.
const LONGEST_ASKED: Duration = Duration::from_secs(300);

impl Streaming {
    /// Doubles the number of paged lists with each failure.
    fn failed(&mut self) {
        self.paged = 1_u32
            .checked_shl(self.failures)
            .map_or(MOST_PAGED, |lists| lists.min(MOST_PAGED));
        self.failures = self.failures.saturating_add(1);
    }
}

impl Progress {
    /// `stream`: lists are streamed where the server supports it.
    pub(super) fn new(stream: bool) -> Self {
        Self {
            position: Position::Nothing,
            streaming: Streaming {
                wanted: stream,
                failures: 0,
                paged: 0,
            },
            pages: Pages::Small,
            failures: 0,
            lists: 0,
            early: 0,
            told: false,
        }
    }

    /// Maximum number of objects in the next page; `None` means all.
    pub(super) fn limit(&self) -> Option<u32> {
        match self.pages {
            Pages::Small => Some(100),
            Pages::Large => Some(2000),
            Pages::Whole => None,
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

    /// Records a page. Returns the version of the list with its last page.
    pub(super) fn page(&mut self, version: String, token: Option<String>) -> Option<&str> {
        // The list has the first page's version, whatever a later page says.
        let version = match std::mem::replace(&mut self.position, Position::Nothing) {
            Position::Paging { version, .. } => version,
            Position::Nothing | Position::Streaming | Position::At(_) => version,
        };
        self.position = match token {
            Some(token) => Position::Paging { token, version },
            None => {
                self.streaming.paged = self.streaming.paged.saturating_sub(1);
                self.lists = self.lists.saturating_add(1);
                self.pages = match self.pages {
                    Pages::Small | Pages::Large => Pages::Small,
                    Pages::Whole => Pages::Large,
                };
                Position::At(version)
            }
        };
        match &self.position {
            Position::At(version) => Some(version),
            Position::Nothing | Position::Streaming | Position::Paging { .. } => None,
        }
    }

    /// Records that the watch brought an object with this version.
    pub(super) fn object(&mut self, version: &str) {
        self.told = true;
        self.event(version);
    }

    /// Records that the watch brought an object or a bookmark with this version.
    pub(super) fn event(&mut self, version: &str) {
        if let Position::At(known) = &mut self.position {
            self.failures = 0;
            if !version.is_empty() {
                version.clone_into(known);
            }
        }
    }

    /// Records the bookmark that ends the initial events. Returns whether the stream was waiting for it.
    pub(super) fn initial_events_end(&mut self, version: &str) -> bool {
        if self.position != Position::Streaming || version.is_empty() {
            return false;
        }
        self.position = Position::At(version.to_owned());
        self.streaming.failures = 0;
        self.lists = self.lists.saturating_add(1);
        true
    }

    /// Whether the existing objects are being streamed.
    pub(super) fn is_streaming(&self) -> bool {
        self.position == Position::Streaming
    }

    /// Whether there is a version or a token, which may have expired.
    fn has_begun(&self) -> bool {
        matches!(self.position, Position::Paging { .. } | Position::At(_))
    }

    /// Whether a list is being read in pages.
    pub(super) fn is_paging(&self) -> bool {
        matches!(self.position, Position::Paging { .. })
    }

    /// Lists everything again, whatever is known. A list in progress goes on.
    pub(super) fn start_over(&mut self) {
        if matches!(self.position, Position::At(_)) {
            self.position = Position::Nothing;
        }
    }

    /// Lists again because the watch to be resumed has missed changes; returns the pause before that.
    pub(super) fn missed(&mut self, unit_random: f64) -> Duration {
        self.start_over();
        PAUSES.delay(self.lists, unit_random)
    }

    /// Records that a request ended, or the watch that it opened and that reported changes for as long as
    /// `lasted`. Returns the pause before the next request.
    pub(super) fn end(&mut self, end: &End, lasted: Duration, unit_random: f64) -> Duration {
        let (streaming, told) = (self.is_streaming(), std::mem::take(&mut self.told));
        if lasted >= STEADY {
            self.failures = 0;
            self.lists = 0;
            self.early = 0;
        }
        match end {
            // A server that ignores the parameter never sends the end of the initial events.
            End::Closed if streaming => self.stream_has_no_end(),
            // Watches end every few minutes, behind some proxies every few seconds.
            End::Closed if lasted >= STEADY => return Duration::ZERO,
            End::Closed if told || lasted >= EARLY => return self.again(lasted),
            End::Closed => self.early = self.early.saturating_add(1),
            End::Broken if streaming => self.position = Position::Nothing,
            End::Broken => {}
            End::Refused(refusal) => {
                if streaming && matches!(refusal.code, 400 | 406 | 415 | 422) {
                    self.stream_has_no_end();
                    return Duration::ZERO;
                }
                if refusal.code == 403 {
                    self.forbidden();
                } else if streaming {
                    self.position = Position::Nothing;
                } else if self.has_begun() && refusal.needs_list() {
                    return self.relist(refusal, unit_random);
                }
            }
        }
        self.failures = self.failures.saturating_add(1);
        self.pause(end.asked(), unit_random)
    }

    /// Reopens a watch that the server closed gracefully, perhaps not for the last time.
    fn again(&mut self, lasted: Duration) -> Duration {
        self.failures = 0;
        let first = self.early == 0;
        self.early = self.early.saturating_add(1);
        if first {
            Duration::ZERO
        } else {
            EARLY.saturating_sub(lasted)
        }
    }

    /// Number of consecutive watches that the server closed early; `Some` only now and then, when it is
    /// worth a log line.
    pub(super) fn ends_early(&self) -> Option<u32> {
        Some(self.early).filter(|early| *early > 2 && early.is_power_of_two())
    }

    /// Lists again after an expired version or token. The server is back and tells the client what to do:
    /// keeping the pauses of the outage would leave the cache blind for longer. A server that refuses its
    /// own list's version is treated like one that fails.
    fn relist(&mut self, refusal: &Refusal, unit_random: f64) -> Duration {
        self.failures = 0;
        if self.is_paging() {
            // The server does not keep versions for as long as that many pages take.
            self.lists = self.lists.saturating_add(1);
            self.pages = match self.pages {
                Pages::Small => Pages::Large,
                Pages::Large | Pages::Whole => Pages::Whole,
            };
        }
        self.lists = self.lists.max(1);
        self.position = Position::Nothing;
        self.pause(refusal.retry_after, unit_random)
    }

    /// Switches between list and watch: they are granted separately, and either one suffices for some
    /// state, since a streamed list is a watch. A kind that cannot be watched is listed again and again.
    fn forbidden(&mut self) {
        self.streaming.paged = match self.position {
            // While the refusal may be temporary, a list would be too much.
            Position::At(_) if self.failures < FORBIDDEN => return,
            Position::Streaming | Position::At(_) => self.streaming.paged.max(1),
            Position::Nothing | Position::Paging { .. } => 0,
        };
        self.position = Position::Nothing;
    }

    /// The pause. A list without a lasting watch after it counts as much as a failed one.
    fn pause(&self, asked: Option<Duration>, unit_random: f64) -> Duration {
        let own = PAUSES.delay(self.failures.max(self.lists), unit_random);
        asked.map_or(own, |asked| own.max(asked.min(LONGEST_ASKED)))
    }

    /// Records that the streamed list ended, was refused or fell silent before its end marker: this list
    /// is read in pages.
    pub(super) fn stream_has_no_end(&mut self) {
        self.streaming.failed();
        self.position = Position::Nothing;
    }
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
    /// Whether the refusal lasts until somebody changes permissions or what the server serves.
    pub(super) fn lasts(&self) -> bool {
        matches!(self.code, 401 | 403 | 404 | 405)
    }

    /// Whether the version or the page token has expired.
    fn needs_list(&self) -> bool {
        self.code == 410
            || self.code == 400
            || self.version_too_large
            || matches!(self.reason.as_str(), "Gone" | "Expired")
    }
}

#[cfg(test)]
mod tests;
