//! The work queue: the keys of a controller, their order, delays and failures.
//!
//! A thin tokio shell around [`State`], which holds all rules: it provides the clock, wakes waiters,
//! counts, and logs the backlog. See `docs/adr/0006-own-queue-and-election.md`.

mod backlog;
mod entry;
mod key_state;
mod lane;
mod metrics;
mod state;
mod work;

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::metrics::RegisterError;
use crate::outage::Outage;
use crate::retry::RetryPolicy;
use backlog::Backlog;
use metrics::{Counters, Snapshot};

pub use backlog::FIRST_REPORT;
pub use entry::{LaneStats, Place, Popped};
pub use key_state::{KeyState, Stage};
pub use lane::{Group, LaneConfig};
pub use metrics::Metrics;
pub use state::State;
pub use work::{Work, WorkKey};

/// Maps the number of consecutive failures, at least 1, to the delay before the next attempt.
pub type Delay = Box<dyn Fn(u32) -> Duration + Send + Sync>;

/// `start` after the first failure, twice as long after each further one, `max` at most; without
/// jitter, like upstream's queues.
#[must_use]
pub fn exponential(start: Duration, max: Duration) -> Delay {
    let policy = RetryPolicy::new(start, max);
    Box::new(move |failures| policy.delay(failures, 0.0))
}

/// Settings of a queue.
pub struct Config {
    /// Label `name` of the metrics, unique in the process, for example `csi-attacher-va`.
    pub name: Cow<'static, str>,
    /// The lanes; [`Place::lane`] is an index into them. Empty means one lane with one slot.
    pub lanes: Vec<LaneConfig>,
    /// Slots beyond the reserved ones, for whichever lane has work.
    pub shared: usize,
    /// The back-off after failures.
    pub delay: Delay,
    /// The queue's metrics, if any.
    pub metrics: Option<Metrics>,
}

impl Config {
    /// A queue without lanes and groups, which runs `workers` keys at a time.
    pub fn new(name: impl Into<Cow<'static, str>>, workers: usize, delay: Delay) -> Self {
        let lane = LaneConfig {
            name: "all",
            reserved: workers,
            group_limit: None,
        };
        Self {
            name: name.into(),
            lanes: vec![lane],
            shared: 0,
            delay,
            metrics: None,
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

struct Inner<K> {
    name: Cow<'static, str>,
    locked: Mutex<Locked<K>>,
    delay: Delay,
    counters: Option<Counters>,
    changed: Notify,
    server: OnceLock<Outage>,
}

struct Locked<K> {
    state: State<K>,
    /// Number of ended outages at the last check.
    outages: u64,
    backlogs: Vec<Backlog>,
}

/// A handle on a work queue; clones share the queue.
pub struct Queue<K> {
    inner: Arc<Inner<K>>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<K> fmt::Debug for Queue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("name", &self.inner.name)
            .finish_non_exhaustive()
    }
}

enum Next<K> {
    Work(Popped<K>),
    Sleep(Option<Instant>),
    Closed,
}

impl<K: WorkKey> Queue<K> {
    /// An empty queue.
    ///
    /// # Errors
    /// The metrics refuse the queue's name as a label, which no text causes.
    pub fn new(config: Config) -> Result<Self, RegisterError> {
        let state = State::new(config.lanes, config.shared);
        let backlogs = state.lanes(now()).map(|_| Backlog::new()).collect();
        let locked = Mutex::new(Locked {
            state,
            outages: 0,
            backlogs,
        });
        let mut failed = None;
        let inner = Arc::new_cyclic(|weak: &std::sync::Weak<Inner<K>>| {
            let counters = config.metrics.and_then(|metrics| {
                let weak = weak.clone();
                let source = Box::new(move || weak.upgrade().map(|inner| inner.snapshot()));
                metrics
                    .queue(&config.name, source)
                    .map_err(|error| failed = Some(error))
                    .ok()
            });
            let changed = Notify::new();
            Inner {
                name: config.name,
                locked,
                delay: config.delay,
                counters,
                changed,
                server: OnceLock::new(),
            }
        });
        failed.map_or(Ok(Self { inner }), Err)
    }

    /// Retries keys that failed while this server did not answer as soon as it does. Call it once
    /// per queue.
    pub fn depends_on(&self, server: &Outage) {
        self.inner.lock().outages = server.ended();
        let _another = self.inner.server.set(server.clone());
    }

    /// Makes the key ready at once, even during its back-off: for a change of the object.
    pub fn add(&self, key: &K, place: Place) {
        let added = self.inner.lock().state.add(key, place, now());
        self.added(usize::from(added));
    }

    /// Makes the key ready unless it is backing off: for resyncs, which report no change.
    pub fn resync(&self, key: &K, place: Place) {
        let added = self
            .inner
            .lock()
            .state
            .add_unless_delayed(key, place, now());
        self.added(usize::from(added));
    }

    /// Makes the key ready after this delay, or at an earlier time already requested.
    pub fn add_after(&self, key: &K, place: Place, delay: Duration) {
        let added = self.inner.lock().state.add_after(key, place, delay, now());
        self.retried();
        self.added(usize::from(added));
    }

    /// Number of this key's failures that count towards its next delay.
    pub fn failures(&self, key: &K) -> u32 {
        self.inner.lock().state.failures(key)
    }

    /// Depth, running keys and oldest wait of each lane.
    pub fn lanes(&self) -> Vec<LaneStats> {
        self.inner.lock().state.lanes(now()).collect()
    }

    /// Takes the next key, once one is ready and has a slot; `None` once the queue is shut down.
    ///
    /// May be called from several tasks, and dropped at any point without losing a key. The lanes
    /// limit the number of running keys, however many tasks call.
    pub async fn get(&self) -> Option<Work<K>> {
        loop {
            let changed = self.inner.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            match self.inner.next() {
                Next::Closed => return None,
                Next::Work(popped) => {
                    if let Some(counters) = &self.inner.counters {
                        counters.queue_duration.observe(popped.waited.as_secs_f64());
                    }
                    return Some(Work::new(self.clone(), popped));
                }
                Next::Sleep(until) => tokio::select! {
                    () = changed => {}
                    () = self.inner.server_answers_again() => {}
                    () = at(until) => {}
                },
            }
        }
    }

    /// Runs `handler` for key after key, each in its own task, until the queue is shut down, then
    /// waits for the running ones. Dropping it aborts them.
    pub async fn serve<F, T>(&self, handler: F)
    where
        F: Fn(Work<K>) -> T,
        T: Future<Output = ()> + Send + 'static,
    {
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                work = self.get() => match work {
                    Some(work) => {
                        running.spawn(handler(work));
                    }
                    None => break,
                },
                Some(ended) = running.join_next() => self.report(ended),
            }
        }
        while let Some(ended) = running.join_next().await {
            self.report(ended);
        }
    }

