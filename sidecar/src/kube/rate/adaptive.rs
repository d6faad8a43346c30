//! How many requests may run at once when no rate was asked for.
//!
//! Pure: additive increase while the server keeps up, multiplicative decrease when it refuses, and a
//! pause for as long as it asks. What it asks for one object binds requests about that object; everything
//! else waits for seconds at most, since it may be a webhook or a proxy that speaks, until other objects are
//! refused, too. There is no fixed rate, because the right one is known to the
//! server alone: it has priority and fairness, and says 429 when a client's share is used up.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Where the limit starts: client-go's default burst.
const START: f64 = 10.0;

/// To a server without HTTP/2 every running request holds a TCP and TLS connection.
const MOST: f64 = 32.0;

/// What the limit is multiplied by when the server refuses.
const CUT: f64 = 0.5;

/// The pause after the first refusal that does not say how long, and the longest of its own accord.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A server that asks for more is asked again after this.
const LONGEST_ASKED: Duration = Duration::from_secs(300);

/// The longest pause for all because of one object.
const LONGEST_FOR_ONE: Duration = Duration::from_secs(5);

/// Refusals of several objects within this time are the server's.
const TOGETHER: Duration = Duration::from_secs(60);

/// So many objects that are to be left alone are remembered.
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
    /// What was refused last.
    refused: Option<(Object, Instant)>,
    /// Objects that the server wants to be left alone, and until when.
    bound: HashMap<u64, Instant>,
}

/// What a request is about, told apart by a number; `None` for a new object, which is like no other.
pub(super) type Object = Option<u64>;

/// A running request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    started: Instant,
}

/// Why a request may not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Until another one ends.
    Slot,
    /// The server wants to be left alone until then.
    Until(Instant),
}

/// What an answer says about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It keeps up.
    Served,
    /// It refused the request as one too many, and may have said for how long.
    Refused(Option<Duration>),
    /// Nothing: the connection failed, or the caller lost interest.
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

    /// Until when requests about this object are to wait, without keeping others from their turn.
    pub(super) fn bound(&self, object: Object, now: Instant) -> Option<Instant> {
        let until = self.bound.get(&object?).copied();
        until.filter(|until| *until > now)
    }

    /// How many requests may run at once.
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
                // Only a server that kept up with all that was allowed says that more is possible.
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
        // A server that names a time means it; it is exceeded only while it keeps refusing.
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
