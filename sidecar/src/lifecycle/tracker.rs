//! Tracks open stages and computes a sample when one ends. Pure.
//!
//! The tracker forgets ended stages. The first lists show stages that ended while no process led: they count if
//! an object has a timestamp of the end, later than the previous leader's last renewal of its lease.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};

use super::names::Names;
use super::stage::{End, Id, Progress, Since, Stage, Step};
use crate::text::Text;

/// Longest delay in seconds between the two objects of a stage.
const LAG: u32 = 600;

/// The measurement of an ended stage.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) stage: Stage,
    /// How long users waited; `None` if the beginning is unknown.
    pub(super) seconds: Option<f64>,
    pub(super) class: Text,
    /// The driver, for a controller that serves several, if it is known.
    pub(super) driver: Option<Text>,
}

/// The open objects of a stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Waiting {
    pub(super) count: usize,
    /// Age in seconds of the oldest on which this program or its driver has to act.
    pub(super) oldest: f64,
}

/// The open stages of a controller.
pub(super) struct Tracker {
    /// Earlier leaders counted ends up to this time.
    counted: Timestamp,
    /// The first lists are complete.
    is_listed: bool,
    open: HashMap<(Stage, Id), Entry>,
    drivers: Names,
    /// Until the first lists are complete: stages that ended after `counted` and whose beginning is not known yet.
    ended: HashMap<(Stage, Id), Ended>,
    /// Until the first lists are complete: beginnings of stages that their objects are past.
    begun: Vec<(Stage, Id, u32)>,
}

#[derive(Clone, Copy)]
struct Entry {
    /// In seconds since 1970; 0 if unknown.
    since: u32,
    /// When this process first saw the state, in seconds since 1970.
    met: u32,
    /// The driver's number, if it is known.
    driver: Option<u8>,
    /// Whether the stage began with the selection of a node.
    is_chosen: bool,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// This program or its driver has to act.
    Moves,
    /// Users, the scheduler or a node have to act.
    Waits,
    /// The object is past the stage; the object that shows its end is behind.
    Passed,
    /// Counted; the object may show the stage as open for a while.
    Counted,
    /// Counted, and the object is past the stage. Until the first lists are complete, both objects may show it again.
    Over,
}

struct Ended {
    at: Timestamp,
    class: Text,
    driver: Option<Text>,
}

impl Tracker {
    pub(super) fn new(counted: Timestamp) -> Self {
        Self {
            counted,
            is_listed: false,
            open: HashMap::new(),
            drivers: Names::default(),
            ended: HashMap::new(),
            begun: Vec::new(),
        }
    }

    pub(super) fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// Handles the progress that an object shows; `now` is by the API server's clock.
    pub(super) fn take(&mut self, step: Step<'_>, now: Timestamp) -> Option<Sample> {
        let key = (step.stage, step.object);
        match step.progress {
            Progress::Open { since, moves } => self.opened(key, since, moves, step.driver, now),
            Progress::Begun(since) => self.begun(key, since, now),
            Progress::Passed => {
                self.passed(key, now);
                None
            }
            Progress::Done { at, end } => self.done(step, at, end, now),
            Progress::Dropped => {
                self.forget(step.stage, step.object);
                None
            }
        }
    }

    pub(super) fn forget(&mut self, stage: Stage, object: Id) {
        self.open.remove(&(stage, object));
        self.ended.remove(&(stage, object));
    }

    fn opened(
        &mut self,
        key: (Stage, Id),
        since: Since,
        moves: bool,
        driver: Option<Text>,
        now: Timestamp,
    ) -> Option<Sample> {
        let driver = driver.map(|driver| self.drivers.number(&driver));
        let is_chosen = since == Since::Chosen;
        let since = match since {
            Since::At(since) => since,
            Since::Seen | Since::Chosen if self.is_listed => second(now),
            Since::Seen | Since::Chosen => 0,
        };
        if let Some(entry) = self.open.get_mut(&key) {
            entry.driver = driver.or(entry.driver);
            if !entry.state.is_counted() {
                // The scheduler undid the selection of a node.
                let waits = entry.is_chosen && !is_chosen;
                entry.state = State::of(moves && !waits);
            }
            if is_chosen && !entry.is_chosen {
                (entry.since, entry.is_chosen) = (since, true);
            }
            return None;
        }
        let ended = self.ended.remove(&key);
        let state = match ended {
            Some(_) => State::Counted,
            None => State::of(moves),
        };
        let entry = Entry {
            since,
            met: second(now),
            driver,
            is_chosen,
            state,
        };
        self.open.insert(key, entry);
        ended.map(|ended| ended.sample(key.0, since))
    }

    fn begun(&mut self, key: (Stage, Id), since: u32, now: Timestamp) -> Option<Sample> {
        if self.is_listed || self.open.contains_key(&key) {
            self.passed(key, now);
            return None;
        }
        if let Some(ended) = self.ended.remove(&key) {
            let entry = Entry {
                since,
                met: second(now),
                driver: None,
                is_chosen: false,
                state: State::Over,
            };
            self.open.insert(key, entry);
            return Some(ended.sample(key.0, since));
        }
        // Every event of the object repeats it.
        if self.begun.len() == self.begun.capacity() {
            self.begun.sort_unstable();
            self.begun
                .dedup_by_key(|(stage, object, _)| (*stage, *object));
        }
        self.begun.push((key.0, key.1, since));
        None
    }

