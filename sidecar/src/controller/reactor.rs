//! A controller as a function of values: its memory, the keys that an informer's event makes due, the
//! next request of an attempt, and the consequences of an attempt's end.
//!
//! An implementation never awaits, reads a clock, locks or knows a client. The
//! [`Engine`](super::engine::Engine) drives it with tasks and queues; a crash simulation drives the
//! same code with random numbers, so that what is tested is what ships.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::engine::MOST_REQUESTS;
use super::request::Ask;
use crate::queue::{Place, WorkKey};
use crate::trace::{Over, Subject};

/// A controller's decisions, without clients, clocks or tasks.
///
/// An attempt on a key is [`begin`](Self::begin), then [`decide`](Self::decide) and
/// [`answered`](Self::answered) in turn until there is no further request, then [`end`](Self::end).
/// In between come calls about other keys, in any order, and events. When the process is stopped, the
/// remaining calls are never made; nothing may depend on them.
pub trait Reactor: Sized + Send + 'static {
    /// A unit of work.
    type Key: WorkKey;
    /// What decisions may look at: the caches and the driver.
    type Informers: ?Sized;
    /// An event of an informer.
    type Change<'a>;
    /// One attempt on a key, with everything that it has learnt so far.
    type Attempt: Send;
    /// One request, complete in every detail; its type determines the reply.
    type Request: Ask;
    /// A message for the log.
    type Notice: Send;
    /// Why an attempt must be retried.
    type Failure: Send;

    /// Handles a change, which `informers` show already.
    fn observe(&mut self, change: Self::Change<'_>, informers: &Self::Informers) -> DueOf<Self>;

    /// Begins an attempt on `key`; no other attempt on it runs.
    fn begin(&mut self, key: &Self::Key, informers: &Self::Informers, now: Now) -> Self::Attempt;

    /// The next request; `None` if the attempt is over.
    fn decide(
        &mut self,
        attempt: &mut Self::Attempt,
        informers: &Self::Informers,
        now: Now,
    ) -> Option<Self::Request>;

    /// Handles the reply to the last request. The informers show what it wrote.
    fn answered(
        &mut self,
        attempt: &mut Self::Attempt,
        reply: ReplyOf<Self>,
        informers: &Self::Informers,
    ) -> DueOf<Self>;

    /// Ends the attempt and decides what happens to its key and to others.
    fn end(
        &mut self,
        attempt: Self::Attempt,
        informers: &Self::Informers,
        now: Now,
    ) -> (Verdict<Self::Failure>, DueOf<Self>);

    /// Upper bound on the requests of an attempt on `key`.
    fn most_requests(&self, _key: &Self::Key) -> u32 {
        MOST_REQUESTS
    }

    /// The object of an attempt on `key`, for traces; `None` if no trace shows it. Called before the attempt and
    /// after it.
    fn subject(&self, _key: &Self::Key, _informers: &Self::Informers) -> Option<Subject> {
        None
    }

    /// The trace that this change completes. Called before [`observe`](Self::observe) gets the change.
    fn over(&self, _change: &Self::Change<'_>, _informers: &Self::Informers) -> Option<Over> {
        None
    }

    /// From when on an attempt on `key` counts as hanging, so that others get the workers; `None` while
    /// unknown.
    fn hangs_after(&self, _key: &Self::Key, _informers: &Self::Informers) -> Option<Duration> {
        None
    }
}

/// The time, by the two clocks that decisions read.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// For intervals within this process.
    pub instant: Instant,
    /// For timestamps written into objects.
    pub timestamp: Timestamp,
}

/// The reply to a reactor's requests.
pub type ReplyOf<R> = <<R as Reactor>::Request as Ask>::Reply;

/// The keys and notices that a reactor makes due.
pub type DueOf<R> = Due<<R as Reactor>::Key, <R as Reactor>::Notice>;

/// The keys and notices that a change, a reply or an attempt's end makes due.
#[derive(Debug)]
#[must_use]
pub struct Due<K, N> {
    /// Keys to work on.
    pub wakes: Vec<Wake<K>>,
    /// Messages for the log.
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

/// A key to work on now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wake<K> {
    /// Index into the engine's queues.
    pub queue: usize,
    /// The key.
    pub key: K,
    /// Its place in the queue.
    pub place: Place,
    /// Keeps a running back-off: for resyncs, which bring no news.
    pub unless_delayed: bool,
}

/// What happens to a key after an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<F> {
    /// Left alone until something wakes it; its failures are forgotten.
    Done,
    /// Retried after its back-off.
    Retry {
        /// Why.
        failure: F,
        /// Whether the attempt counts as hanging, however long it took.
        hung: bool,
    },
    /// Attempted again after this delay; its failures are neither counted nor forgotten.
    After {
        /// The delay.
        delay: Duration,
        /// The reason, if it is a failure.
        failure: Option<F>,
    },
}
