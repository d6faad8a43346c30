//! The attempts of a simulated process: the shipped controller, queues that are sets, and states
//! between which anything may happen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use sidecar::controller::engine::Bound;
use sidecar::controller::reactor::{self, Due, DueOf, Now, Reactor, Verdict};
use sidecar::controller::request::Ask as _;
use sidecar::why::{Explained, preview};

use super::Dice;

/// A simulation's additions to the controller that it drives.
pub trait Simulated {
    /// The controller.
    type Reactor: Explained<Key: Ord>;
    /// The object that a request to the API server returns, for the caches.
    type Object;
    /// The reason for which a request waits, other than the API server or a call to the driver.
    type Waiting;
    /// The simulation's notes on an attempt.
    type Note: Default;
}

/// The controller's keys.
pub type KeyOf<S> = <<S as Simulated>::Reactor as Reactor>::Key;
/// The controller's requests.
pub type RequestOf<S> = <<S as Simulated>::Reactor as Reactor>::Request;
/// The replies to its requests.
pub type ReplyOf<S> = reactor::ReplyOf<<S as Simulated>::Reactor>;
/// The controller's informers.
pub type InformersOf<S> = <<S as Simulated>::Reactor as Reactor>::Informers;
/// The controller's verdict on a key.
pub type VerdictOf<S> = Verdict<<<S as Simulated>::Reactor as Reactor>::Failure>;

/// An attempt in progress.
pub struct Running<S: Simulated> {
    /// The attempt's key.
    pub key: KeyOf<S>,
    /// The attempt's own state.
    pub attempt: <S::Reactor as Reactor>::Attempt,
    /// The attempt's progress: between two requests, or within one.
    pub state: State<S>,
    /// The simulation's notes on the attempt.
    pub note: S::Note,
    bound: Bound,
}

/// The progress of an attempt.
pub enum State<S: Simulated> {
    /// The controller decides on the next request.
    Deciding,
    /// The request was sent to the API server and is not applied yet.
    Sent(RequestOf<S>),
    /// The request waits for something else.
    Waiting(RequestOf<S>, S::Waiting),
    /// The driver works on the call with this number.
    Calling(RequestOf<S>, u64),
    /// The reply is on its way, with the object if there is one.
    Answered(ReplyOf<S>, Option<S::Object>),
    /// The lease is over: the request is not sent.
    Fenced,
}

/// A request was not sent; true if that ends the attempt.
pub struct Ended(pub bool);

/// The attempts, the queue and the clock of a simulated process.
pub struct Attempts<S: Simulated> {
    /// The shipped controller.
    pub reactor: S::Reactor,
    /// Keys that are ready.
    pub ready: BTreeSet<KeyOf<S>>,
    /// Keys in back-off, and its end.
    pub later: BTreeMap<KeyOf<S>, Instant>,
    /// The attempts in progress.
    pub running: Vec<Running<S>>,
    /// The time, which advances only when the simulation says so.
    pub now: Now,
    failures: BTreeMap<KeyOf<S>, u32>,
    /// Attempts that were begun.
    asked: u64,
}

impl<S: Simulated> Attempts<S> {
    /// No key is ready. Objects are dated `timestamp`.
    ///
    /// # Panics
    /// If `timestamp` is not a time.
    pub fn new(reactor: S::Reactor, timestamp: &str) -> Self {
        Self {
            reactor,
            ready: BTreeSet::new(),
            later: BTreeMap::new(),
            running: Vec::new(),
            now: Now {
                instant: Instant::now(),
                timestamp: timestamp.parse().expect("a time"),
            },
            failures: BTreeMap::new(),
            asked: 0,
        }
    }

    /// Queues the keys that are due.
    pub fn take<N>(&mut self, due: Due<KeyOf<S>, N>) {
        for wake in due.wakes {
            if !wake.unless_delayed {
                self.later.remove(&wake.key);
            }
            self.ready.insert(wake.key);
        }
    }

    /// Keys on which an attempt could begin now.
    pub fn startable(&self) -> Vec<KeyOf<S>> {
        let busy = |key: &&KeyOf<S>| self.running.iter().any(|running| running.key == **key);
        let ready = self.ready.iter().filter(|key| !busy(key));
        ready.cloned().collect()
    }

    /// Chooses one of the startable keys, while fewer than `most` attempts are in progress.
    pub fn choose(&self, dice: &mut Dice, most: usize) -> Option<KeyOf<S>> {
        let startable = self.startable();
        let may = !startable.is_empty() && self.running.len() < most;
        may.then(|| dice.of(&startable).clone())
    }

    /// Takes the key out of the queue, as a worker does.
    pub fn dequeue(&mut self, key: &KeyOf<S>) {
        self.ready.remove(key);
        // A key that is worked on does not back off.
        self.later.remove(key);
    }

    /// Adds an attempt on a key that was taken out of the queue.
    pub fn push(&mut self, key: &KeyOf<S>, attempt: <S::Reactor as Reactor>::Attempt) {
        self.running.push(Running {
            key: key.clone(),
            attempt,
            state: State::Deciding,
            note: S::Note::default(),
            bound: Bound::new(self.reactor.most_requests(key)),
        });
    }

