//! Attempts on VolumeAttachments: from the queue, step by step, back to the queue.
//!
//! Decisions are [`plan`](crate::plan)'s. What is left here is to see what the caches say, have the
//! step carried out, and tell the queue how it ended.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sidecar::kube::api::Api;
use sidecar::queue::Work;
use sidecar::verbose;
use tokio::time::sleep;

use super::cluster::Cluster;
use super::complaint::Complaints;
use super::driver::DriverLink;
use super::step::{Carried, Run};
use crate::model::{Attachment, Text};
use crate::plan::attachment::{Attempt, Refresh, Step};
use crate::plan::lane::{self, Pace};
use crate::plan::memory::Item;
use crate::plan::outcome::{Direction, Failure};
use crate::plan::wake::{self, End, Next};

/// For an attempt of which nobody can say how long it should take.
const NEVER: Duration = Duration::from_secs(86_400);

/// Works on VolumeAttachments and on what hangs on them.
pub struct Attacher {
    /// Caches, queues and books.
    pub cluster: Arc<Cluster>,
    /// The driver.
    pub driver: Arc<DriverLink>,
    /// The API server, for single objects.
    pub api: Api,
    /// Where lasting failures are made known.
    pub complaints: Complaints,
    /// How long calls take, by lane.
    pub paces: Mutex<[Pace; 2]>,
}

/// What became of a key from the queue.
enum Outcome {
    /// There is nothing by this name to work on.
    Nothing,
    /// In doubt about the last write, and the object could not be read.
    Unread {
        /// Whether the attempt was to be made whatever the status says.
        forced: bool,
        /// Why not.
        failure: Failure,
    },
    /// There was an attempt.
    Tried(End, Run),
}

impl Attacher {
    /// Works until the queue is shut down, then waits for what still runs.
    pub async fn serve(self: &Arc<Self>) {
        let serve = self.cluster.queue.serve(|work| {
            let this = Arc::clone(self);
            async move { this.work(work).await }
        });
        serve.await;
    }

    async fn work(&self, work: Work<Item>) {
        match work.key().clone() {
            Item::Attachment(name) => {
                let attachment = self.cluster.attachments.get(&name);
                let direction = attachment.as_deref().map(Direction::of);
                let direction = direction.unwrap_or(Direction::Attach);
                let ended = { self.noticing(&work, direction, self.attempt(&name)) }.await;
                if let Outcome::Tried(End::Failed(failure), _) = &ended
                    && lane::hung(failure)
                {
                    work.hangs();
                }
                self.close(work, &name, ended);
            }
            Item::Orphan(target) => {
                let attempt = self.unpublish_orphan(&target);
                let ended = self.noticing(&work, Direction::Detach, attempt).await;
                self.close_orphan(work, &target, ended);
            }
        }
    }

    /// Notices when an attempt takes unusually long.
    async fn noticing<T>(
        &self,
        work: &Work<Item>,
        direction: Direction,
        attempt: impl Future<Output = T>,
    ) -> T {
        let mut attempt = Box::pin(attempt);
        let limit = self.hangs_after(direction).unwrap_or(NEVER);
        tokio::select! {
            biased;
            ended = &mut attempt => ended,
            () = sleep(limit) => {
                if work.hangs() {
                    let item = work.key();
                    verbose!(4, ?item, "Takes long, others of its node get fewer workers");
                }
                attempt.await
            }
        }
    }

    fn hangs_after(&self, direction: Direction) -> Option<Duration> {
        let paces = self.paces.lock().unwrap_or_else(PoisonError::into_inner);
        let pace = paces.get(lane::index(direction)).copied();
        pace.and_then(Pace::limit)
    }

