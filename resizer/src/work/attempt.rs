//! Attempts: from the queue, step by step, back to the queue.
//!
//! Decisions are [`plan`](crate::plan)'s. What is left here is to see what the caches say, have the
//! step carried out, and tell books, queue and log how it ended.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use sidecar::kube::api::Api;
use sidecar::kube::events::Recorder;
use sidecar::queue::Work;
use sidecar::verbose;
use tokio::time::Instant;

use super::cluster::Cluster;
use super::driver::DriverLink;
use crate::plan::attempt::Attempt;
use crate::plan::memory::Next;
use crate::plan::step::{End, Step};
use crate::plan::{Settings, Task};

/// Works on claims.
pub struct Resizer {
    /// Caches, queue and books.
    pub cluster: Arc<Cluster>,
    /// The driver.
    pub driver: Arc<DriverLink>,
    /// The API server, for single objects.
    pub api: Api,
    /// What decisions need of the command line.
    pub settings: Settings,
    /// Where users are told.
    pub events: Recorder,
}

impl Resizer {
    /// Works until the queue is shut down, then waits for what still runs.
    pub async fn serve(self: &Arc<Self>) {
        let serve = self.cluster.queue.serve(|work| {
            let this = Arc::clone(self);
            async move { this.work(work).await }
        });
        serve.await;
    }

    async fn work(&self, work: Work<Task>) {
        let task = work.key().clone();
        let Some(claim) = self.cluster.claims.get(&task.claim) else {
            return work.done();
        };
        let start = self.cluster.memory().begin(&task, &claim, now());
        // While the claim's other task runs, whose end brings this one back.
        let Some(start) = start else {
            return work.done();
        };
        let mut attempt = Attempt::new(&task, &claim, start);
        let end = Box::pin(self.run(&mut attempt)).await;
        self.close(work, &attempt, &end);
    }

    /// Steps until there is none.
    async fn run(&self, attempt: &mut Attempt) -> End {
        loop {
            let step = self.decide(attempt);
            match self.carry_out(attempt, &step).await {
                Ok(answer) => attempt.fold(&step, answer),
                Err(end) => return end,
            }
        }
    }

    /// Looks and decides, in one go.
    fn decide(&self, attempt: &Attempt) -> Step {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let by = (&*self.driver.current(), &self.settings);
        attempt.look(&*self.cluster, by, &now)
    }

    /// Tells books, queue and log how it ended.
    fn close(&self, work: Work<Task>, attempt: &Attempt, end: &End) {
        let task = work.key().clone();
        let ended = self.cluster.memory().end(&task, attempt, end, now());
        let wait = match ended.next {
            Next::Forget => {
                work.done();
                Duration::ZERO
            }
            Next::Again => {
                work.done();
                self.cluster.queue.add(&task, task.place());
                Duration::ZERO
            }
            Next::Backoff => work.retry(),
            Next::After(wait) => {
                work.again_after(wait);
                wait
            }
        };
        let (claim, kind) = (&*task.claim, task.kind.name());
        match end {
            End::Failed(failure) => tracing::error!(
                claim,
                work = kind,
                retry_after = ?wait,
                err = %failure,
                "Error processing"
            ),
            End::Later => verbose!(
                4,
                claim,
                work = kind,
                retry_after = ?wait,
                "Skipping, because it previously failed with infeasible error"
            ),
            End::Waits(cure) => {
                tracing::warn!(claim, work = kind, waits_for = ?cure, "Waiting");
            }
            End::Done | End::Again | End::Parked => {
                verbose!(4, claim, work = kind, "Processed");
            }
        }
        self.cluster.wake(ended.woken);
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}
