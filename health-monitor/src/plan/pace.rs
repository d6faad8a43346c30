//! When which volume is asked about, one by one: each once in an interval, evenly, and never more than so many at the
//! same time and in a second.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Settings;
use crate::model::Text;

const SECOND: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug, Default)]
pub struct Pace {
    /// Volumes that this round has not come to.
    round: VecDeque<Text>,
    /// When it began; `None` before the first.
    began: Option<Instant>,
    /// Between two questions of it.
    spacing: Duration,
    /// When the next question is due.
    next: Option<Instant>,
    /// It was said that rounds take longer than the interval.
    slow: bool,
}

/// What is to be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The volume that is asked about.
    pub ask: Option<Text>,
    /// When to look again.
    pub wait: Duration,
    /// How long the round took that has ended.
    pub ended: Option<Duration>,
    /// Rounds take this long, which is longer than the interval and was not said.
    pub slow: Option<Duration>,
}

impl Pace {
    /// A volume is new, or its claim is. It is asked about first.
    pub fn fresh(&mut self, handle: &Text) {
        // What the first round begins with is fresh as a whole.
        if self.began.is_some() && self.round.front() != Some(handle) {
            self.round.push_front(handle.clone());
        }
    }

    /// The next question. `busy`: so many have not been answered; `all`: the volumes of a round that begins; `may`:
    /// whether a volume is to be asked about.
    pub fn turn(
        &mut self,
        now: Instant,
        settings: &Settings,
        busy: usize,
        all: impl FnOnce() -> Vec<Text>,
        may: impl Fn(&Text) -> bool,
    ) -> Turn {
        let mut turn = Turn {
            ask: None,
            wait: Duration::ZERO,
            ended: None,
            slow: None,
        };
        let due = self.next.is_none_or(|next| next <= now);
        if due && busy < settings.workers {
            if self.round.is_empty() && self.has_ended(now, settings) {
                turn.ended = self.began.map(|began| now.duration_since(began));
                turn.slow = self.begin(now, settings, all());
            }
            turn.ask = self.take(may);
        }
        if turn.ask.is_some() {
            self.asked(now, settings);
        }
        let least = SECOND / u32::try_from(settings.workers).unwrap_or(u32::MAX).max(1);
        let end = self.began.map(|began| began + settings.interval);
        turn.wait = match self.next.filter(|next| *next > now) {
            Some(next) if !self.round.is_empty() => next - now,
            // Nothing is left of this round.
            _ if self.round.is_empty() => {
                let end = end.into_iter().chain(self.next).max().unwrap_or(now);
                end.saturating_duration_since(now).max(least)
            }
            _ => least,
        };
        turn
    }

    fn has_ended(&self, now: Instant, settings: &Settings) -> bool {
        self.began
            .is_none_or(|began| now >= began + settings.interval)
    }

    /// How long the round takes, if that is to be said.
    fn begin(&mut self, now: Instant, settings: &Settings, all: Vec<Text>) -> Option<Duration> {
        self.round = all.into();
        self.began = Some(now);
        let count = u32::try_from(self.round.len()).unwrap_or(u32::MAX).max(1);
        let workers = u32::try_from(settings.workers).unwrap_or(u32::MAX).max(1);
        self.spacing = (settings.interval / count).max(SECOND / workers);
        let length = self.spacing.saturating_mul(count);
        let slow = length > settings.interval && self.round.len() > 1;
        let said = std::mem::replace(&mut self.slow, slow);
        (slow && !said).then_some(length)
    }

    fn take(&mut self, may: impl Fn(&Text) -> bool) -> Option<Text> {
        while let Some(handle) = self.round.pop_front() {
            if may(&handle) {
                return Some(handle);
            }
        }
        None
    }

