//! Attempts for claims: from the queue, step by step, back to the queue.
//!
//! Decisions are [`plan::claim`](crate::plan::claim)'s. What is left here is to see what the caches
//! say, have the step carried out, and tell queue, books, events and metrics how it ended.

use std::sync::Arc;
use std::time::Duration;

use sidecar::kube::events::Severity;
use sidecar::queue::Work;
use sidecar::verbose;
use tokio::time::Instant;

use super::provisioner::Provisioner;
use crate::model::{Claim, Grant};
use crate::plan::claim::{Attempt, Effect, End, Failure, Step};
use crate::plan::memory::{ClaimKey, Outcome};
use crate::plan::request::Prepared;
use crate::plan::view::View;

/// An attempt and the newest that it knows of its claim.
pub(super) struct Run {
    pub(super) key: ClaimKey,
    pub(super) attempt: Attempt,
    pub(super) claim: Arc<Claim>,
    /// The claim was gone from the API when the attempt began.
    pub(super) gone: bool,
}

/// How an attempt is over.
pub(super) enum Over {
    /// Without a failure.
    End(End),
    /// With one.
    Failed(Failure),
}

impl Provisioner {
    /// Works on claims until the queue is shut down, then waits for what still runs.
    pub async fn serve_claims(self: &Arc<Self>) {
        let serve = self.cluster.claim_queue.serve(|work| {
            let this = Arc::clone(self);
            async move { this.work_on_claim(work).await }
        });
        serve.await;
    }

    async fn work_on_claim(&self, work: Work<ClaimKey>) {
        let key = work.key().clone();
        let Some((claim, gone)) = self.look_up(&key) else {
            verbose!(4, claim = &*key.name, "The claim is gone or needs nothing");
            return work.done();
        };
        let wait = self.slow(&key, &claim);
        if !wait.is_zero() {
            verbose!(2, claim = &*key.name, retry_after = ?wait, "Not asking again yet");
            return work.again_after(wait);
        }
        let started = Instant::now();
        let start = self.cluster.memory().begin(&key);
        let mut run = Run {
            key,
            attempt: Attempt::new(start, !gone && claim.volume.is_empty()),
            claim,
            gone,
        };
        let over = Box::pin(self.provision(&mut run)).await;
        if matches!(over, Over::End(End::Contend)) {
            return Box::pin(self.contend(work, &run)).await;
        }
        self.close_claim(work, &run, over, started.elapsed());
    }

    /// The claim, and whether it is gone and worked on only because a call is in doubt.
    fn look_up(&self, key: &ClaimKey) -> Option<(Arc<Claim>, bool)> {
        if let Some(claim) = self.cached(key) {
            return Some((claim, false));
        }
        let memory = self.cluster.memory();
        let claim = memory.doubtful_claim(key).map(Arc::clone)?;
        Some((claim, true))
    }

    fn cached(&self, key: &ClaimKey) -> Option<Arc<Claim>> {
        let claim = self.cluster.claims.get(&key.name)?;
        (claim.uid == key.uid).then_some(claim)
    }

    /// How long a request that the driver called impossible is not to be repeated.
    fn slow(&self, key: &ClaimKey, claim: &Claim) -> Duration {
        let class = self.cluster.classes.get(claim.class_name());
        let uid = class.as_ref().map(|class| &*class.uid);
        let now = Instant::now().into_std();
        self.cluster.memory().slow(key, uid, now)
    }

    /// Steps until there is none.
    async fn provision(&self, run: &mut Run) -> Over {
        loop {
            self.refresh(run);
            let mut step = self.decide_claim(run);
            let answer = match self.carry_out(run, &mut step).await {
                Ok(answer) => answer,
                Err(over) => return over,
            };
            if let Err(failure) = run.attempt.fold(&step, answer) {
                return Over::Failed(failure);
            }
        }
    }

    /// Goes on with what the cache knows, if that is newer. A claim that leaves the cache during an
    /// attempt has its volume by now, or is gone; the attempt ends as it would have.
    fn refresh(&self, run: &mut Run) {
        if let Some(claim) = self.cached(&run.key)
            && (claim.version == 0 || claim.version > run.claim.version)
        {
            run.claim = claim;
        }
    }

    pub(super) fn decide_claim(&self, run: &Run) -> Step {
        self.look(run, |view| run.attempt.decide(view))
    }