    /// Stops adding and handing out keys; running keys may end.
    ///
    /// client-go would still hand out ready keys; a sidecar that is terminating must not start work.
    pub fn shut_down(&self) {
        self.inner.lock().state.shut_down();
        self.inner.changed.notify_waiters();
    }

    /// Waits until no key is running.
    pub async fn drained(&self) {
        loop {
            let changed = self.inner.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.inner.lock().state.running() == 0 {
                return;
            }
            changed.await;
        }
    }

    fn report(&self, ended: Result<(), tokio::task::JoinError>) {
        if let Err(error) = ended {
            tracing::error!(queue = &*self.inner.name, %error, "A worker did not end as it should");
        }
    }

    fn added(&self, count: usize) {
        self.inner.count_adds(count);
        self.inner.changed.notify_waiters();
    }

    fn retried(&self) {
        if let Some(counters) = &self.inner.counters {
            counters.retries.inc();
        }
    }

    fn ended(&self, ran: Duration) {
        if let Some(counters) = &self.inner.counters {
            counters.work_duration.observe(ran.as_secs_f64());
        }
        self.inner.changed.notify_waiters();
    }
}

impl<K> Inner<K> {
    fn lock(&self) -> MutexGuard<'_, Locked<K>> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_adds(&self, count: usize) {
        if let Some(counters) = &self.counters {
            for _ in 0..count {
                counters.adds.inc();
            }
        }
    }
}

impl<K: Clone + Eq + Hash> Inner<K> {
    fn next(&self) -> Next<K> {
        let now = now();
        let mut locked = self.lock();
        let locked = &mut *locked;
        self.count_adds(locked.state.advance(now));
        let ended = self.server.get().map_or(0, Outage::ended);
        if ended != locked.outages {
            locked.outages = ended;
            self.count_adds(locked.state.unblock(now));
        }
        if locked.state.is_shut_down() {
            return Next::Closed;
        }
        if let Some(popped) = locked.state.pop(now) {
            return Next::Work(popped);
        }
        let mut until = locked.state.next_due();
        for (stats, backlog) in locked.state.lanes(now).zip(&mut locked.backlogs) {
            let wait = stats.oldest_wait;
            if backlog.observe(wait) {
                tracing::warn!(
                    queue = &*self.name,
                    lane = stats.lane,
                    depth = stats.depth,
                    running = stats.running,
                    oldest_wait_seconds = wait.as_secs(),
                    "Work is waiting for a free worker"
                );
            }
            if stats.depth > 0 {
                until = earlier(until, backlog.look_again(wait, now));
            }
        }
        Next::Sleep(until)
    }

    async fn server_answers_again(&self) {
        let known = self.lock().outages;
        match self.server.get() {
            Some(server) => server.ends(known).await,
            None => std::future::pending().await,
        }
    }

    fn snapshot(&self) -> Snapshot {
        let now = now();
        let locked = self.lock();
        Snapshot {
            lanes: locked.state.lanes(now).collect(),
            unfinished: locked.state.run_times(now).sum(),
            longest: locked.state.run_times(now).max().unwrap_or_default(),
        }
    }
}

/// Tokio's clock, so that tests can pause it.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests;
