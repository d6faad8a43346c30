//! A key that a worker holds.
//!
//! No key may get lost: whatever happens to the worker, the key returns to the queue.

use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use super::{Popped, Queue, now};
use crate::outage::Outage;

/// The bounds of a key, which is mostly an object's name.
pub trait WorkKey: Clone + Eq + Hash + Send + Sync + fmt::Debug + 'static {}

impl<K: Clone + Eq + Hash + Send + Sync + fmt::Debug + 'static> WorkKey for K {}

/// A key that a worker holds: no other worker gets it until one of the methods ends the work.
///
/// If dropped without any (the worker panicked or was aborted), it counts as failed.
#[must_use = "dropping it counts as a failure"]
pub struct Work<K: WorkKey> {
    queue: Queue<K>,
    key: K,
    waited: Duration,
    ended: bool,
}

impl<K: WorkKey> Work<K> {
    pub(super) fn new(queue: Queue<K>, Popped { key, waited }: Popped<K>) -> Self {
        Self {
            queue,
            key,
            waited,
            ended: false,
        }
    }

    /// The key to work on.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// How long the key was ready before a worker took it.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Records that the work hangs, or did: other keys must find a slot all the same. Returns
    /// whether it did not hang before. See [`State::hangs`](super::state::State::hangs).
    pub fn hangs(&self) -> bool {
        self.queue.inner.lock().state.hangs(&self.key)
    }

    /// Ends the work: nothing is left to do for now, or the object is gone. Forgets failures.
    pub fn done(mut self) {
        self.ended = true;
        let ran = self.queue.inner.lock().state.done(&self.key, now());
        self.queue.ended(ran);
    }

    /// Ends failed work: the key runs again after its back-off, whose length is returned.
    pub fn retry(mut self) -> Duration {
        self.fail()
    }

    /// Ends work that did not fail but must be repeated after this delay.
    pub fn again_after(mut self, delay: Duration) {
        self.ended = true;
        let ran = self
            .queue
            .inner
            .lock()
            .state
            .again_after(&self.key, delay, now());
        self.queue.retried();
        self.queue.ended(ran);
    }

    fn fail(&mut self) -> Duration {
        self.ended = true;
        let inner = &self.queue.inner;
        let (ran, wait) = {
            let state = &mut inner.lock().state;
            let ended = state.retry(&self.key, now(), &inner.delay);
            if inner.server.get().is_some_and(Outage::is_on) {
                state.blocked(&self.key);
            }
            ended
        };
        self.queue.retried();
        self.queue.ended(ran);
        wait
    }
}

impl<K: WorkKey> Drop for Work<K> {
    fn drop(&mut self) {
        if !self.ended {
            self.fail();
        }
    }
}

impl<K: WorkKey> fmt::Debug for Work<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
