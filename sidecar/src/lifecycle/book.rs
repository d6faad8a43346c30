//! What is open and since when, and what has ended. Pure.
//!
//! Of what has ended nothing is kept. Ends that happened while nobody led are told by the first lists: they count if an
//! object says when, and if that was after the leader before had renewed its lease for the last time.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};

use super::names::Names;
use super::stage::{End, Id, Since, Stage, Step, What};
use crate::text::Text;

/// How long the other object may be behind that says that something has ended, or was seen ended.
const LAG: u32 = 600;

/// Something has ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) stage: Stage,
    /// How long it was waited for; `None` if nobody knows.
    pub(super) seconds: Option<f64>,
    pub(super) class: Text,
    /// The driver, for a controller that serves several, if it is known.
    pub(super) driver: Option<Text>,
}

/// What is open of a stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Waiting {
    pub(super) count: usize,
    /// For how many seconds the oldest has been that should get on.
    pub(super) oldest: f64,
}

/// See the module.
pub(super) struct Book {
    /// What ended until then was another leader's to count.
    counted: Timestamp,
    /// The first lists are complete.
    is_listed: bool,
    open: HashMap<(Stage, Id), Entry>,
    drivers: Names,
    /// Until the lists are complete: what has ended after `counted`, and of which nobody knows since when it was open.
    ended: HashMap<(Stage, Id), Ended>,
    /// Until the lists are complete: since when what has ended was open.
    begun: Vec<(Stage, Id, u32)>,
}

#[derive(Clone, Copy)]
struct Entry {
    /// In seconds since 1970; 0 if nobody knows.
    since: u32,
    /// Since when it is in this state, as far as this process knows.
    met: u32,
    /// The driver's number, if it is known.
    driver: Option<u8>,
    /// Whether a choice has begun it.
    is_chosen: bool,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It should get on.
    Moves,
    /// Somebody else is waited for.
    Waits,
    /// The object is beyond it, and whoever says when is behind.
    Passed,
    /// It was counted; the object may look open for a while.
    Counted,
    /// It was counted and the object is beyond it. Until the lists are complete, both objects may say it again.
    Over,
}

struct Ended {
    at: Timestamp,
    class: Text,
    driver: Option<Text>,
}

impl Book {
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

    /// What a look at an object says; `now` by the API server's clock.
    pub(super) fn take(&mut self, step: Step<'_>, now: Timestamp) -> Option<Sample> {
        let key = (step.stage, step.object);
        match step.what {
            What::Open { since, moves } => self.opened(key, (since, moves), step.driver, now),
            What::Begun(since) => self.begun(key, since, now),
            What::Passed => {
                self.passed(key, now);
                None
            }
            What::Done { at, end } => self.done(step, (at, end), now),
            What::Dropped => {
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
        (since, moves): (Since, bool),
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
                // What was chosen was taken back.
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
        // Every event of the object says it again.
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
        (at, end): (Option<Timestamp>, End),
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

    /// The end that an object says. Most say whole seconds: what is seen within that second ended when it was seen.
    fn end(&self, at: Timestamp, now: Timestamp) -> Timestamp {
        let is_whole = at.subsec_nanosecond() == 0;
        let next = at.checked_add(SignedDuration::from_secs(1)).unwrap_or(at);
        if self.is_listed && is_whole {
            now.clamp(at, next)
        } else {
            at
        }
    }

    /// The first lists are complete. What ended while nobody led.
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

    /// What is open of these stages. Forgets what nobody is going to say more about.
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

/// Never negative: objects have whole seconds, and clocks differ.
fn elapsed(since: u32, end: Timestamp) -> f64 {
    let since = SignedDuration::from_secs(since.into());
    let elapsed = end.as_duration().saturating_sub(since);
    elapsed.as_secs_f64().max(0.0)
}

#[cfg(test)]
mod tests;
