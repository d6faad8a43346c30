//! One process of either program: its reactor as shipped, caches fed by late events, sets as
//! queues, and attempts that advance step by step.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::{Duration, Instant};

use sidecar::controller::reactor::{DueOf, Now};
use sidecar::refusal::{ApiError, Refusal};
use sidecar::text::Text;
use sidecar_testkit::sim::attempts::{
    self, Attempts, InformersOf, KeyOf, ReplyOf, RequestOf, Simulated, VerdictOf,
};
use sidecar_testkit::sim::server::{Refused, Why};
use sidecar_testkit::sim::storage::Wish;

use super::effect::Effect;
use super::kind::{Kind, Server};
use super::mutant::Mutant;
use super::request::Request;
use super::world::World;

/// A request's action and its recipient.
pub(super) enum Act {
    Api(Request),
    /// A call to the driver.
    Call(Wish),
    /// A request for the driver's list.
    List,
    /// An event, which needs no answer.
    Tell,
}

/// The failure of a request.
pub(super) enum Failure {
    Refused(Refused),
    /// It is unknown whether the request was applied.
    Unknown,
}

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        let (refusal, message) = match failure {
            Failure::Unknown => (Refusal::Unknown, "no answer".to_owned()),
            Failure::Refused(refused) => {
                let refusal = match refused.why {
                    Why::NotFound => Refusal::NotFound,
                    Why::Conflict => Refusal::Conflict,
                    Why::Exists => Refusal::AlreadyExists,
                    Why::Invalid => Refusal::Other,
                };
                (refusal, refused.message)
            }
        };
        Self { message, refusal }
    }
}

pub(super) type Running<P> = attempts::Running<P>;
pub(super) type State<P> = attempts::State<P>;
pub(super) type Dues<P> = Vec<DueOf<<P as Simulated>::Reactor>>;

/// How long a request that the driver called impossible is not repeated, unless something changes.
const IMPOSSIBLE: Duration = Duration::from_secs(30);

/// Notes about an attempt.
#[derive(Default)]
pub(super) struct Note {
    /// Its last effect.
    pub(super) last: Option<Effect>,
    /// The name of the snapshot that the driver has reported, until the content's status has the report.
    pub(super) untold: Option<String>,
}