    fn passed(&mut self, key: (Stage, Id), now: Timestamp) {
        let Some(entry) = self.open.get_mut(&key) else {
            return;
        };
        match entry.state {
            State::Counted if !self.is_listed => entry.state = State::Over,
            State::Counted => {
                self.open.remove(&key);
            }
            State::Moves | State::Waits => {
                entry.state = State::Passed;
                entry.met = second(now);
            }
            State::Passed | State::Over => {}
        }
    }

    fn done(
        &mut self,
        step: Step<'_>,
        at: Option<Timestamp>,
        end: End,
        now: Timestamp,
    ) -> Option<Sample> {
        let key = (step.stage, step.object);
        let is_ours = at.is_none_or(|at| self.is_listed || at > self.counted);
        let Some(entry) = self.open.get_mut(&key) else {
            if let Some(at) = at.filter(|_| is_ours && !self.is_listed) {
                let (class, driver) = (step.class.into(), step.driver);
                self.ended.insert(key, Ended { at, class, driver });
            }
            return None;
        };
        let entry = match (end, entry.state) {
            (End::Another, State::Counted | State::Over) => return None,
            (End::Another, State::Moves | State::Waits) => {
                let before = *entry;
                entry.state = State::Counted;
                entry.met = second(now);
                before
            }
            (End::Another, State::Passed) | (End::Own, _) => self.open.remove(&key)?,
        };
        let known = entry.driver.map(|number| self.drivers.name(number).into());
        let ended = Ended {
            at: at.map_or(now, |at| self.end(at, now)),
            class: step.class.into(),
            driver: step.driver.or(known),
        };
        (is_ours && !entry.state.is_counted()).then(|| ended.sample(step.stage, entry.since))
    }

    /// The time of the end, by an object's timestamp. Most have whole seconds: an end seen within that second gets the
    /// time at which it was seen.
    fn end(&self, at: Timestamp, now: Timestamp) -> Timestamp {
        let is_whole = at.subsec_nanosecond() == 0;
        let next = at.checked_add(SignedDuration::from_secs(1)).unwrap_or(at);
        if self.is_listed && is_whole {
            now.clamp(at, next)
        } else {
            at
        }
    }

    /// Records that the first lists are complete. Returns the stages that ended while no process led.
    pub(super) fn listed(&mut self) -> Vec<Sample> {
        self.is_listed = true;
        self.open.retain(|_, entry| entry.state != State::Over);
        let begun = std::mem::take(&mut self.begun).into_iter();
        let mut ended = std::mem::take(&mut self.ended);
        let samples = begun.filter_map(|(stage, object, since)| {
            let ended = ended.remove(&(stage, object))?;
            Some(ended.sample(stage, since))
        });
        samples.collect()
    }

    /// The open objects of these stages. Forgets entries whose other object did not follow in time.
    pub(super) fn unfinished(&mut self, stages: &[Stage], now: Timestamp) -> Vec<(Stage, Waiting)> {
        let second = second(now);
        self.open.retain(|_, entry| match entry.state {
            State::Moves | State::Waits => true,
            State::Passed | State::Counted | State::Over => second.saturating_sub(entry.met) < LAG,
        });
        let none = (0_usize, second);
        let mut found: Vec<_> = stages.iter().map(|stage| (*stage, none)).collect();
        for ((stage, _), entry) in &self.open {
            let Some((_, (count, oldest))) = found.iter_mut().find(|(of, _)| of == stage) else {
                continue;
            };
            match entry.state {
                State::Moves => {
                    let known = entry.since != 0;
                    let since = if known { entry.since } else { entry.met };
                    *oldest = since.min(*oldest);
                    *count += 1;
                }
                State::Waits => *count += 1,
                State::Passed | State::Counted | State::Over => {}
            }
        }
        let found = found.into_iter().map(|(stage, (count, oldest))| {
            let oldest = f64::from(second.saturating_sub(oldest));
            (stage, Waiting { count, oldest })
        });
        found.collect()
    }
}

impl State {
    fn of(moves: bool) -> Self {
        if moves { Self::Moves } else { Self::Waits }
    }

    fn is_counted(self) -> bool {
        matches!(self, Self::Counted | Self::Over)
    }
}

impl Ended {
    fn sample(self, stage: Stage, since: u32) -> Sample {
        Sample {
            stage,
            seconds: (since != 0).then(|| elapsed(since, self.at)),
            class: self.class,
            driver: self.driver,
        }
    }
}

fn second(time: Timestamp) -> u32 {
    u32::try_from(time.as_second()).unwrap_or_default()
}

/// Never negative, although objects' timestamps have whole seconds and clocks differ.
fn elapsed(since: u32, end: Timestamp) -> f64 {
    let since = SignedDuration::from_secs(since.into());
    let elapsed = end.as_duration().saturating_sub(since);
    elapsed.as_secs_f64().max(0.0)
}

#[cfg(test)]
mod tests;
