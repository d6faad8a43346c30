//! The loop: compares the wanted volumes with the mounted ones and starts the missing operations.
//!
//! It sleeps until something it depends on changes: a pod, the Node, the end of an operation or of a
//! back-off, or until a pod has to be looked up again.

mod outcome;
mod pass;
mod pod_state;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use registrar::kubelet::plan::keys::clip;
use registrar::kubelet::work::exhausted::{Attachments, PodKey};
use sidecar::kube::events::{Recorder, Severity};
use sidecar::kube::key::Key;
use sidecar::kube::patch::{Part, Patch};
use sidecar::retry::RetryPolicy;
use sidecar::verbose;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

use super::act::Actor;
use super::metrics::StorageOperations;
use super::resolve::{Resolved, resolve};
use super::watch::{NODES, Watched};
use super::{disk, pods};
use crate::model::pod::Pod;
use crate::model::volume::PodRef;
use crate::plan::files;
use crate::plan::layout::{VolumePaths, pod_name};
use crate::plan::node::{NodeView, Report, Reports};
use crate::plan::operation::{Attempt, Operations};
use crate::plan::reconstruct;
use crate::plan::script::Changes;
use crate::plan::state::Operation;
use crate::plan::world::{Host, Task, World};

use pod_state::PodStates;

/// Interval at which kubelet syncs each pod; it adds up to half of it.
const SYNC_PERIOD: Duration = Duration::from_secs(60);
/// Back-off after a look-up with missing volumes.
const RESOLVE_BACK_OFF: RetryPolicy =
    RetryPolicy::new(Duration::from_millis(500), Duration::from_secs(10));
/// Pause after a failed write to the API server.
const WRITE_PAUSE: Duration = Duration::from_secs(1);
/// Time after which a waiting pod may wait for a volume that never comes.
const WAIT: Duration = Duration::from_secs(123);

/// Everything that the loop works with.
pub struct Context {
    /// Executes steps.
    pub actor: Actor,
    /// The watched Node and its pods.
    pub watched: Watched,
    /// Notified of every change of these.
    pub changed: Arc<Notify>,
    /// Events of pods.
    pub events: Recorder,
    /// Durations of operations.
    pub metrics: StorageOperations,
    /// Checks whether a full node blocks a pod.
    pub attachments: Arc<Attachments>,
    /// SELinux is enabled.
    pub se_linux: bool,
    /// Reports pods as running and removes deleted ones, which a kubelet would do.
    pub run_pods: bool,
    /// Returns a number from 0 up to, but not including, 1.
    pub random: fn() -> f64,
}

/// The loop.
pub struct Reconciler {
    context: Context,
    node: Key,
    world: World,
    operations: Operations,
    pods: PodStates,
    tasks: JoinSet<Done>,
    reports: Reports,
    report_not_before: Instant,
}

/// The end of a background task.
enum Done {
    Resolved(String, Resolved),
    Operation(Box<Ended>),
    Reported(Result<(), String>),
    Ran(String, bool),
    Removed(String, bool),
    Checked,
}

struct Ended {
    key: String,
    operation: Operation,
    attempt: Attempt,
    paths: VolumePaths,
    pod: Option<PodRef>,
    changes: Changes,
    result: Result<(), String>,
    elapsed: Duration,
}

impl Reconciler {
    /// Creates a loop for the node with this name.
    #[must_use]
    pub fn new(context: Context, node: Key) -> Self {
        Self {
            context,
            node,
            world: World::default(),
            operations: Operations::default(),
            pods: PodStates::default(),
            tasks: JoinSet::new(),
            reports: Reports::default(),
            report_not_before: Instant::now(),
        }
    }

    /// Runs until dropped, which also drops the operations under way. Nothing is lost: their
    /// progress is on disk.
    pub async fn run(mut self) {
        self.reconstruct();
        let watched = self.context.watched.clone();
        watched.synced().await;
        let changed = Arc::clone(&self.context.changed);
        loop {
            let next = self.pass();
            tokio::select! {
                biased;
                Some(done) = self.tasks.join_next() => match done {
                    Ok(done) => self.finish(done),
                    Err(error) => warn!(%error, "A task has ended by itself"),
                },
                () = changed.notified() => {}
                () = sleep_until(next) => {}
            }
        }
    }

    fn reconstruct(&mut self) {
        let layout = &self.context.actor.layout;
        let (pods, stages) = disk::scan(layout);
        let strange = reconstruct::enter(&mut self.world, layout, pods, stages);
        disk::tidy(&strange);
        for pod in disk::pods(layout) {
            if !self.world.has_any(&pod) {
                disk::tidy_pod(layout, &pod);
            }
        }
        let volumes = self.world.volumes().count();
        if volumes > 0 {
            info!(volumes, "Found volumes left by an earlier run");
        }
    }

    fn view(&self) -> NodeView {
        let view = self.context.watched.node.get(self.node.as_str());
        view.map(|view| (*view).clone()).unwrap_or_default()
    }

    fn host(&self, node: &NodeView) -> Host {
        Host {
            layout: self.context.actor.layout.clone(),
            labels: node.labels.clone(),
        }
    }

