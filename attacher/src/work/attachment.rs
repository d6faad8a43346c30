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
use crate::plan::outcome::{Direction, Failure};
use crate::plan::{Driver, View};

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

/// How an attempt ended.
#[derive(Debug)]
pub(super) enum End {
    /// Nothing is left to do.
    Done,
    /// The goal changed: at once again.
    Again,
    /// Somebody else's end brings it back.
    Waits,
    /// It is to be retried.
    Failed(Failure),
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

    async fn work(&self, work: Work<Text>) {
        let name = work.key().clone();
        let mut attempt = Box::pin(self.attempt(&name));
        let lane = self
            .cluster
            .attachments
            .get(&name)
            .as_deref()
            .map(Direction::of);
        let limit = self.hangs_after(lane.unwrap_or(Direction::Attach));
        let ended = tokio::select! {
            biased;
            ended = &mut attempt => ended,
            () = sleep(limit.unwrap_or(NEVER)) => {
                if work.hangs() {
                    verbose!(4, attachment = &*name, "Takes long, others of its node get fewer workers");
                }
                attempt.await
            }
        };
        if let Outcome::Tried(End::Failed(failure), _) = &ended
            && lane::hung(failure)
        {
            work.hangs();
        }
        self.close(work, ended);
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
    fn close(&self, work: Work<Text>, outcome: Outcome) {
        let name = work.key().clone();
        let (end, run) = match outcome {
            Outcome::Tried(end, run) => (end, run),
            Outcome::Nothing => {
                let volume = self.cluster.memory().end(&name);
                work.done();
                return self.volume_is_free(volume);
            }
            Outcome::Unread { forced, failure } => {
                let mut memory = self.cluster.memory();
                memory.failed(&name, &failure);
                memory.end(&name);
                if forced {
                    memory.force(name.clone());
                }
                drop(memory);
                let wait = work.retry();
                tracing::error!(attachment = &*name, retry_after = ?wait, err = %failure, "Error processing");
                return;
            }
        };
        let turned = Direction::of(&run.current) != run.attempt.direction();
        let volume = {
            let mut memory = self.cluster.memory();
            if matches!(end, End::Waits) && run.attempt.forced() {
                memory.force(name.clone());
            }
            memory.end(&name)
        };
        match end {
            End::Failed(failure) if !turned => {
                let wait = work.retry();
                self.report(&run.current, &failure, wait);
            }
            End::Failed(_) | End::Again => {
                self.cluster.queue.add(&name, lane::place(&run.current));
                work.done();
            }
            End::Done | End::Waits => {
                if turned {
                    self.cluster.queue.add(&name, lane::place(&run.current));
                }
                work.done();
            }
        }
        self.volume_is_free(volume);
    }

    fn volume_is_free(&self, volume: Option<Text>) {
        if let Some(volume) = volume {
            self.cluster.look_at_volume(&volume);
        }
    }

    fn report(&self, attachment: &Attachment, failure: &Failure, wait: Duration) {
        let failures = self.cluster.queue.failures(&attachment.name);
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
            let step = self.decide(run, &driver);
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
    fn decide(&self, run: &Run, driver: &Driver) -> Step {
        let attachment = &run.current;
        let name = attachment.volume.as_ref();
        let volume = name.and_then(|name| self.cluster.volumes.get(name));
        let node = self.cluster.nodes.get(&attachment.node);
        run.attempt.decide(&View {
            driver,
            attachment,
            volume: volume.as_deref(),
            node: node.as_deref(),
        })
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
