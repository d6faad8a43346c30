//! One process of either program: the reactor that ships, caches fed by late events, queues that are
//! sets, and attempts that advance step by step.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::{Duration, Instant};

use sidecar::controller::reactor::{Due, DueOf, Now, Reactor, Verdict};
use sidecar::text::Text;
use sidecar_testkit::sim::server::Refused;
use sidecar_testkit::sim::storage::Wish;

use super::effect::Effect;
use super::kind::{Kind, Server};
use super::mutant::Mutant;
use super::request::Request;
use super::world::World;

/// What a step asks of whom.
pub(super) enum Act {
    Api(Request),
    /// The driver's call.
    Call(Wish),
    /// The driver's list, for one handle.
    List(Text),
    /// An event, which needs no answer.
    Tell,
}

/// What a failed request comes back as.
pub(super) enum Failure {
    Refused(Refused),
    /// Whether it was applied is not known.
    Unknown,
}

pub(super) type Steps<P> = <<P as Program>::Reactor as Reactor>::Step;
pub(super) type Answers<P> = <<P as Program>::Reactor as Reactor>::Answer;
pub(super) type Keys<P> = <<P as Program>::Reactor as Reactor>::Key;
pub(super) type Dues<P> = Vec<DueOf<<P as Program>::Reactor>>;

/// What the two programs differ in: their caches, and the words of their steps.
pub(super) trait Program: Sized {
    type Reactor: Reactor<Key: Ord + Clone + Debug, Step: Debug>;
    const WATCHED: &'static [Kind];
    /// Index among the programs.
    const WHO: usize;

    /// Whether this is the key of a group, or of a group's content.
    fn is_of_group(key: &Keys<Self>) -> bool;
    fn reactor() -> Self::Reactor;
    fn new(mutant: Mutant) -> Self;
    fn informers(&self) -> &<Self::Reactor as Reactor>::Informers;
    fn is_synced(&self) -> bool;
    /// Kinds of which something is left to be told.
    fn news(&self, server: &Server) -> Vec<Kind>;
    fn watch(&mut self, of: &mut Self::Reactor, from: (Kind, &Server, bool)) -> Dues<Self>;
    fn begin_write(&mut self, about: (Kind, &Text));
    fn end_write(
        &mut self,
        of: &mut Self::Reactor,
        about: (Kind, &Text),
        json: Option<&str>,
    ) -> Dues<Self>;
    fn decided(&self, key: &Keys<Self>, step: Steps<Self>) -> Steps<Self>;
    fn retries(&self) -> bool;
    fn act(step: &Steps<Self>) -> Act;
    fn answered(&self, step: &Steps<Self>, came: Result<Text, Failure>) -> Answers<Self>;
    fn said(&self, step: &Steps<Self>, answer: Answers<Self>) -> Answers<Self>;
    fn told(&self) -> Answers<Self>;
    fn of(world: &mut World) -> &mut Process<Self>;
    /// What must be true of a step at the moment at which it is decided on.
    fn hold(world: &mut World, key: &Keys<Self>, step: &Steps<Self>);
    /// A call's answer; which of its effects are there is known to the storage.
    fn call(world: &mut World, step: &Steps<Self>, id: u64) -> Answers<Self>;
    fn refuse(step: &Steps<Self>, code: tonic::Code) -> Answers<Self>;
    fn away(step: &Steps<Self>) -> Answers<Self>;
    fn list(world: &mut World, handle: &Text) -> Answers<Self>;
}

pub(super) enum State<P: Program> {
    Deciding,
    /// Sent to the API server or to a list, not yet applied.
    Sent(Steps<P>),
    /// The driver works on it.
    Calling(Steps<P>, u64),
    /// The answer is on its way, with the object if there is one in it.
    Answered(Steps<P>, Answers<P>, Option<Text>),
    /// The lease is over: it is not sent.
    Fenced,
}

/// An attempt under way.
pub(super) struct Running<P: Program> {
    pub(super) key: Keys<P>,
    attempt: <P::Reactor as Reactor>::Attempt,
    pub(super) state: State<P>,
    /// What it has brought about last.
    pub(super) last: Option<Effect>,
}

