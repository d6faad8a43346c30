//! A controller as a function of values: what it remembers, what an informer's event makes due, the
//! next request of an attempt, and what the end of an attempt leaves.
//!
//! Nothing in an implementation awaits, reads a clock, locks or knows a client. The
//! [`Engine`](super::engine::Engine) drives it with tasks and queues; a crash simulation drives the
//! very same object with random numbers, so that what is proven is what ships.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::engine::MOST_REQUESTS;
use super::request::Ask;
use crate::queue::{Place, WorkKey};
use crate::trace::{Over, Subject};

/// A controller without its surroundings.
///
/// An attempt on a key is [`begin`](Self::begin), then [`decide`](Self::decide) and
/// [`answered`](Self::answered) in turn until there is no further request, then [`end`](Self::end).
/// Calls about different keys come in any order in between, and so do events; a process that is
/// stopped makes none of the calls that are left, and nothing may depend on them.
pub trait Reactor: Sized + Send + 'static {
    /// What there is to work on.
    type Key: WorkKey;
    /// What decisions may look at: the caches and the driver.
    type Informers: ?Sized;
    /// What an informer tells.
    type Change<'a>;
    /// One attempt on a key, and all that it has learnt so far.
    type Attempt: Send;
    /// One request, complete in every detail; it says what the reply to it is.
    type Request: Ask;
    /// What the log is to say.
    type Notice: Send;
    /// Why an attempt is to be retried.
    type Failure: Send;

    /// Something has changed; `informers` show it already.
    fn observe(&mut self, change: Self::Change<'_>, informers: &Self::Informers) -> DueOf<Self>;

    /// An attempt on `key`, which no other attempt is about.
    fn begin(&mut self, key: &Self::Key, informers: &Self::Informers, now: Now) -> Self::Attempt;

    /// The next request; `None` if the attempt is over.
    fn decide(
        &mut self,
        attempt: &mut Self::Attempt,
        informers: &Self::Informers,
        now: Now,
    ) -> Option<Self::Request>;

    /// What came of the last request. The informers show what it wrote.
    fn answered(
        &mut self,
        attempt: &mut Self::Attempt,
        reply: ReplyOf<Self>,
        informers: &Self::Informers,
    ) -> DueOf<Self>;

    /// The attempt is over: what becomes of its key, and of others.
    fn end(
        &mut self,
        attempt: Self::Attempt,
        informers: &Self::Informers,
        now: Now,
    ) -> (Verdict<Self::Failure>, DueOf<Self>);

    /// More requests than any attempt on `key` needs.
    fn most_requests(&self, _key: &Self::Key) -> u32 {
        MOST_REQUESTS
    }

    /// What an attempt on `key` is about, for traces; `None` if nobody looks for it in one. Asked before the attempt,
    /// and after it.
    fn subject(&self, _key: &Self::Key, _informers: &Self::Informers) -> Option<Subject> {
        None
    }

    /// Whose trace is complete with this change, before it is told to [`observe`](Self::observe).
    fn over(&self, _change: &Self::Change<'_>, _informers: &Self::Informers) -> Option<Over> {
        None
    }

    /// From when on an attempt on `key` hangs, so that others are to have the workers; `None` while
    /// nobody can say.
    fn hangs_after(&self, _key: &Self::Key, _informers: &Self::Informers) -> Option<Duration> {
        None
    }
}

/// The time, by the two clocks that decisions ask.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// For what lies between two moments in this process.
    pub instant: Instant,
    /// For what is written into objects.
    pub timestamp: Timestamp,
}

/// What comes of a reactor's requests.
pub type ReplyOf<R> = <<R as Reactor>::Request as Ask>::Reply;

/// What a reactor makes due.
pub type DueOf<R> = Due<<R as Reactor>::Key, <R as Reactor>::Notice>;

/// What a change, an answer or an end makes due.
#[derive(Debug)]
#[must_use]
pub struct Due<K, N> {
    /// Keys that are to be worked on.
    pub wakes: Vec<Wake<K>>,
    /// What the log is to say.
    pub notices: Vec<N>,
}

impl<K, N> Default for Due<K, N> {
    fn default() -> Self {
        Self {
            wakes: Vec::new(),
            notices: Vec::new(),
        }
    }
}

/// A key that is to be worked on, at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wake<K> {
    /// Index into the engine's queues.
    pub queue: usize,
    /// The key.
    pub key: K,
    /// Where in the queue it belongs.
    pub place: Place,
    /// Whether a back-off that it waits out goes on: for resyncs, which bring no news.
    pub unless_delayed: bool,
}

/// What becomes of a key after an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<F> {
    /// It is left alone until something wakes it, and its failures are forgotten.
    Done,
    /// It is tried again after its back-off.
    Retry {
        /// Why.
        failure: F,
        /// Whether it hung, however long it took.
        hung: bool,
    },
    /// It is looked at again after this delay, and its failures are neither counted nor forgotten.
    After {
        /// How long.
        delay: Duration,
        /// Why, if that is a failure.
        failure: Option<F>,
    },
}
