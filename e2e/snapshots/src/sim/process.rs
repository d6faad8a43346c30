//! One process of either program: the reactor that ships, caches fed by late events, queues that are
//! sets, and attempts that advance step by step.

use std::convert::Infallible;

use sidecar::controller::reactor::DueOf;
use sidecar::text::Text;
use sidecar_testkit::sim::attempts::{
    self, AnswerOf, Attempts, InformersOf, KeyOf, Simulated, StepOf,
};
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

pub(super) type Running<P> = attempts::Running<P>;
pub(super) type State<P> = attempts::State<P>;
pub(super) type Dues<P> = Vec<DueOf<<P as Simulated>::Reactor>>;

/// What is noted of an attempt.
#[derive(Default)]
pub(super) struct Note {
    /// What it has brought about last.
    pub(super) last: Option<Effect>,
}

/// What the two programs differ in: their caches, and the words of their steps.
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
    fn decided(&self, key: &KeyOf<Self>, step: StepOf<Self>) -> StepOf<Self>;
    fn retries(&self) -> bool;
    fn act(step: &StepOf<Self>) -> Act;
    fn answered(&self, step: &StepOf<Self>, came: Result<Text, Failure>) -> AnswerOf<Self>;
    fn said(&self, step: &StepOf<Self>, answer: AnswerOf<Self>) -> AnswerOf<Self>;
    fn told(&self) -> AnswerOf<Self>;
    fn of(world: &mut World) -> &mut Process<Self>;
    /// What must be true of a step at the moment at which it is decided on.
    fn hold(world: &mut World, key: &KeyOf<Self>, step: &StepOf<Self>);
    /// A call's answer; which of its effects are there is known to the storage.
    fn call(world: &mut World, step: &StepOf<Self>, id: u64) -> AnswerOf<Self>;
    fn refuse(step: &StepOf<Self>, code: tonic::Code) -> AnswerOf<Self>;
    fn away(step: &StepOf<Self>) -> AnswerOf<Self>;
    fn list(world: &mut World, handle: &Text) -> AnswerOf<Self>;
}

pub(super) struct Process<P: Program> {
    pub(super) attempts: Attempts<P>,
    pub(super) known: P,
}

impl<P: Program> Process<P> {
    pub(super) fn start(mutant: Mutant) -> Self {
        Self {
            attempts: Attempts::new(P::reactor(), "2026-01-02T03:04:05Z"),
            known: P::new(mutant),
        }
    }

    pub(super) fn watch(&mut self, kind: Kind, server: &Server, breaks: bool) {
        let from = (kind, server, breaks);
        let dues = self.known.watch(&mut self.attempts.reactor, from);
        dues.into_iter().for_each(|due| self.attempts.take(due));
    }

    pub(super) fn begin(&mut self, key: &KeyOf<P>) {
        self.attempts.begin(key, self.known.informers());
    }

    /// The next step of attempt `index`; `None` if the attempt is over, and ended.
    pub(super) fn decide(&mut self, index: usize) -> Option<StepOf<P>> {
        let (attempts, informers) = (&mut self.attempts, self.known.informers());
        if let Some(step) = attempts.decide(index, informers) {
            return Some(self.known.decided(&attempts.running[index].key, step));
        }
        let (key, verdict, due) = attempts.end(index, informers);
        attempts.take(due);
        if self.known.retries() {
            attempts.settle(key, &verdict);
        }
        None
    }

    /// The answer arrives: first in the cache, then in the attempt.
    pub(super) fn answer(
        &mut self,
        index: usize,
        (step, answer): (StepOf<P>, AnswerOf<P>),
        json: Option<&str>,
    ) {
        if let Act::Api(request) = P::act(&step) {
            let (known, reactor) = (&mut self.known, &mut self.attempts.reactor);
            let about = request.about();
            let dues = about.map(|about| known.end_write(reactor, about, json));
            let dues = dues.into_iter().flatten();
            dues.for_each(|due| self.attempts.take(due));
        }
        let answer = self.known.said(&step, answer);
        let informers = self.known.informers();
        let due = { &mut self.attempts }.answer(index, (step, answer), informers);
        self.attempts.take(due);
    }

    /// Whether there is something to do without time going on.
    pub(super) fn is_busy(&self) -> bool {
        let attempts = &self.attempts;
        !attempts.running.is_empty() || self.known.is_synced() && !attempts.startable().is_empty()
    }
}