    /// Shows what is known at the moment, all of it from one moment.
    fn look<T>(&self, run: &Run, look: impl FnOnce(&View<'_>) -> T) -> T {
        let driver = self.driver.current();
        let class = self.cluster.classes.get(run.claim.class_name());
        let name = run.attempt.volume_name(&run.claim, &self.settings);
        let volume = name.ok().and_then(|name| self.cluster.volumes.get(&name));
        let mut grants: Vec<Arc<Grant>> = Vec::new();
        if self.settings.gates.cross_namespace {
            self.cluster
                .grants
                .for_each(|_, grant| grants.push(Arc::clone(grant)));
        }
        let places = self.cluster.places();
        look(&View {
            driver: &driver,
            settings: &self.settings,
            claim: &run.claim,
            gone: run.gone,
            class: class.as_deref(),
            volume_exists: volume.is_some(),
            volume_leaves: volume.is_some_and(|volume| volume.is_leaving()),
            grants: &grants,
            places: &places,
        })
    }

    fn close_claim(&self, work: Work<ClaimKey>, run: &Run, over: Over, took: Duration) {
        let (class, source) = labels(&run.claim);
        // Whose it is, is settled.
        self.cluster.contests().end(&run.key);
        match over {
            Over::End(end) => {
                self.note(run, run.attempt.outcome(Ok(end)));
                match end {
                    End::Provisioned => {
                        self.metrics.provisioned(class, source, took);
                        self.room_taken(run);
                        tracing::info!(claim = &*run.key.name, "Volume provisioned");
                    }
                    End::Stopped | End::Exists => self.metrics.not_provisioned(class, source),
                    End::NotOurs | End::Contend | End::Owing | End::Repaid => {}
                }
                work.done();
                self.go_on_repaying(run);
            }
            Over::Failed(failure) => self.close_failed(work, run, &failure),
        }
    }

    fn close_failed(&self, work: Work<ClaimKey>, run: &Run, failure: &Failure) {
        let class = run.claim.class_name();
        if failure.is_counted() {
            let (label, source) = labels(&run.claim);
            self.metrics.not_provisioned(label, source);
        }
        if !run.gone
            && let Some(text) = failure.event(class)
        {
            let reason = "ProvisioningFailed";
            self.news
                .claim(&run.claim, Severity::Warning, reason, &text);
        }
        self.note(run, run.attempt.outcome(Err(failure)));
        if let Some(cure) = failure.cure(class) {
            self.cluster.wait_for(cure, &run.key);
        }
        let claim = &*run.key.name;
        let effect = run.attempt.effect(failure);
        if effect != Effect::NoChange
            && let Some(capacity) = self.cluster.capacity.get()
        {
            capacity.failed(class);
        }
        self.forget_if_gone(&run.key);
        if run.gone {
            self.tell_of_owed(run, failure);
        }
        // Also if another node is to be selected: its own write wakes nobody, and a claim that is
        // bound immediately may go on without a node, or be anybody's again. A node that is selected
        // meanwhile wakes it.
        let wait = work.retry();
        let outcome = match effect {
            Effect::Reschedule => "Another node is to be selected",
            Effect::Finished | Effect::Infeasible | Effect::InBackground | Effect::NoChange => {
                "Provisioning failed"
            }
        };
        tracing::error!(claim, retry_after = ?wait, err = %failure, "{outcome}");
    }

    /// The claim may have gone during the attempt, when the books had nothing of it yet.
    fn forget_if_gone(&self, key: &ClaimKey) {
        if self.look_up(key).is_none() {
            self.cluster.memory().gone(key);
        }
    }

    /// What else is owed for a claim that needs no volume any more waits for nothing.
    fn go_on_repaying(&self, run: &Run) {
        let needed = !run.gone && run.claim.volume.is_empty();
        if !needed && self.cluster.memory().owes(&run.key.uid) {
            self.cluster.wake(&run.key);
        }
    }

    /// There is less room where the volume was made.
    fn room_taken(&self, run: &Run) {
        let Some(capacity) = self.cluster.capacity.get() else {
            return;
        };
        let topology = self.settings.gates.topology && self.driver.current().abilities.topology;
        let volume = run.attempt.volume().filter(|_| topology);
        let accessible = volume.map_or(&[][..], |volume| &volume.accessible_topology);
        capacity.provisioned(run.claim.class_name(), accessible);
    }

    fn note(&self, run: &Run, (outcome, owed): (Outcome<Prepared>, Vec<Arc<Prepared>>)) {
        let now = Instant::now().into_std();
        self.cluster.memory().end(&run.claim, outcome, owed, now);
        self.settle(&run.key);
    }
}

/// Labels of the metrics: the class by the field alone, and the kind of the data source.
fn labels(claim: &Claim) -> (&str, &str) {
    let class = claim.class.as_deref().unwrap_or_default();
    (class, claim.source_kind())
}