pub(super) struct Process<P: Program> {
    pub(super) reactor: P::Reactor,
    pub(super) known: P,
    pub(super) ready: BTreeSet<Keys<P>>,
    pub(super) later: BTreeMap<Keys<P>, Instant>,
    failures: BTreeMap<Keys<P>, u32>,
    pub(super) running: Vec<Running<P>>,
    now: Instant,
}

impl<P: Program> Process<P> {
    pub(super) fn start(mutant: Mutant) -> Self {
        Self {
            reactor: P::reactor(),
            known: P::new(mutant),
            ready: BTreeSet::new(),
            later: BTreeMap::new(),
            failures: BTreeMap::new(),
            running: Vec::new(),
            now: Instant::now(),
        }
    }

    fn moment(&self) -> Now {
        Now {
            instant: self.now,
            timestamp: "2026-01-02T03:04:05Z".parse().unwrap(),
        }
    }

    pub(super) fn watch(&mut self, kind: Kind, server: &Server, breaks: bool) {
        let dues = self.known.watch(&mut self.reactor, (kind, server, breaks));
        dues.into_iter().for_each(|due| self.take(due));
    }

    pub(super) fn take<N>(&mut self, due: Due<Keys<P>, N>) {
        for wake in due.wakes {
            if !wake.unless_delayed {
                self.later.remove(&wake.key);
            }
            self.ready.insert(wake.key);
        }
    }

    /// Keys that could be worked on now.
    pub(super) fn startable(&self) -> Vec<Keys<P>> {
        let busy = |key: &&Keys<P>| self.running.iter().any(|running| running.key == **key);
        let ready = self.ready.iter().filter(|key| !busy(key));
        ready.cloned().collect()
    }

    pub(super) fn begin(&mut self, key: &Keys<P>) {
        self.ready.remove(key);
        self.later.remove(key);
        let now = self.moment();
        self.running.push(Running {
            key: key.clone(),
            attempt: self.reactor.begin(key, self.known.informers(), now),
            state: State::Deciding,
            last: None,
        });
    }

    /// The next step of attempt `index`; `None` if the attempt is over, and ended.
    pub(super) fn decide(&mut self, index: usize) -> Option<Steps<P>> {
        let now = self.moment();
        let informers = self.known.informers();
        let running = &mut self.running[index];
        if let Some(step) = self.reactor.decide(&mut running.attempt, informers, now) {
            return Some(self.known.decided(&running.key, step));
        }
        let Running { key, attempt, .. } = self.running.remove(index);
        let (verdict, due) = self.reactor.end(attempt, informers, now);
        self.take(due);
        let wait = match verdict {
            Verdict::Done => {
                self.failures.remove(&key);
                return None;
            }
            Verdict::After { delay, .. } => delay,
            Verdict::Retry { .. } => {
                let failures = self.failures.entry(key.clone()).or_default();
                *failures += 1;
                Duration::from_secs(2_u64.saturating_pow(*failures - 1).min(300))
            }
        };
        if self.known.retries() && !self.ready.contains(&key) {
            self.later.insert(key, self.now + wait);
        }
        None
    }

    /// The answer arrives: first in the cache, then in the attempt.
    pub(super) fn answer(
        &mut self,
        index: usize,
        step: Steps<P>,
        answer: Answers<P>,
        json: Option<&str>,
    ) {
        if let Act::Api(request) = P::act(&step) {
            let known = &mut self.known;
            let reactor = &mut self.reactor;
            let about = request.about();
            let dues = about.map(|about| known.end_write(reactor, about, json));
            dues.into_iter().flatten().for_each(|due| self.take(due));
        }
        let answer = self.known.said(&step, answer);
        let running = &mut self.running[index];
        let informers = self.known.informers();
        let due = self
            .reactor
            .answered(&mut running.attempt, step, answer, informers);
        running.state = State::Deciding;
        self.take(due);
    }

    /// Time passes, and back-offs end.
    pub(super) fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        let now = self.now;
        let due = self.later.extract_if(.., |_, at| *at <= now);
        self.ready.extend(due.map(|(key, _)| key));
    }

    /// Whether there is something to do without time going on.
    pub(super) fn is_busy(&self) -> bool {
        !self.running.is_empty() || self.known.is_synced() && !self.startable().is_empty()
    }
}