    fn finish(&mut self, done: Done) {
        match done {
            Done::Resolved(uid, resolved) => self.resolved(&uid, resolved),
            Done::Operation(ended) => self.ended(*ended),
            Done::Reported(result) => {
                self.reports.end(result.is_ok());
                if let Err(error) = result {
                    warn!(error, "Cannot report the volumes in use");
                    self.report_not_before = Instant::now() + WRITE_PAUSE;
                }
            }
            Done::Ran(uid, done) => {
                self.pods.written(&uid, done, Instant::now() + WRITE_PAUSE);
            }
            Done::Removed(uid, done) => {
                self.pods.written(&uid, done, Instant::now() + WRITE_PAUSE);
                disk::tidy_pod(&self.context.actor.layout, &uid);
            }
            Done::Checked => {}
        }
    }

    fn resolved(&mut self, uid: &str, resolved: Resolved) {
        let Resolved { wanted, mut errors } = resolved;
        // The pod may have ended during the look-up.
        let Some(pod) = self.pods.pod(uid).filter(|pod| !pod.ended).cloned() else {
            self.world.unwant(uid);
            return;
        };
        let layout = &self.context.actor.layout;
        if let Err(error) = self.world.want(layout, uid, wanted, errors.is_empty()) {
            errors.push(error.to_string());
        }
        let now = Instant::now();
        let jitter = SYNC_PERIOD.mul_f64(0.5 * (self.context.random)());
        let failures = self
            .pods
            .resolved(uid, errors.is_empty(), now + SYNC_PERIOD + jitter);
        if failures == 0 {
            return;
        }
        self.pods
            .look_at(uid, now + RESOLVE_BACK_OFF.delay(failures, 0.0));
        let (name, error) = (pod_name(&pod.names), errors.join("; "));
        warn!(pod = name, error, "The pod's volumes are not ready yet");
        let message = format!("Unable to attach or mount volumes: {error}");
        self.record_event(&pod.names, Severity::Warning, "FailedMount", &message);
    }

    fn report(&mut self, node: &NodeView, complete: bool, now: Instant) -> Option<Instant> {
        let report = Report {
            in_use: self.world.in_use(&node.in_use, complete),
            attached: None,
        };
        let patch = self.reports.next(node, &report)?;
        if now < self.report_not_before {
            return Some(self.report_not_before);
        }
        self.reports.begin(report);
        let (objects, key) = (self.context.actor.objects.clone(), self.node.clone());
        let cache = self.context.watched.node.clone();
        self.tasks.spawn(async move {
            let write = cache.begin_write(&key);
            let patch = Patch::Strategic(patch);
            let result = match objects.patch(&NODES, &key, Part::Status, &patch).await {
                Ok(json) => write
                    .answered(json.get())
                    .map(drop)
                    .map_err(|e| e.to_string()),
                Err(error) => Err(clip(&error.message).to_owned()),
            };
            Done::Reported(result)
        });
        None
    }

    fn start(&mut self, key: String, operation: Operation, host: &Host) {
        let attempt = operation.attempt(&key);
        let Some(task) = self.world.begin(&key, &operation, host) else {
            if operation == Operation::Forget {
                let left = self.world.forget(&key);
                // Drops a path even if its removal failed: no volume refers to it any more.
                let _ = disk::execute(&files::remove(left));
                self.operations.forget(&key);
            }
            self.operations
                .finish(&attempt, true, Instant::now().into_std());
            return;
        };
        let pod = match &task {
            Task::Mount(task) | Task::Expand(task) => Some(task.usage.pod.clone()),
            Task::Unpublish(_) | Task::Unstage(_) => {
                let pod = operation.pod().and_then(|uid| self.pods.pod(uid));
                pod.map(|pod| pod.names.clone())
            }
        };
        verbose!(4, volume = key, ?operation, "starting");
        let actor = self.context.actor.clone();
        self.tasks.spawn(async move {
            let begin = Instant::now();
            let (changes, result) = actor.run(&task).await;
            Done::Operation(Box::new(Ended {
                key,
                operation,
                attempt,
                paths: task.paths().clone(),
                pod,
                changes,
                result,
                elapsed: begin.elapsed(),
            }))
        });
    }

    fn resolve(&mut self, pod: Pod) {
        let (actor, se_linux) = (self.context.actor.clone(), self.context.se_linux);
        self.tasks.spawn(async move {
            let resolved = resolve(&actor, &pod, se_linux).await;
            Done::Resolved(pod.names.uid, resolved)
        });
    }

    fn write_status(&mut self, pod: PodRef, remove: bool) {
        let api = self.context.actor.kubelet.clone();
        let now = pods::wall_clock();
        self.tasks.spawn(async move {
            if remove {
                let done = pods::remove(&api, &pod).await;
                return Done::Removed(pod.uid, done);
            }
            let done = pods::run(&api, &pod, &now).await;
            Done::Ran(pod.uid, done)
        });
    }

    /// A pod has waited long: checks whether the node cannot take more volumes of the driver.
    fn check(&mut self, pod: &PodRef, missing: BTreeSet<(String, String)>) {
        let attachments = Arc::clone(&self.context.attachments);
        let pod = PodKey {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
        };
        self.tasks.spawn(async move {
            let missing: Vec<_> = missing.into_iter().collect();
            if let Err(error) = attachments.reject_if_exhausted(&pod, &missing).await {
                warn!(%error, "Cannot reject a pod");
            }
            Done::Checked
        });
    }
}