    /// Late questions are not made up for with a burst.
    fn asked(&mut self, now: Instant, settings: &Settings) {
        let least = SECOND / u32::try_from(settings.workers).unwrap_or(u32::MAX).max(1);
        let planned = self.next.unwrap_or(now) + self.spacing;
        self.next = Some(planned.max(now + least.min(self.spacing)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(interval: u64, workers: usize) -> Settings {
        Settings {
            interval: Duration::from_secs(interval),
            list_interval: Duration::from_secs(300),
            workers,
        }
    }

    fn all(count: usize) -> Vec<Text> {
        (0..count).map(|n| Text::from(format!("h{n:05}"))).collect()
    }

    /// Seconds at which volumes are asked about, until `end`; each answer takes no time.
    fn asked(pace: &mut Pace, count: usize, settings: &Settings, end: u64) -> Vec<(f64, Text)> {
        let (start, mut at, mut asked) = (Instant::now(), Duration::ZERO, Vec::new());
        while at < Duration::from_secs(end) {
            let turn = pace.turn(start + at, settings, 0, || all(count), |_| true);
            asked.extend(turn.ask.map(|handle| (at.as_secs_f64(), handle)));
            assert!(!turn.wait.is_zero());
            at += turn.wait;
        }
        asked
    }

    #[test]
    fn h_52_each_volume_once_in_an_interval_and_evenly() {
        let asked = asked(&mut Pace::default(), 100, &settings(60, 10), 240);
        assert_eq!(asked.len(), 400);
        for round in asked.chunks(100) {
            let mut handles: Vec<Text> = round.iter().map(|(_, handle)| handle.clone()).collect();
            handles.sort_unstable();
            assert_eq!(handles, all(100));
        }
        for pair in asked.windows(2) {
            let apart = pair[1].0 - pair[0].0;
            assert!((0.59..0.61).contains(&apart), "{apart}");
        }
    }

    #[test]
    fn h_53_never_more_in_a_second_than_workers() {
        let (mut pace, settings) = (Pace::default(), settings(60, 10));
        let asked = asked(&mut pace, 3000, &settings, 300);
        assert!((2990..=3001).contains(&asked.len()), "{}", asked.len());
        for pair in asked.windows(11) {
            assert!(pair[10].0 - pair[0].0 > 0.99, "{pair:?}");
        }
        let mut pace = Pace::default();
        let turn = pace.turn(Instant::now(), &settings, 0, || all(3000), |_| true);
        assert_eq!(turn.slow, Some(Duration::from_secs(300)));
    }

    #[test]
    fn h_55_who_waits_for_answers_asks_no_more_than_workers() {
        let (mut pace, settings) = (Pace::default(), settings(60, 2));
        let start = Instant::now();
        let mut turn = |at, busy| {
            pace.turn(
                start + Duration::from_secs(at),
                &settings,
                busy,
                || all(60),
                |_| true,
            )
        };
        assert!(turn(0, 0).ask.is_some());
        assert!(turn(1, 1).ask.is_some());
        let full = turn(2, 2);
        assert_eq!((full.ask, full.wait), (None, Duration::from_millis(500)));
        assert!(turn(30, 1).ask.is_some());
        let next = turn(30, 1);
        assert_eq!(
            (next.ask, next.wait),
            (None, Duration::from_millis(500)),
            "no burst"
        );
    }

    #[test]
    fn h_57_a_volume_that_is_bound_is_asked_about_next() {
        let (mut pace, settings) = (Pace::default(), settings(60, 10));
        let start = Instant::now();
        let fresh = Text::from("fresh");
        pace.fresh(&fresh);
        pace.turn(start, &settings, 0, || all(10), |_| true);
        pace.fresh(&fresh);
        pace.fresh(&fresh);
        let next = |pace: &mut Pace, at| {
            pace.turn(
                start + Duration::from_secs(at),
                &settings,
                0,
                || all(10),
                |_| true,
            )
            .ask
        };
        assert_eq!(next(&mut pace, 6), Some(fresh));
        assert_eq!(next(&mut pace, 12), Some("h00001".into()));
    }

    #[test]
    fn without_volumes_it_looks_once_in_an_interval_and_at_once_for_a_new_one() {
        let (mut pace, settings) = (Pace::default(), settings(60, 10));
        let start = Instant::now();
        let turn = pace.turn(start, &settings, 0, Vec::new, |_| true);
        assert_eq!((turn.ask, turn.wait), (None, settings.interval));
        pace.fresh(&"fresh".into());
        let turn = pace.turn(start + SECOND, &settings, 0, Vec::new, |_| true);
        assert_eq!(turn.ask, Some("fresh".into()));
        assert!(turn.wait <= settings.interval);
    }

    #[test]
    fn who_waits_out_a_failure_is_passed_over() {
        let (mut pace, settings) = (Pace::default(), settings(60, 10));
        let turn = pace.turn(
            Instant::now(),
            &settings,
            0,
            || all(3),
            |handle| **handle != *"h00000",
        );
        assert_eq!(turn.ask, Some("h00001".into()));
    }
}
