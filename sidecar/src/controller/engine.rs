//! Drives a [`Reactor`]: informers' events become keys in queues, a worker executes the requests that a
//! key needs, and the queue learns how the attempt ended.

mod bound;
mod explain;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use super::reactor::{DueOf, Now, Reactor, ReplyOf, Verdict};
use super::request::Ask as _;
use crate::outage::Outage;
use crate::queue::{Queue, Work};
use crate::trace::{self, Ending, Tracer, Traces};
use crate::verbose;
use crate::why::{self, Notes};

pub use bound::{Bound, Circle, MOST_REQUESTS};

/// Stands in for the limit of attempts whose reactor states none.
const NEVER: Duration = Duration::from_secs(86_400);

/// A reactor's surroundings: caches, clients and the log.
pub trait Shell<R: Reactor>: Send + Sync + 'static {
    /// The caches and the driver, on which decisions are based.
    fn informers(&self) -> &R::Informers;

    /// Executes one request. On return, the caches contain what it wrote.
    fn execute(&self, request: R::Request) -> impl Future<Output = ReplyOf<R>> + Send;

    /// Logs the notice.
    fn note(&self, notice: R::Notice);

    /// An attempt on `key` failed, for the `failures`-th time in a row, and is retried after `wait`.
    fn failed(&self, key: &R::Key, failure: &R::Failure, failures: u32, wait: Duration);

    /// Starts nothing any more. For work that runs beside the reactor.
    fn shut_down(&self) {}
}

/// A reactor with its queues and its shell.
pub struct Engine<R: Reactor, S> {
    reactor: Mutex<R>,
    queues: Vec<Queue<R::Key>>,
    shell: S,
    traces: OnceLock<Traces<R::Key>>,
    /// For answers about objects, with `--why-endpoint`.
    notes: OnceLock<Notes<R>>,
    /// It has begun to work: the lists that it needs are complete.
    serves: AtomicBool,
}

impl<R: Reactor, S: Shell<R>> Engine<R, S> {
    /// An engine that does not work yet. `shell` gets a handle on it for the caches, whose changes go to
    /// [`observe`](Self::observe).
    pub fn new(
        reactor: R,
        queues: Vec<Queue<R::Key>>,
        shell: impl FnOnce(&Weak<Self>) -> S,
    ) -> Arc<Self> {
        Arc::new_cyclic(|engine| Self {
            reactor: Mutex::new(reactor),
            queues,
            shell: shell(engine),
            traces: OnceLock::new(),
            notes: OnceLock::new(),
            serves: AtomicBool::new(false),
        })
    }

    /// The shell that [`new`](Self::new) built.
    pub fn shell(&self) -> &S {
        &self.shell
    }

    /// Retries keys that failed while this server was unreachable as soon as it answers again.
    pub fn depends_on(&self, server: &Outage) {
        self.queues
            .iter()
            .for_each(|queue| queue.depends_on(server));
    }

    /// Traces attempts from now on; without a tracer nothing changes.
    pub fn traced_by(&self, tracer: Option<Tracer>) {
        if let Some(tracer) = tracer {
            let _another = self.traces.set(Traces::new(tracer));
        }
    }

    /// Starts no further attempts.
    pub fn shut_down(&self) {
        self.queues.iter().for_each(Queue::shut_down);
        self.shell.shut_down();
    }

    /// Waits until no attempt runs.
    pub async fn drained(&self) {
        for queue in &self.queues {
            queue.drained().await;
        }
    }

    /// Number of attempts that are running.
    pub fn running(&self) -> usize {
        let lanes = self.queues.iter().flat_map(Queue::lanes);
        lanes.map(|lane| lane.running).sum()
    }

    /// Works until [`shut_down`](Self::shut_down), then waits for running attempts. Dropping the future aborts
    /// them.
    pub async fn serve(self: &Arc<Self>) {
        self.serves.store(true, Ordering::Relaxed);
        let serving = self.queues.iter().map(|queue| {
            queue.serve(|work| {
                let (engine, queue) = (Arc::clone(self), queue.clone());
                async move { engine.work(&queue, work).await }
            })
        });
        join_all(serving).await;
    }

    /// Passes a change in the caches or of the driver to the reactor.
    pub fn observe(&self, change: R::Change<'_>) {
        let traces = self.traces.get();
        let over = self.turn(|reactor, informers| {
            let over = traces.and_then(|_| reactor.over(&change, informers));
            (over, reactor.observe(change, informers))
        });
        if let (Some(traces), Some(over)) = (traces, over) {
            traces.over(over);
        }
    }

    /// Gives `ask` the reactor, then logs the notices and queues the keys that it made due.
    pub fn turn<T>(&self, ask: impl FnOnce(&mut R, &R::Informers) -> (T, DueOf<R>)) -> T {
        let (answer, due) = ask(&mut self.reactor(), self.shell.informers());
        for notice in due.notices {
            self.shell.note(notice);
        }
        for wake in due.wakes {
            if let Some(queue) = self.queues.get(wake.queue) {
                if wake.unless_delayed {
                    queue.resync(&wake.key, wake.place)
                } else {
                    queue.add(&wake.key, wake.place)
                }
            }
        }
        answer
    }

