//! Adapts the number of concurrent requests when no rate is set.
//!
//! Pure: additive increase while the server keeps up, multiplicative decrease when it refuses, and a pause
//! for as long as `Retry-After` says. A pause that the server demands for one object holds back requests
//! about that object; all other requests wait for seconds at most, since a webhook or a proxy may have
//! answered, until other objects are refused, too. There is no fixed rate, because only the server knows the
//! right one: it has priority and fairness, and answers 429 when a client's share is used up.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Initial limit: client-go's default burst.
const START: f64 = 10.0;

/// Maximum limit: without HTTP/2 every running request holds a TCP and TLS connection.
const MOST: f64 = 32.0;

/// Factor of the limit when the server refuses.
const CUT: f64 = 0.5;

/// The pause after the first refusal without `Retry-After`, and the longest pause without it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A server that demands a longer pause gets a request after this.
const LONGEST_ASKED: Duration = Duration::from_secs(300);

/// The longest pause of all requests because of one object.
const LONGEST_FOR_ONE: Duration = Duration::from_secs(5);

/// Refusals of several objects within this time count as the server's own.
const TOGETHER: Duration = Duration::from_secs(60);

/// Maximum number of remembered objects with a pause.
const BOUND: usize = 256;

/// The state of one lane.
#[derive(Clone, Debug)]
pub(super) struct Adaptive {
    limit: f64,
    running: u32,
    /// When the limit was last reached.
    full: Option<Instant>,
    resume: Option<Instant>,
    /// When the limit was last cut: refusals of older requests tell nothing new.
    cut: Option<Instant>,
    refusals: u32,
    /// The object and time of the last refusal.
    refused: Option<(Object, Instant)>,
    /// Objects with a pause that the server demanded, and its end.
    bound: HashMap<u64, Instant>,
}

/// The object of a request, identified by a hash; `None` for a new object, which equals no other.
pub(super) type Object = Option<u64>;

/// A running request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    started: Instant,
}

/// Why a request may not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Until another request ends.
    Slot,
    /// Until this time, which the server demanded.
    Until(Instant),
}

/// The conclusion from a response about the server's load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The server keeps up.
    Served,
    /// The server refused the request as one too many, perhaps with `Retry-After`.
    Refused(Option<Duration>),
    /// Nothing: the connection failed, or the caller gave up.
    Unknown,
}

impl Adaptive {
    pub(super) fn new() -> Self {
        Self {
            limit: START,
            running: 0,
            full: None,
            resume: None,
            cut: None,
            refusals: 0,
            refused: None,
            bound: HashMap::new(),
        }
    }

    /// Time until which requests about this object wait, without holding up others.
    pub(super) fn bound(&self, object: Object, now: Instant) -> Option<Instant> {
        let until = self.bound.get(&object?).copied();
        until.filter(|until| *until > now)
    }

    /// The current limit of concurrent requests.
    pub(super) fn limit(&self) -> f64 {
        self.limit
    }

    /// Starts a request if it may start now.
    pub(super) fn start(&mut self, now: Instant) -> Result<Ticket, Wait> {
        if let Some(resume) = self.resume.filter(|resume| *resume > now) {
            return Err(Wait::Until(resume));
        }
        self.resume = None;
        let after = f64::from(self.running) + 1.0;
        if after > self.limit {
            return Err(Wait::Slot);
        }
        self.running += 1;
        if after + 1.0 > self.limit {
            self.full = Some(now);
        }
        Ok(Ticket { started: now })
    }

    /// Ends a request. `unit_random` spreads the clients that were refused together.
    pub(super) fn end(
        &mut self,
        (ticket, object): (Ticket, Object),
        verdict: Verdict,
        now: Instant,
        unit_random: f64,
    ) {
        self.running = self.running.saturating_sub(1);
        match verdict {
            Verdict::Served => {
                self.refusals = 0;
                // Only a server that kept up with all allowed requests shows that more are possible.
                if self.full >= Some(ticket.started) {
                    self.limit = (self.limit + 1.0 / self.limit).min(MOST);
                }
            }
            Verdict::Refused(asked) => self.refused((ticket, object), asked, now, unit_random),
            Verdict::Unknown => {}
        }
    }

    fn refused(
        &mut self,
        (ticket, object): (Ticket, Object),
        asked: Option<Duration>,
        now: Instant,
        unit_random: f64,
    ) {
        let before = self.refused.replace((object, now));
        let before = before.filter(|(_, at)| now.saturating_duration_since(*at) < TOGETHER);
        let same = before.is_some_and(|(known, _)| known == object && known.is_some());
        let several = before.is_some() && !same;
        let news = self.cut.is_none_or(|cut| ticket.started >= cut);
        if news && !same {
            self.cut = Some(now);
            self.limit = (self.limit * CUT).max(1.0);
            self.refusals = self.refusals.saturating_add(1);
        }
        let doublings = self.refusals.saturating_sub(1).min(16);
        let own = FIRST_PAUSE
            .saturating_mul(1 << doublings)
            .min(LONGEST_PAUSE);
        // A server that demands a pause means it; the pause is prolonged only while it keeps refusing.
        let pause = match asked.map(|asked| asked.min(LONGEST_ASKED)) {
            Some(asked) if self.refusals <= 1 => asked,
            Some(asked) => asked.max(own),
            None => own,
        };
        let spread =
            |pause: Duration| now + pause + pause.mul_f64(unit_random.clamp(0.0, 1.0) / 4.0);
        self.bound.retain(|_, until| *until > now);
        if let Some(object) = object.filter(|_| self.bound.len() < BOUND) {
            self.bound.insert(object, spread(pause));
        }
        let resume = spread(if several {
            pause
        } else {
            pause.min(LONGEST_FOR_ONE)
        });
        self.resume = self.resume.max(Some(resume));
    }
}

#[cfg(test)]
mod tests;