    /// A successful call took this long.
    pub(super) fn observe(&self, direction: Direction, took: Duration) {
        let mut paces = self.paces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pace) = paces.get_mut(lane::index(direction)) {
            pace.observe(took);
        }
    }

    /// Tells queue and books how it ended.
    fn close(&self, work: Work<Item>, name: &Text, outcome: Outcome) {
        let (end, run) = match outcome {
            Outcome::Tried(end, run) => (end, run),
            Outcome::Nothing => {
                let ended = self.cluster.memory().end(name);
                work.done();
                return self.cluster.ended(ended);
            }
            Outcome::Unread { forced, failure } => {
                let mut memory = self.cluster.memory();
                memory.failed(name, &failure);
                if forced {
                    memory.force(name.clone());
                }
                let ended = memory.end(name);
                drop(memory);
                let wait = work.retry();
                tracing::error!(attachment = &**name, retry_after = ?wait, err = %failure, "Error processing");
                return self.cluster.ended(ended);
            }
        };
        let (next, ended) =
            wake::ended(&mut self.cluster.memory(), &end, &run.attempt, &run.current);
        match next {
            Next::Retry => {
                let wait = work.retry();
                if let End::Failed(failure) = end {
                    self.report(&run.current, &failure, wait);
                }
            }
            Next::Again => {
                self.cluster.look_at(&run.current);
                work.done();
            }
            Next::Change => work.done(),
        }
        self.cluster.ended(ended);
    }

    fn report(&self, attachment: &Attachment, failure: &Failure, wait: Duration) {
        let item = Item::Attachment(attachment.name.clone());
        let failures = self.cluster.queue.failures(&item);
        tracing::error!(
            attachment = &*attachment.name,
            node = &*attachment.node,
            direction = Direction::of(attachment).name(),
            failures,
            retry_after = ?wait,
            err = %failure,
            "Error processing"
        );
        let name = attachment.volume.as_ref();
        let volume = name.and_then(|name| self.cluster.volumes.get(name));
        self.complaints
            .failed(attachment, volume.as_deref(), failure, failures);
    }

    async fn attempt(&self, name: &Text) -> Outcome {
        let start = self.cluster.memory().begin(name);
        if start.doubtful {
            match self.read_again(name).await {
                Ok(true) => {}
                Ok(false) => return Outcome::Nothing,
                Err(error) => {
                    return Outcome::Unread {
                        forced: start.forced,
                        failure: Failure::Reread(error),
                    };
                }
            }
        }
        let Some(current) = self.cluster.attachments.get(name) else {
            return Outcome::Nothing;
        };
        let driver = self.driver.current();
        if *current.attacher != *driver.name {
            verbose!(
                4,
                attachment = &**name,
                "Skipping VolumeAttachment of another attacher"
            );
            return Outcome::Nothing;
        }
        self.cluster
            .memory()
            .works_on(name, current.volume.as_ref());
        let mut run = Run::new(current, start.forced);
        let end = match driver.abilities.publish {
            true => self.run(&mut run).await,
            false => self.mark_trivial(&mut run).await,
        };
        Outcome::Tried(end, run)
    }

    /// Steps until there is none.
    async fn run(&self, run: &mut Run) -> End {
        loop {
            let driver = self.driver.current();
            if let Some(end) = self.refresh(run) {
                return end;
            }
            let step = self.decide(run);
            let failure = match self.carry_out(run, step).await {
                Carried::On => continue,
                Carried::Ended(end) => return end,
                Carried::Failed(failure) => failure,
            };
            // Before it is recorded: what would cure it may appear meanwhile.
            self.cluster.memory().failed(&run.current.name, &failure);
            self.record_failure(run, &failure, &driver).await;
            return End::Failed(failure);
        }
    }

    /// Goes on with what the cache knows, if that is newer.
    fn refresh(&self, run: &mut Run) -> Option<End> {
        let cached = self.cluster.attachments.get(&run.current.name);
        match (run.attempt.refresh(&run.current, cached.as_deref()), cached) {
            (Refresh::Take, Some(cached)) => run.current = cached,
            (Refresh::Replaced, _) => return Some(End::Again),
            (Refresh::Gone, _) => return Some(End::Done),
            (Refresh::Keep, _) | (Refresh::Take, None) => {}
        }
        None
    }

    /// Looks and decides, in one go.
    fn decide(&self, run: &Run) -> Step {
        self.cluster
            .with_view(&run.current, |view| run.attempt.decide(view))
    }
}

impl Run {
    fn new(current: Arc<Attachment>, forced: bool) -> Self {
        Self {
            attempt: Attempt::new(&current, forced),
            current,
        }
    }
}
