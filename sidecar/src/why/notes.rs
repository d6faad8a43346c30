//! The attempts of one engine, and the deadline of the call that an attempt waits for.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::futures::TaskLocalFuture;

use super::attempt_log::{AttemptLog, Outcome};
use crate::controller::engine::{Circle, now};
use crate::controller::reactor::{Now, Reactor, ReplyOf, Verdict};
use crate::controller::request::Ask as _;
use crate::mutex::lock;

tokio::task_local! {
    /// The attempt that this task runs; `None` if nobody can ask.
    static SLOT: Option<Arc<Slot>>;
}

/// The deadline of the call under way.
#[derive(Debug, Default)]
pub(crate) struct Slot(Mutex<Option<Instant>>);

/// A call of the driver begins, and has this long.
pub(crate) fn call_begins(timeout: Duration) {
    let _outside = SLOT.try_with(|slot| {
        if let Some(slot) = slot {
            *lock(&slot.0) = now().instant.checked_add(timeout);
        }
    });
}

/// `work` as an attempt whose calls show their deadlines. Not an async function, whose future would contain `work` twice.
pub(crate) fn within<F: Future>(
    slot: Option<Arc<Slot>>,
    work: F,
) -> TaskLocalFuture<Option<Arc<Slot>>, F> {
    SLOT.scope(slot, work)
}

/// What an engine notes of its attempts.
pub(crate) struct Notes<R: Reactor> {
    attempts: Mutex<AttemptLog<R::Key>>,
    slots: Mutex<HashMap<R::Key, Arc<Slot>>>,
    /// The text of a failure.
    text: fn(&R::Failure) -> String,
}

impl<R: Reactor<Key: Eq + Hash>> Notes<R> {
    pub(crate) fn new(text: fn(&R::Failure) -> String) -> Self {
        Self {
            attempts: Mutex::default(),
            slots: Mutex::default(),
            text,
        }
    }

    /// An attempt on `key` begins.
    pub(crate) fn begins(&self, key: &R::Key) -> Arc<Slot> {
        let slot = Arc::new(Slot::default());
        lock(&self.slots).insert(key.clone(), Arc::clone(&slot));
        lock(&self.attempts).begins(key, now().instant);
        slot
    }

    /// It carries out this request.
    pub(crate) fn asks(&self, key: &R::Key, request: &R::Request) {
        lock(&self.attempts).asks(key, request.name(), now().instant);
    }

    /// The request ended.
    pub(crate) fn answered(&self, key: &R::Key, reply: &ReplyOf<R>) {
        if let Some(slot) = lock(&self.slots).get(key) {
            *lock(&slot.0) = None;
        }
        lock(&self.attempts).answered(key, R::Request::failure(reply), now().instant);
    }

    /// The attempt ended.
    pub(crate) fn ends(
        &self,
        key: &R::Key,
        verdict: &Verdict<R::Failure>,
        circle: Option<&Circle>,
    ) {
        lock(&self.slots).remove(key);
        let outcome = match (verdict, circle) {
            (Verdict::Retry { failure, .. }, _)
            | (
                Verdict::After {
                    failure: Some(failure),
                    ..
                },
                _,
            ) => Outcome::Failed((self.text)(failure)),
            (_, Some(circle)) => Outcome::Failed(circle.to_string()),
            (Verdict::After { failure: None, .. }, None) => Outcome::Later,
            (Verdict::Done, None) => Outcome::Done,
        };
        let Now { instant, timestamp } = now();
        lock(&self.attempts).ends(key, outcome, (instant, timestamp));
    }

    /// Looks into the attempts.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&AttemptLog<R::Key>) -> T) -> T {
        look(&lock(&self.attempts))
    }

    /// Time limit of the call that the attempt on `key` waits for.
    pub(crate) fn deadline(&self, key: &R::Key) -> Option<Instant> {
        let slot = lock(&self.slots).get(key).cloned()?;
        *lock(&slot.0)
    }
}
