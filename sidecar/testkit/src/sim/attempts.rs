//! The attempts of a simulated process: the controller that ships, queues that are sets, and states
//! between which anything may happen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use sidecar::controller::engine::Bound;
use sidecar::controller::reactor::{self, Due, DueOf, Now, Reactor, Verdict};
use sidecar::controller::request::Ask as _;

use super::Dice;

/// What a simulation adds to the controller that it drives.
pub trait Simulated {
    /// The controller.
    type Reactor: Reactor<Key: Ord>;
    /// What a request to the API server returns, for the caches.
    type Object;
    /// What a request waits for, that is neither the API server nor a call of the driver.
    type Waiting;
    /// What is noted of an attempt.
    type Note: Default;
}

/// The controller's keys.
pub type KeyOf<S> = <<S as Simulated>::Reactor as Reactor>::Key;
/// Its requests.
pub type RequestOf<S> = <<S as Simulated>::Reactor as Reactor>::Request;
/// What they are answered with.
pub type ReplyOf<S> = reactor::ReplyOf<<S as Simulated>::Reactor>;
/// What it looks at.
pub type InformersOf<S> = <<S as Simulated>::Reactor as Reactor>::Informers;
/// What becomes of a key.
pub type VerdictOf<S> = Verdict<<<S as Simulated>::Reactor as Reactor>::Failure>;

/// An attempt under way.
pub struct Running<S: Simulated> {
    /// What it is about.
    pub key: KeyOf<S>,
    /// What it has learnt.
    pub attempt: <S::Reactor as Reactor>::Attempt,
    /// Between two requests, or within one.
    pub state: State<S>,
    /// What is noted of it.
    pub note: S::Note,
    bound: Bound,
}

/// Where an attempt is.
pub enum State<S: Simulated> {
    /// The controller is asked for the next request.
    Deciding,
    /// Sent to the API server, not yet applied.
    Sent(RequestOf<S>),
    /// It waits for something else.
    Waiting(RequestOf<S>, S::Waiting),
    /// The driver works on the call of this number.
    Calling(RequestOf<S>, u64),
    /// The reply is on its way; with the object if there is one.
    Answered(ReplyOf<S>, Option<S::Object>),
    /// The lease is over: it is not sent.
    Fenced,
}

/// A request was not sent, and whether the attempt is over with that.
pub struct Ended(pub bool);

/// See the module.
pub struct Attempts<S: Simulated> {
    /// The controller that ships.
    pub reactor: S::Reactor,
    /// Keys that are due.
    pub ready: BTreeSet<KeyOf<S>>,
    /// Keys that wait for their back-off, and its end.
    pub later: BTreeMap<KeyOf<S>, Instant>,
    /// What is under way.
    pub running: Vec<Running<S>>,
    /// The time. It goes on when the simulation says so.
    pub now: Now,
    failures: BTreeMap<KeyOf<S>, u32>,
}

impl<S: Simulated> Attempts<S> {
    /// Nothing is due. Objects are dated `timestamp`.
    ///
    /// # Panics
    /// That is no time.
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
        }
    }

    /// Puts into the queue what is due.
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

    /// One of these, while fewer than `most` attempts are under way.
    pub fn choose(&self, dice: &mut Dice, most: usize) -> Option<KeyOf<S>> {
        let startable = self.startable();
        let may = !startable.is_empty() && self.running.len() < most;
        may.then(|| dice.of(&startable).clone())
    }

    /// A worker takes the key out of the queue.
    pub fn dequeue(&mut self, key: &KeyOf<S>) {
        self.ready.remove(key);
        // What is worked on is not waited with.
        self.later.remove(key);
    }

    /// An attempt on a key that was taken out of the queue.
    pub fn push(&mut self, key: &KeyOf<S>, attempt: <S::Reactor as Reactor>::Attempt) {
        self.running.push(Running {
            key: key.clone(),
            attempt,
            state: State::Deciding,
            note: S::Note::default(),
            bound: Bound::new(self.reactor.most_requests(key)),
        });
    }

    /// An attempt on a queued key begins.
    pub fn begin(&mut self, key: &KeyOf<S>, informers: &InformersOf<S>) {
        self.dequeue(key);
        let attempt = self.reactor.begin(key, informers, self.now);
        self.push(key, attempt);
    }

    /// The next request of attempt `index`; `None` if it is to be ended.
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

    /// Attempt `index` is about to make this request.
    ///
    /// # Errors
    /// As in the engine it is not sent, and the controller was told so.
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

    /// What came of the last request of attempt `index` reaches the controller.
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

    /// Attempt `index` is over.
    pub fn end(
        &mut self,
        index: usize,
        informers: &InformersOf<S>,
    ) -> (KeyOf<S>, VerdictOf<S>, DueOf<S::Reactor>) {
        let Running { key, attempt, .. } = self.running.remove(index);
        let (verdict, due) = self.reactor.end(attempt, informers, self.now);
        (key, verdict, due)
    }

    /// What becomes of the key of an attempt that is over.
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

    /// The key is due after this delay, unless it is due already.
    pub fn delay(&mut self, key: KeyOf<S>, delay: Duration) {
        if !self.ready.contains(&key) {
            self.later.insert(key, self.now.instant + delay);
        }
    }

    /// Time passes, and back-offs end: of which keys.
    pub fn wait(&mut self, seconds: u64) -> Vec<KeyOf<S>> {
        self.now.instant += Duration::from_secs(seconds);
        let now = self.now.instant;
        let due = self.later.extract_if(.., |_, at| *at <= now);
        let due: Vec<KeyOf<S>> = due.map(|(key, _)| key).collect();
        self.ready.extend(due.iter().cloned());
        due
    }

    /// All back-offs end.
    pub fn retry_all(&mut self) {
        let due = std::mem::take(&mut self.later);
        self.ready.extend(due.into_keys());
    }

    /// Whether there is nothing to do without time going on.
    pub fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.running.is_empty()
    }

    /// What attempt `index` was about to do; it is to be told where it is then.
    pub fn leave(&mut self, index: usize) -> State<S> {
        std::mem::replace(&mut self.running[index].state, State::Deciding)
    }

    /// Where attempt `index` is from now on.
    pub fn enter(&mut self, index: usize, state: State<S>) {
        self.running[index].state = state;
    }
}
