//! Schedules queries about single volumes: each volume once per interval, evenly spaced, with limits on concurrent
//! queries and queries per second.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use super::Settings;
use super::volumes::Volumes;
use crate::model::Text;

const SECOND: Duration = Duration::from_secs(1);

/// The schedule; see the module.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// Volumes not yet queried in this round.
    round: VecDeque<Text>,
    /// New volumes, which this round queries too, in order of arrival.
    fresh: VecDeque<Text>,
    /// The same volumes, for lookups.
    is_fresh: HashSet<Text>,
    /// Whether the last query was about a new volume.
    was_fresh: bool,
    /// Start of the round; `None` before the first.
    began: Option<Instant>,
    /// Time of the last query.
    last: Option<Instant>,
    /// Whether it was reported that rounds take longer than the interval.
    slow: bool,
}

/// The decision for this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The volume to query.
    pub ask: Option<Text>,
    /// Time until the next decision.
    pub wait: Duration,
    /// Duration of the round that has just ended.
    pub ended: Option<Duration>,
    /// Length of a round, if it exceeds the interval and this was not reported yet.
    pub slow: Option<Duration>,
}

impl Pace {
    /// A volume or its claim is new. It is queried before those of the round, which however get at least every second
    /// turn.
    pub fn fresh(&mut self, handle: &Text) {
        // The first round starts with all volumes, so none of them counts as new.
        if self.began.is_some() && self.is_fresh.insert(handle.clone()) {
            self.fresh.push_back(handle.clone());
        }
    }

    /// The next query. `busy`: number of unanswered queries; `may`: whether a volume may be queried.
    pub fn turn(
        &mut self,
        now: Instant,
        settings: &Settings,
        busy: usize,
        volumes: &Volumes,
        may: impl Fn(&Text) -> bool,
    ) -> Turn {
        let mut turn = Turn {
            ask: None,
            wait: Duration::ZERO,
            ended: None,
            slow: None,
        };
        let least = least(settings);
        if self.until_due(now, settings, volumes).is_zero() && busy < settings.workers {
            if self.round.is_empty() && self.until_end(now, settings).is_zero() {
                turn.ended = self.began.map(|began| now.duration_since(began));
                turn.slow = self.begin(now, settings, volumes.handles());
            }
            turn.ask = self.take(may);
        }
        if turn.ask.is_some() {
            self.last = Some(now);
        }
        let left = !self.round.is_empty() || !self.fresh.is_empty();
        turn.wait = match self.until_due(now, settings, volumes) {
            due if left && !due.is_zero() => due,
            // The limit of concurrent queries is reached.
            _ if left => least,
            due => due.max(self.until_end(now, settings)).max(least),
        };
        turn
    }

    /// Time until the next query. Spreads the rest of the round over the rest of the interval, whether volumes were
    /// added or answers are late.
    fn until_due(&self, now: Instant, settings: &Settings, volumes: &Volumes) -> Duration {
        let Some(last) = self.last else {
            return Duration::ZERO;
        };
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).max(1);
        let even = settings.interval / count(volumes.len());
        let rest = self.until_end(last, settings);
        // One more, so that the last query is followed by a pause as well.
        let left = rest / count(self.round.len() + self.fresh.len() + 1);
        let spacing = even.min(left).max(least(settings));
        (last + spacing).saturating_duration_since(now)
    }

    fn until_end(&self, now: Instant, settings: &Settings) -> Duration {
        let end = self.began.map(|began| began + settings.interval);
        end.map_or(Duration::ZERO, |end| end.saturating_duration_since(now))
    }

    /// Begins a round. Returns its length if that has to be reported.
    fn begin(&mut self, now: Instant, settings: &Settings, all: Vec<Text>) -> Option<Duration> {
        let count = u32::try_from(all.len()).unwrap_or(u32::MAX);
        let fresh = &self.is_fresh;
        self.round = all.into();
        self.round.retain(|handle| !fresh.contains(handle));
        self.began = Some(now);
        let length = least(settings).saturating_mul(count);
        let slow = length > settings.interval && count > 1;
        let said = std::mem::replace(&mut self.slow, slow);
        (slow && !said).then_some(length)
    }

    /// The next volume to query. New volumes get at most every second turn, so that the round advances however many
    /// there are.
    fn take(&mut self, may: impl Fn(&Text) -> bool) -> Option<Text> {
        let first = !self.was_fresh;
        for fresh in [first, !first] {
            while let Some(handle) = self.pop(fresh) {
                if may(&handle) {
                    self.was_fresh = fresh;
                    return Some(handle);
                }
            }
        }
        None
    }

    fn pop(&mut self, fresh: bool) -> Option<Text> {
        if !fresh {
            return self.round.pop_front();
        }
        let handle = self.fresh.pop_front()?;
        self.is_fresh.remove(&handle);
        Some(handle)
    }
}