    /// Begins an attempt on a queued key.
    pub fn begin(&mut self, key: &KeyOf<S>, informers: &InformersOf<S>) {
        self.dequeue(key);
        self.asked += 1;
        if self.asked.is_multiple_of(64) {
            self.ask(key, informers);
        }
        let attempt = self.reactor.begin(key, informers, self.now);
        self.push(key, attempt);
    }

    /// Asks what comes next: that is the step which the reactor itself would take, whatever it remembers of this key and of
    /// others (W-14), and whoever asks changes nothing (W-74).
    fn ask(&self, key: &KeyOf<S>, informers: &InformersOf<S>) {
        let told = preview(&self.reactor, key, informers, self.now);
        let mut whole = self.reactor.clone();
        let mut attempt = whole.begin(key, informers, self.now);
        let next = whole.decide(&mut attempt, informers, self.now);
        let [told, next] = [told, next].map(|step| step.map(|step| step.name()));
        assert_eq!(told, next, "the next step of {key:?}");
    }

    /// Decides on the next request of attempt `index`; `None` if the attempt must end.
    pub fn decide(&mut self, index: usize, informers: &InformersOf<S>) -> Option<RequestOf<S>> {
        loop {
            let attempt = &mut self.running[index].attempt;
            let request = self.reactor.decide(attempt, informers, self.now)?;
            match self.admit(index, request, informers) {
                Ok(request) => return Some(request),
                Err(Ended(true)) => return None,
                Err(Ended(false)) => {}
            }
        }
    }

    /// Checks a request of attempt `index` before it is sent.
    ///
    /// # Errors
    /// As in the engine, the request exceeds a bound and is not sent; the controller got a reply
    /// that says so.
    pub fn admit(
        &mut self,
        index: usize,
        request: RequestOf<S>,
        informers: &InformersOf<S>,
    ) -> Result<RequestOf<S>, Ended> {
        let Running { attempt, bound, .. } = &mut self.running[index];
        let Err(circle) = bound.admit(&request) else {
            return Ok(request);
        };
        let ended = Ended(bound.is_exhausted());
        let reply = request.unsent(circle.to_string());
        let due = self.reactor.answered(attempt, reply, informers);
        self.take(due);
        Err(ended)
    }

    /// Passes the reply to the last request of attempt `index` to the controller.
    pub fn answer(
        &mut self,
        index: usize,
        reply: ReplyOf<S>,
        informers: &InformersOf<S>,
    ) -> DueOf<S::Reactor> {
        let running = &mut self.running[index];
        running.bound.answered::<RequestOf<S>>(&reply);
        self.reactor
            .answered(&mut running.attempt, reply, informers)
    }

    /// Ends attempt `index`.
    pub fn end(
        &mut self,
        index: usize,
        informers: &InformersOf<S>,
    ) -> (KeyOf<S>, VerdictOf<S>, DueOf<S::Reactor>) {
        let Running { key, attempt, .. } = self.running.remove(index);
        let (verdict, due) = self.reactor.end(attempt, informers, self.now);
        (key, verdict, due)
    }

    /// Schedules the key of an attempt that has ended.
    pub fn settle(&mut self, key: KeyOf<S>, verdict: &VerdictOf<S>) {
        let delay = match verdict {
            Verdict::Done => {
                self.failures.remove(&key);
                return;
            }
            Verdict::After { delay, .. } => *delay,
            Verdict::Retry { .. } => {
                let failures = self.failures.entry(key.clone()).or_default();
                *failures += 1;
                Duration::from_secs(2_u64.saturating_pow(*failures - 1).min(300))
            }
        };
        self.delay(key, delay);
    }

    /// Delays the key, unless it is ready already.
    pub fn delay(&mut self, key: KeyOf<S>, delay: Duration) {
        if !self.ready.contains(&key) {
            self.later.insert(key, self.now.instant + delay);
        }
    }

    /// Advances the time; returns the keys whose back-off ended.
    pub fn wait(&mut self, seconds: u64) -> Vec<KeyOf<S>> {
        self.now.instant += Duration::from_secs(seconds);
        let now = self.now.instant;
        let due = self.later.extract_if(.., |_, at| *at <= now);
        let due: Vec<KeyOf<S>> = due.map(|(key, _)| key).collect();
        self.ready.extend(due.iter().cloned());
        due
    }

    /// Ends all back-offs.
    pub fn retry_all(&mut self) {
        let due = std::mem::take(&mut self.later);
        self.ready.extend(due.into_keys());
    }

    /// Whether there is nothing to do unless time advances.
    pub fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.running.is_empty()
    }

    /// Takes the state of attempt `index`; the caller must [`enter`](Self::enter) the next one.
    pub fn leave(&mut self, index: usize) -> State<S> {
        std::mem::replace(&mut self.running[index].state, State::Deciding)
    }

    /// Sets the state of attempt `index`.
    pub fn enter(&mut self, index: usize, state: State<S>) {
        self.running[index].state = state;
    }
}
