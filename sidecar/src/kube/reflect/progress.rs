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
    pages: Pages,
    /// Requests that failed since a watch last told of something or held.
    failures: u32,
    /// Lists since a watch last held, complete or given up for a token that had expired. Apart from the
    /// failures, because a server may take each of them, and the watch that follows for a moment.
    lists: u32,
    /// Watches in a row that the server ended in good order before they had held.
    early: u32,
    /// Whether the watch that is open has brought an object.
    told: bool,
}

/// How many objects a page may have. A page is held as text while it is read, so that they are small as
/// long as the server keeps a list's version for the time that its pages take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pages {
    Small,
    Large,
    Whole,
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

/// A watch that ends in good order is opened again at once, but once in this time if that repeats.
const EARLY: Duration = Duration::from_secs(1);

/// Failures after which a watch that is forbidden is taken for one that is not granted.
const FORBIDDEN: u32 = 5;

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
            pages: Pages::Small,
            failures: 0,
            lists: 0,
            early: 0,
            told: false,
        }
    }

    /// How many objects the next page of a list may have; `None` is all.
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

    /// A page came. If it was the last one, the version of the list.
    pub(super) fn page(&mut self, version: String, token: Option<String>) -> Option<&str> {
        // The list is as of the first page's version, whatever a later page says.
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

    /// The watch brought an object with this version.
    pub(super) fn object(&mut self, version: &str) {
        self.told = true;
        self.event(version);
    }

    /// The watch brought an object or a bookmark with this version.
    pub(super) fn event(&mut self, version: &str) {
        if let Position::At(known) = &mut self.position {
            self.failures = 0;
            if !version.is_empty() {
                version.clone_into(known);
            }
        }
    }

    /// The watch said that all objects that existed have been sent. Whether that is news.
    pub(super) fn initial_events_end(&mut self, version: &str) -> bool {
        if self.position != Position::Streaming || version.is_empty() {
            return false;
        }
        self.position = Position::At(version.to_owned());
        self.streaming.failures = 0;
        self.lists = self.lists.saturating_add(1);
        true
    }

    /// Whether the objects that exist are being streamed and their end has not come.
    pub(super) fn is_streaming(&self) -> bool {
        self.position == Position::Streaming
    }

    /// Whether there is a version or a token that may be of no use any more.
    fn has_begun(&self) -> bool {
        matches!(self.position, Position::Paging { .. } | Position::At(_))
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

    /// The same, since the watch that would go on has missed something; how long to wait before.
    pub(super) fn missed(&mut self, unit_random: f64) -> Duration {
        self.start_over();
        PAUSES.delay(self.lists, unit_random)
    }

    /// A request ended, or the watch that it opened and that told of changes for as long as `lasted`;
    /// how long to wait before the next.
    pub(super) fn end(&mut self, end: &End, lasted: Duration, unit_random: f64) -> Duration {
        let (streaming, told) = (self.is_streaming(), std::mem::take(&mut self.told));
        if lasted >= STEADY {
            self.failures = 0;
            self.lists = 0;
            self.early = 0;
        }
        match end {
            // A server that ignores the parameter never says that the initial events are over.
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

    /// The server has ended the watch in good order and may do so each time.
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

    /// Watches in a row that the server has ended before they had held: now and then, if that is worth a
    /// line in the log.
    pub(super) fn ends_early(&self) -> Option<u32> {
        Some(self.early).filter(|early| *early > 2 && early.is_power_of_two())
    }

    /// The server is back and says what to do: the pauses of the outage that made the version expire
    /// would leave the cache blind for longer. One that refuses what its own list said is no better
    /// than one that fails.
    fn relist(&mut self, refusal: &Refusal, unit_random: f64) -> Duration {
        self.failures = 0;
        if self.is_paging() {
            // It does not keep versions for as long as that many pages take.
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

    /// `list` and `watch` are granted apart, and either is enough to know something: a streamed list is a
    /// watch. What cannot be watched is listed again and again.
    fn forbidden(&mut self) {
        self.streaming.paged = match self.position {
            // As long as this may pass, a list would be too much.
            Position::At(_) if self.failures < FORBIDDEN => return,
            Position::Streaming | Position::At(_) => self.streaming.paged.max(1),
            Position::Nothing | Position::Paging { .. } => 0,
        };
        self.position = Position::Nothing;
    }

    /// A list that is followed by no watch that holds is as much of a failure as one that fails.
    fn pause(&self, asked: Option<Duration>, unit_random: f64) -> Duration {
        let own = PAUSES.delay(self.failures.max(self.lists), unit_random);
        asked.map_or(own, |asked| own.max(asked.min(LONGEST_ASKED)))
    }

    /// The streamed list ended, was refused or fell silent before its end: this list is read in
    /// pages.
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
    /// Whether it stays as long as nobody mends something: permissions, or what the server serves.
    pub(super) fn lasts(&self) -> bool {
        matches!(self.code, 401 | 403 | 404 | 405)
    }

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