/// Shortest time between two queries.
fn least(settings: &Settings) -> Duration {
    SECOND / u32::try_from(settings.workers).unwrap_or(u32::MAX).max(1)
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

    fn volumes(count: usize) -> Volumes {
        let mut volumes = Volumes::default();
        for handle in all(count) {
            volumes.add(&handle, &handle);
        }
        volumes
    }

    /// Times in seconds at which volumes are queried, until `end`; answers take no time. Calls `comes` for each whole
    /// second; it returns the volumes to add.
    fn asked_while(
        pace: &mut Pace,
        volumes: &mut Volumes,
        settings: &Settings,
        end: u64,
        mut comes: impl FnMut(u64) -> Vec<Text>,
    ) -> Vec<(f64, Text)> {
        let (start, mut at, mut asked, mut second) =
            (Instant::now(), Duration::ZERO, Vec::new(), 0);
        while at < Duration::from_secs(end) {
            let turn = pace.turn(start + at, settings, 0, volumes, |_| true);
            asked.extend(turn.ask.map(|handle| (at.as_secs_f64(), handle)));
            assert!(!turn.wait.is_zero());
            let next = at + turn.wait;
            // A new volume makes the cycle due.
            let new = if next >= Duration::from_secs(second) {
                second += 1;
                comes(second - 1)
            } else {
                Vec::new()
            };
            at = match new.is_empty() {
                true => next.min(Duration::from_secs(second).max(at + Duration::from_nanos(1))),
                false => at.max(Duration::from_secs(second - 1)),
            };
            for handle in new {
                volumes.add(&handle, &handle);
                pace.fresh(&handle);
            }
        }
        asked
    }

    fn asked(count: usize, settings: &Settings, end: u64) -> Vec<(f64, Text)> {
        let (mut pace, mut volumes) = (Pace::default(), volumes(count));
        asked_while(&mut pace, &mut volumes, settings, end, |_| Vec::new())
    }

    #[test]
    fn h_52_each_volume_once_in_an_interval_and_evenly() {
        let asked = asked(100, &settings(60, 10), 240);
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
        let settings = settings(60, 10);
        let asked = asked(3000, &settings, 300);
        assert!((2990..=3001).contains(&asked.len()), "{}", asked.len());
        for pair in asked.windows(11) {
            assert!(pair[10].0 - pair[0].0 > 0.99, "{pair:?}");
        }
        let mut pace = Pace::default();
        let turn = pace.turn(Instant::now(), &settings, 0, &volumes(3000), |_| true);
        assert_eq!(turn.slow, Some(Duration::from_secs(300)));
    }

    #[test]
    fn h_55_who_waits_for_answers_asks_no_more_than_workers() {
        let (mut pace, settings, volumes) = (Pace::default(), settings(60, 2), volumes(60));
        let start = Instant::now();
        let mut turn = |at, busy| {
            let at = start + Duration::from_secs(at);
            pace.turn(at, &settings, busy, &volumes, |_| true)
        };
        assert!(turn(0, 0).ask.is_some());
        assert!(turn(1, 1).ask.is_some());
        let full = turn(2, 2);
        assert_eq!((full.ask, full.wait), (None, Duration::from_millis(500)));
        assert!(turn(30, 1).ask.is_some());
        let next = turn(30, 1);
        assert_eq!(next.ask, None, "no burst");
        assert!(next.wait >= Duration::from_millis(500), "no burst");
    }

    #[test]
    fn h_57_a_volume_that_is_bound_is_asked_about_next() {
        let (mut pace, settings, volumes) = (Pace::default(), settings(60, 10), volumes(10));
        let start = Instant::now();
        let fresh = Text::from("fresh");
        pace.fresh(&fresh);
        pace.turn(start, &settings, 0, &volumes, |_| true);
        pace.fresh(&fresh);
        pace.fresh(&fresh);
        let next = |pace: &mut Pace, at| {
            let at = start + Duration::from_secs(at);
            pace.turn(at, &settings, 0, &volumes, |_| true).ask
        };
        assert_eq!(next(&mut pace, 6), Some(fresh));
        assert_eq!(next(&mut pace, 12), Some("h00001".into()));
    }

    #[test]
    fn h_57_a_hundred_that_come_at_once_are_asked_about_within_an_interval() {
        for before in [0, 1, 10] {
            let (mut pace, settings, mut volumes) =
                (Pace::default(), settings(60, 10), volumes(before));
            let new: Vec<Text> = (0..100).map(|n| format!("new{n:03}").into()).collect();
            let comes = |second| if second == 5 { new.clone() } else { Vec::new() };
            let asked = asked_while(&mut pace, &mut volumes, &settings, 200, comes);
            let fresh = asked.iter().filter(|(_, handle)| handle.starts_with("new"));
            let first: Vec<&Text> = fresh.clone().take(100).map(|(_, handle)| handle).collect();
            assert!(
                first.into_iter().eq(&new),
                "{before}: in the order in which they came"
            );
            let last = fresh.take(100).map(|(at, _)| *at).last();
            assert!(last.is_some_and(|at| at <= 65.0), "{before}: {last:?}");
            for pair in asked.windows(11) {
                assert!(pair[10].0 - pair[0].0 > 0.99, "{before}: {pair:?}");
            }
        }
    }

    #[test]
    fn h_57_volumes_that_keep_coming_hold_up_no_others() {
        // (initial volumes, new volumes per second, workers, longest gap): 20 volumes per minute, then more than can be
        // queried.
        for (old, per_second, workers, longest) in [(10, 1, 10, 66.0), (10, 3, 2, 120.0)] {
            let (mut pace, settings, mut volumes) =
                (Pace::default(), settings(60, workers), volumes(old));
            let comes = |second: u64| -> Vec<Text> {
                let new = |n| Text::from(format!("new{:06}", second * 10 + n));
                (0..per_second).map(new).collect()
            };
            let asked = asked_while(&mut pace, &mut volumes, &settings, 180, comes);
            let mut last = 0.0;
            for (at, _) in asked.iter().filter(|(_, handle)| &**handle == "h00003") {
                assert!(at - last <= longest, "{old} {per_second}: {last} to {at}");
                last = *at;
            }
            assert!(180.0 - last <= longest, "{old} {per_second}: {last}");
        }
    }

    #[test]
    fn without_volumes_it_looks_once_in_an_interval_and_at_once_for_a_new_one() {
        let (mut pace, settings, none) = (Pace::default(), settings(60, 10), Volumes::default());
        let start = Instant::now();
        let turn = pace.turn(start, &settings, 0, &none, |_| true);
        assert_eq!((turn.ask, turn.wait), (None, settings.interval));
        pace.fresh(&"fresh".into());
        let turn = pace.turn(start + SECOND, &settings, 0, &none, |_| true);
        assert_eq!(turn.ask, Some("fresh".into()));
        assert!(turn.wait <= settings.interval);
    }

    #[test]
    fn who_waits_out_a_failure_is_passed_over() {
        let (mut pace, settings) = (Pace::default(), settings(60, 10));
        let may = |handle: &Text| **handle != *"h00000";
        let turn = pace.turn(Instant::now(), &settings, 0, &volumes(3), may);
        assert_eq!(turn.ask, Some("h00001".into()));
    }
}
