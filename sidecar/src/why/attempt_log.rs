//! Running attempts, and the last failure of each key. Pure: time is an argument.
//!
//! A success removes a key's failure. Of more failing keys than [`MOST`], or more than [`BYTES`], those that failed
//! last are kept.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::redact::words;
use crate::text::truncated;

/// Number of keys whose last failure is kept.
const MOST: usize = 1_000;
/// Bytes of all failures that are kept, without what the maps take.
const BYTES: usize = 1_300_000;
/// Number of steps of an attempt that are kept: the last ones.
const STEPS: usize = 8;
/// Bytes of a step's name.
const NAME: usize = 96;

/// A step that was carried out: a request to the API server, or a call of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Method and object, or the name of the call.
    pub name: Box<str>,
    /// How long it took.
    pub took: Duration,
    /// `OK`, or the code of the failure.
    pub code: &'static str,
}

/// The step under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Current {
    /// As in [`Step`].
    pub name: Box<str>,
    /// Its start.
    pub since: Instant,
}

/// An attempt under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Its start.
    pub since: Instant,
    /// The last steps that were carried out, oldest first.
    pub steps: Vec<Step>,
    /// The step under way.
    pub current: Option<Current>,
    /// The last step that failed: name, code and text.
    failed: Option<(Box<str>, &'static str, String)>,
}

/// The last failure of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Last {
    /// End of the attempt.
    pub ended: Timestamp,
    /// How long the attempt took.
    pub took: Duration,
    /// End of the first failed attempt since the last success.
    pub first: Timestamp,
    /// As [`first`](Self::first), by the clock that never goes back.
    pub failing_since: Instant,
    /// The step that failed; `None` if the controller refused without asking anybody.
    pub step: Option<Box<str>>,
    /// Code of that step.
    pub code: Option<&'static str>,
    /// Text of the failure, without secrets, 1 KiB at most.
    pub text: Box<str>,
    /// The last steps of the attempt, oldest first.
    pub steps: Box<[Step]>,
}

impl Last {
    fn bytes(&self) -> usize {
        let steps = self.steps.iter();
        let steps: usize = steps.map(|step| size_of::<Step>() + step.name.len()).sum();
        let step = self.step.as_ref().map_or(0, |step| step.len());
        size_of::<Self>() + self.text.len() + step + steps
    }
}

/// The end of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is left to do.
    Done,
    /// It goes on later, and did not fail.
    Later,
    /// It failed with this text.
    Failed(String),
}

/// The attempts of one engine.
#[derive(Debug)]
pub struct AttemptLog<K> {
    running: HashMap<K, Attempt>,
    failures: HashMap<K, (u64, Last)>,
    /// Keys with failures, by the time of their last one.
    order: BTreeMap<u64, K>,
    next: u64,
    /// Bytes of all failures.
    bytes: usize,
}

impl<K> Default for AttemptLog<K> {
    fn default() -> Self {
        Self {
            running: HashMap::new(),
            failures: HashMap::new(),
            order: BTreeMap::new(),
            next: 0,
            bytes: 0,
        }
    }
}

/// The beginning of `text` that takes at most [`NAME`] bytes.
fn shortened(text: String) -> Box<str> {
    if text.len() <= NAME {
        return text.into();
    }
    format!("{}…", truncated(&text, NAME)).into()
}

impl<K: Clone + Eq + Hash> AttemptLog<K> {
    /// An attempt on `key` begins.
    pub fn begins(&mut self, key: &K, now: Instant) {
        let attempt = Attempt {
            since: now,
            steps: Vec::new(),
            current: None,
            failed: None,
        };
        self.running.insert(key.clone(), attempt);
    }

    /// The attempt carries out this step.
    pub fn asks(&mut self, key: &K, name: String, now: Instant) {
        if let Some(attempt) = self.running.get_mut(key) {
            attempt.current = Some(Current {
                name: shortened(name),
                since: now,
            });
        }
    }

    /// The step ended, with this code and text if it failed.
    pub fn answered(&mut self, key: &K, failure: Option<(&'static str, String)>, now: Instant) {
        let Some(attempt) = self.running.get_mut(key) else {
            return;
        };
        let Some(Current { name, since }) = attempt.current.take() else {
            return;
        };
        let code = failure.as_ref().map_or("OK", |(code, _)| code);
        if let Some((code, text)) = failure {
            attempt.failed = Some((name.clone(), code, text));
        }
        if attempt.steps.len() >= STEPS {
            attempt.steps.remove(0);
        }
        attempt.steps.push(Step {
            name,
            took: now.saturating_duration_since(since),
            code,
        });
    }

    /// The attempt ended.
    pub fn ends(&mut self, key: &K, outcome: Outcome, (now, time): (Instant, Timestamp)) {
        let attempt = self.running.remove(key);
        let text = match outcome {
            Outcome::Done => return self.forget(key),
            Outcome::Later => return,
            Outcome::Failed(text) => text,
        };
        let (since, steps, failed) = match attempt {
            Some(attempt) => (attempt.since, attempt.steps, attempt.failed),
            None => (now, Vec::new(), None),
        };
        let (step, code, of_step) = match failed {
            Some((step, code, text)) => (Some(step), Some(code), text),
            None => (None, None, String::new()),
        };
        let text = if text.is_empty() { of_step } else { text };
        let before = self.failures.get(key).map(|(_, last)| last);
        let (first, failing_since) =
            before.map_or((time, now), |last| (last.first, last.failing_since));
        self.keep(
            key,
            Last {
                ended: time,
                took: now.saturating_duration_since(since),
                first,
                failing_since,
                step,
                code,
                text: words(&text).into(),
                steps: steps.into(),
            },
        );
    }

    fn keep(&mut self, key: &K, last: Last) {
        self.forget(key);
        self.next += 1;
        self.bytes += last.bytes();
        self.failures.insert(key.clone(), (self.next, last));
        self.order.insert(self.next, key.clone());
        while self.order.len() > MOST || self.bytes > BYTES {
            let Some(oldest) = self.order.values().next().cloned() else {
                return;
            };
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, key: &K) {
        if let Some((number, last)) = self.failures.remove(key) {
            self.order.remove(&number);
            self.bytes -= last.bytes();
        }
    }

    /// The attempt under way.
    pub fn running(&self, key: &K) -> Option<&Attempt> {
        self.running.get(key)
    }

    /// The last failure since the last success.
    pub fn last(&self, key: &K) -> Option<&Last> {
        self.failures.get(key).map(|(_, last)| last)
    }

    /// Names of the steps under way.
    pub fn steps(&self) -> impl Iterator<Item = &str> {
        let running = self.running.values();
        running.filter_map(|attempt| attempt.current.as_ref().map(|current| &*current.name))
    }

    /// Number of keys by the code of their last failure.
    pub fn codes(&self) -> BTreeMap<&'static str, usize> {
        let mut codes = BTreeMap::new();
        for (_, last) in self.failures.values() {
            *codes.entry(last.code.unwrap_or("none")).or_default() += 1;
        }
        codes
    }
}

#[cfg(test)]
mod tests;
