//! Estimates the offset of the API server's clock from this machine's, by the header `Date` of responses.
//!
//! Objects carry the API server's times, so their age must be computed with the same clock.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use http::header::DATE;
use jiff::{SignedDuration, Timestamp};
use prometheus::Gauge;

use crate::metrics::{RegisterError, Registry};

/// `Date` has a resolution of one second.
const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// Slower responses say little about the clock: the server may have dated them at any moment meanwhile.
const PROMPT: SignedDuration = SignedDuration::from_secs(1);

/// The estimated offset of the API server's clock; clones share it.
#[derive(Clone, Debug, Default)]
pub struct ClockSkew {
    bounds: Arc<Mutex<Option<Bounds>>>,
    shown: Option<Gauge>,
}

/// Bounds of how far the other clock is ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    least: SignedDuration,
    most: SignedDuration,
}

impl ClockSkew {
    /// Adds `csi_sidecar_clock_skew_seconds` to `registry`.
    ///
    /// # Errors
    /// The registry has it already.
    pub(super) fn new(registry: &Registry) -> Result<Self, RegisterError> {
        let gauge = Gauge::new(
            "csi_sidecar_clock_skew_seconds",
            "[ALPHA] By how much the API server's clock is ahead of this machine's; negative if it is behind.",
        )?;
        registry.register(Box::new(gauge.clone()))?;
        Ok(Self {
            shown: Some(gauge),
            ..Self::default()
        })
    }

    /// The current time by the API server's clock, as far as it is known.
    pub fn now(&self) -> Timestamp {
        let bounds = *self.bounds.lock().unwrap_or_else(PoisonError::into_inner);
        let skew = bounds.map_or(SignedDuration::ZERO, Bounds::skew);
        let now = Timestamp::now();
        now.checked_add(skew).unwrap_or(now)
    }

    /// Learns from the headers of a response that arrived `after` this long.
    pub(super) fn answered(&self, headers: &HeaderMap, after: Duration) {
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        let Some(date) = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok()) else {
            return;
        };
        let after = SignedDuration::try_from(after).unwrap_or(SignedDuration::MAX);
        self.seen(date.timestamp(), Timestamp::now(), after);
    }

    fn seen(&self, date: Timestamp, received: Timestamp, after: SignedDuration) {
        if after > PROMPT {
            return;
        }
        let least = date.duration_since(received);
        let new = Bounds {
            least,
            most: least.saturating_add(SECOND).saturating_add(after),
        };
        let mut bounds = self.bounds.lock().unwrap_or_else(PoisonError::into_inner);
        let both = bounds.and_then(|known| known.and(new)).unwrap_or(new);
        *bounds = Some(both);
        if let Some(gauge) = &self.shown {
            gauge.set(both.skew().as_secs_f64());
        }
    }
}

impl Bounds {
    /// The intersection; `None` if one of the clocks was set in between.
    fn and(self, other: Self) -> Option<Self> {
        let least = self.least.max(other.least);
        let most = self.most.min(other.most);
        (least <= most).then_some(Self { least, most })
    }

    /// The estimated offset, zero if the bounds allow it.
    fn skew(self) -> SignedDuration {
        if !self.least.is_positive() && !self.most.is_negative() {
            return SignedDuration::ZERO;
        }
        let half = self.most.saturating_sub(self.least) / 2;
        self.least.saturating_add(half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(1_800_000_000_000 + millis).unwrap()
    }

    fn shown(registry: &Registry) -> f64 {
        let text = registry.render();
        let line =
            { text.lines() }.find_map(|line| line.strip_prefix("csi_sidecar_clock_skew_seconds "));
        line.unwrap().parse().unwrap()
    }

    /// Feeds responses to requests of `took` milliseconds, from a server whose clock is ahead by `skew`.
    fn answers(clock: &ClockSkew, skew: i64, took: i64) {
        for received in (0..40).map(|number| number * 1370) {
            let server = received + skew;
            let date = server - server.rem_euclid(1000);
            clock.seen(at(date), at(received), SignedDuration::from_millis(took));
        }
    }

    #[test]
    fn o_91_the_gauge_follows_the_api_servers_clock() {
        for (skew, took, expected) in [
            (0, 5, 0.0),
            (300, 400, 0.3),
            (30_000, 5, 30.0),
            (-30_000, 5, -30.0),
            (30_000, 600, 30.0),
        ] {
            let registry = Registry::new();
            let clock = ClockSkew::new(&registry).unwrap();
            answers(&clock, skew, took);
            let shown = shown(&registry);
            assert!((shown - expected).abs() <= 0.35, "{skew}, {took}: {shown}");
            // The clock was set: earlier bounds no longer hold.
            answers(&clock, skew + 90_000, took);
            let shown = self::shown(&registry);
            assert!((shown - expected - 90.0).abs() <= 0.35, "{skew}: {shown}");
            let now = clock.now().duration_since(Timestamp::now()).as_secs_f64();
            assert!((now - shown).abs() < 1.0, "{now}");
        }
    }

    #[test]
    fn o_91_slow_answers_and_answers_without_a_date_say_nothing() {
        let registry = Registry::new();
        let clock = ClockSkew::new(&registry).unwrap();
        clock.seen(at(90_000), at(0), SignedDuration::from_millis(1001));
        clock.answered(&HeaderMap::new(), Duration::ZERO);
        let mut headers = HeaderMap::new();
        headers.insert(DATE, "soon".parse().unwrap());
        clock.answered(&headers, Duration::ZERO);
        assert!(shown(&registry).abs() < f64::EPSILON);
        headers.insert(DATE, "Sun, 06 Nov 1994 08:49:37 GMT".parse().unwrap());
        clock.answered(&headers, Duration::ZERO);
        assert!(shown(&registry) < -900_000_000.0);
    }
}