/// A warning to users: its reason, the key of its object, its message.
pub(super) type Warning = (&'static str, Text, String);

/// The differences of the two programs: their caches, and the types of their requests.
pub(super) trait Program:
    Simulated<Object = Text, Waiting = Infallible, Note = Note> + Sized
{
    const WATCHED: &'static [Kind];
    /// Index among the programs.
    const WHO: usize;

    /// Whether this is the key of a group, or of a group's content.
    fn is_of_group(key: &KeyOf<Self>) -> bool;
    fn reactor() -> Self::Reactor;
    fn new(mutant: Mutant) -> Self;
    fn informers(&self) -> &InformersOf<Self>;
    fn is_synced(&self) -> bool;
    /// Kinds with events that were not delivered yet.
    fn news(&self, server: &Server) -> Vec<Kind>;
    fn watch(&mut self, of: &mut Self::Reactor, from: (Kind, &Server, bool)) -> Dues<Self>;
    fn begin_write(&mut self, about: (Kind, &Text));
    fn end_write(
        &mut self,
        of: &mut Self::Reactor,
        about: (Kind, &Text),
        json: Option<&str>,
    ) -> Dues<Self>;
    fn decided(
        &self,
        of: &mut Self::Reactor,
        about: (&KeyOf<Self>, Now),
        request: RequestOf<Self>,
    ) -> RequestOf<Self>;
    /// Whether a key is retried after this verdict.
    fn retries(&self, verdict: &VerdictOf<Self>) -> bool;
    /// The verdict as a mutant understands it.
    fn judges(&self, verdict: VerdictOf<Self>) -> VerdictOf<Self> {
        verdict
    }
    /// The wait that a mutant chooses in place of the verdict's.
    fn hurries(&self, _verdict: &VerdictOf<Self>) -> Option<Duration> {
        None
    }
    /// Whether, as far as it knows, nobody wants the driver's report about this key any more.
    fn is_unwanted(&self, _key: &KeyOf<Self>) -> bool {
        false
    }
    /// Whether a wake of this key arrives.
    fn wakes(&self, key: &KeyOf<Self>) -> bool;
    /// The warnings to users among the notices.
    fn warnings(due: &DueOf<Self::Reactor>) -> Vec<Warning>;
    fn act(request: &RequestOf<Self>) -> Act;
    /// The object of a single read or write.
    fn about(reply: &ReplyOf<Self>) -> Option<(Kind, Text)>;
    fn answered(request: RequestOf<Self>, came: Result<Text, Failure>) -> ReplyOf<Self>;
    fn said(&self, key: &KeyOf<Self>, reply: ReplyOf<Self>) -> ReplyOf<Self>;
    fn of(world: &mut World) -> &mut Process<Self>;
    /// Checks a request when it is decided.
    fn hold(world: &mut World, key: &KeyOf<Self>, request: &RequestOf<Self>);
    /// Ends a call; storage knows its effect.
    fn call(world: &mut World, key: &KeyOf<Self>, call: (RequestOf<Self>, u64)) -> ReplyOf<Self>;
    fn refuse(request: RequestOf<Self>, code: tonic::Code) -> ReplyOf<Self>;
    fn away(request: RequestOf<Self>) -> ReplyOf<Self>;
    /// Answers a request for the driver's list, or an event, which needs no answer.
    fn list(world: &mut World, request: RequestOf<Self>) -> ReplyOf<Self>;
}

pub(super) struct Process<P: Program> {
    pub(super) attempts: Attempts<P>,
    pub(super) known: P,
    /// Warnings not checked yet.
    pub(super) warnings: Vec<Warning>,
    /// Keys that an event or an answer has queued since their last attempt began.
    woken: BTreeSet<KeyOf<P>>,
    /// When the driver called the request of a key impossible. Nothing has changed since.
    impossible: BTreeMap<KeyOf<P>, Instant>,
}

impl<P: Program> Process<P> {
    pub(super) fn start(mutant: Mutant) -> Self {
        Self {
            attempts: Attempts::new(P::reactor(), "2026-01-02T03:04:05Z"),
            known: P::new(mutant),
            warnings: Vec::new(),
            woken: BTreeSet::new(),
            impossible: BTreeMap::new(),
        }
    }

    pub(super) fn take(&mut self, mut due: DueOf<P::Reactor>) {
        due.wakes.retain(|wake| self.known.wakes(&wake.key));
        let woken = due.wakes.iter().map(|wake| wake.key.clone());
        self.woken.extend(woken);
        self.warnings.extend(P::warnings(&due));
        self.attempts.take(due);
    }

    pub(super) fn watch(&mut self, kind: Kind, server: &Server, breaks: bool) {
        let from = (kind, server, breaks);
        let dues = self.known.watch(&mut self.attempts.reactor, from);
        dues.into_iter().for_each(|due| self.take(due));
    }

    pub(super) fn begin(&mut self, key: &KeyOf<P>) {
        if self.woken.remove(key) {
            self.impossible.remove(key);
        }
        self.attempts.begin(key, self.known.informers());
    }

    /// The driver calls the key's request impossible.
    pub(super) fn is_impossible(&mut self, key: &KeyOf<P>) {
        let now = self.attempts.now.instant;
        self.impossible.insert(key.clone(), now);
    }

    /// Whether the driver has just called the key's request impossible.
    pub(super) fn asks_too_soon(&self, key: &KeyOf<P>) -> bool {
        let now = self.attempts.now.instant;
        let since = self.impossible.get(key);
        since.is_some_and(|since| now < *since + IMPOSSIBLE)
    }

    /// The next request of attempt `index`; `None` once the attempt has ended.
    pub(super) fn decide(&mut self, index: usize) -> Option<RequestOf<P>> {
        let (attempts, informers) = (&mut self.attempts, self.known.informers());
        if let Some(request) = attempts.decide(index, informers) {
            let about = (&attempts.running[index].key, attempts.now);
            return Some(self.known.decided(&mut attempts.reactor, about, request));
        }
        let (key, verdict, due) = attempts.end(index, informers);
        self.take(due);
        let verdict = self.known.judges(verdict);
        match self.known.hurries(&verdict) {
            Some(wait) if wait.is_zero() => {
                self.attempts.ready.insert(key);
            }
            Some(wait) => self.attempts.delay(key, wait),
            None if self.known.retries(&verdict) => self.attempts.settle(key, &verdict),
            None => {}
        }
        None
    }

    /// Passes the reply first to the cache, then to the attempt.
    pub(super) fn answer(&mut self, index: usize, reply: ReplyOf<P>, json: Option<&str>) {
        if let Some((kind, key)) = P::about(&reply) {
            let reactor = &mut self.attempts.reactor;
            let dues = self.known.end_write(reactor, (kind, &key), json);
            dues.into_iter().for_each(|due| self.take(due));
        }
        let reply = self.known.said(&self.attempts.running[index].key, reply);
        let informers = self.known.informers();
        let due = { &mut self.attempts }.answer(index, reply, informers);
        self.take(due);
    }

    /// Whether it can advance without time passing.
    pub(super) fn is_busy(&self) -> bool {
        let attempts = &self.attempts;
        !attempts.running.is_empty() || self.known.is_synced() && !attempts.startable().is_empty()
    }
}