    /// Never held across an await. Because the caches are read under this lock, they report changes without
    /// holding one of their own.
    fn reactor(&self) -> MutexGuard<'_, R> {
        self.reactor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn work(&self, queue: &Queue<R::Key>, work: Work<R::Key>) {
        let traced = self.trace(queue, &work);
        let noted = self.notes.get().map(|notes| notes.begins(work.key()));
        let attempt = trace::within(traced.as_ref(), self.attempt(&work));
        let (attempt, circle) = why::within(noted, attempt).await;
        let verdict = self.turn(|reactor, informers| reactor.end(attempt, informers, now()));
        if let (Some(traces), Some(running)) = (self.traces.get(), traced) {
            let left = self.reactor().subject(work.key(), self.shell.informers());
            traces.ended(running, ending(&verdict, circle.is_some()), left);
        }
        if let Some(notes) = self.notes.get() {
            notes.ends(work.key(), &verdict, circle.as_ref());
        }
        match (verdict, circle) {
            // The verdict neither reports the failure nor schedules a retry.
            (Verdict::Done | Verdict::After { failure: None, .. }, Some(circle)) => {
                let key = work.key().clone();
                let wait = work.retry();
                let failures = queue.failures(&key);
                tracing::error!(?key, failures, retry_after = ?wait, err = %circle, "Error processing");
            }
            (Verdict::Done, None) => work.done(),
            (Verdict::Retry { failure, hung }, _) => {
                if hung {
                    work.hangs();
                }
                let key = work.key().clone();
                let wait = work.retry();
                let failures = queue.failures(&key);
                self.shell.failed(&key, &failure, failures, wait);
            }
            (Verdict::After { delay, failure }, _) => {
                let key = work.key().clone();
                work.again_after(delay);
                if let Some(failure) = failure {
                    let failures = queue.failures(&key);
                    self.shell.failed(&key, &failure, failures, delay);
                }
            }
        }
    }

    /// Begins a span for the attempt if its key stands for an object.
    fn trace(&self, queue: &Queue<R::Key>, work: &Work<R::Key>) -> Option<trace::Running<R::Key>> {
        let (traces, key) = (self.traces.get()?, work.key());
        let subject = self.reactor().subject(key, self.shell.informers());
        let Some(subject) = subject else {
            traces.forget(key);
            return None;
        };
        Some(traces.begin(key, subject, queue.failures(key), work.waited()))
    }

    /// Executes the attempt's requests, and tells the queue if it takes unusually long.
    async fn attempt(&self, work: &Work<R::Key>) -> (R::Attempt, Option<Circle>) {
        let limit = {
            let reactor = self.reactor();
            reactor.hangs_after(work.key(), self.shell.informers())
        };
        let mut requests = Box::pin(self.requests(work.key()));
        tokio::select! {
            biased;
            attempt = &mut requests => attempt,
            () = sleep(limit.unwrap_or(NEVER)) => {
                if work.hangs() {
                    verbose!(4, key = ?work.key(), "Slow attempt; this node now gets fewer workers");
                }
                requests.await
            }
        }
    }

    /// The finished attempt, and why some of its requests were not sent, if any.
    async fn requests(&self, key: &R::Key) -> (R::Attempt, Option<Circle>) {
        let (mut attempt, mut bound) = {
            let mut reactor = self.reactor();
            let bound = Bound::new(reactor.most_requests(key));
            (reactor.begin(key, self.shell.informers(), now()), bound)
        };
        let mut circle = None;
        loop {
            let request = {
                let mut reactor = self.reactor();
                reactor.decide(&mut attempt, self.shell.informers(), now())
            };
            let Some(request) = request else {
                return (attempt, circle);
            };
            let reply = match bound.admit(&request) {
                Ok(()) => {
                    let notes = self.notes.get();
                    if let Some(notes) = notes {
                        notes.asks(key, &request);
                    }
                    let reply = self.shell.execute(request).await;
                    if let Some(notes) = notes {
                        notes.answered(key, &reply);
                    }
                    bound.answered::<R::Request>(&reply);
                    verbose!(5, ?key, step = R::Request::line(&reply), "Step");
                    reply
                }
                Err(why) => {
                    circle = Some(why);
                    request.unsent(why.to_string())
                }
            };
            self.turn(|reactor, informers| ((), reactor.answered(&mut attempt, reply, informers)));
            if bound.is_exhausted() {
                return (attempt, circle);
            }
        }
    }
}

fn ending<F>(verdict: &Verdict<F>, circle: bool) -> Ending {
    match verdict {
        _ if circle => Ending::Failed,
        Verdict::Done => Ending::Done,
        Verdict::After { failure: None, .. } => Ending::Later,
        Verdict::Retry { .. } | Verdict::After { .. } => Ending::Failed,
    }
}

/// The time by both clocks: that of queues, and that of objects.
pub(crate) fn now() -> Now {
    Now {
        instant: Instant::now().into_std(),
        timestamp: Timestamp::now(),
    }
}

#[cfg(test)]
mod tests;
