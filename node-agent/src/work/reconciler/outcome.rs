//! Applies the outcome of an operation to the world, the metrics, the log and the pod's events.

use registrar::kubelet::plan::keys::clip;
use sidecar::kube::events::{Reference, Severity};
use sidecar::verbose;
use tokio::time::Instant;
use tracing::warn;

use super::super::disk;
use super::{Ended, Reconciler};
use crate::model::volume::PodRef;
use crate::plan::layout::pod_name;
use crate::plan::operation::Kind;
use crate::plan::script::Mount;

impl Reconciler {
    pub(super) fn record_event(
        &self,
        pod: &PodRef,
        severity: Severity,
        reason: &'static str,
        message: &str,
    ) {
        let about = Reference {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            resource_version: String::new(),
        };
        self.context
            .events
            .record(&about, severity, reason, clip(message));
    }

    pub(super) fn ended(&mut self, ended: Ended) {
        let Ended {
            key,
            operation,
            attempt,
            paths,
            pod,
            changes,
            result,
            elapsed,
        } = ended;
        let now = Instant::now();
        let pause = self
            .operations
            .finish(&attempt, result.is_ok(), now.into_std());
        let Some(state) = self.world.volume_mut(&key) else {
            return;
        };
        let before = operation.pod().and_then(|uid| state.have.get(uid)).cloned();
        state.apply(&operation, &paths, &changes);
        let (name, driver, block) = (state.name.clone(), state.driver.clone(), state.block);
        let kind = operation.kind().name(block);
        self.context
            .metrics
            .observe(&driver, kind, result.is_ok(), elapsed);
        let pod_text = pod.as_ref().map(pod_name).unwrap_or_default();
        match &result {
            Ok(()) => {
                let again = before.is_some_and(|before| before.mount == Mount::Mounted);
                verbose!(2, volume = name, pod = pod_text, kind, again, "done");
                if operation.kind() == Kind::Mount
                    && block
                    && !again
                    && let Some(pod) = &pod
                {
                    let message = format!("MapVolume.MapPodDevice succeeded for volume {name:?}");
                    self.record_event(pod, Severity::Normal, "SuccessfulMountVolume", &message);
                }
            }
            Err(error) => {
                let pause = pause.map(|then| then.saturating_duration_since(now.into_std()));
                let retry_after_ms = pause.unwrap_or_default().as_millis();
                warn!(
                    volume = name,
                    pod = pod_text,
                    kind,
                    error,
                    retry_after_ms,
                    "Failed"
                );
                if let (Kind::Mount | Kind::Expand, Some(pod)) = (operation.kind(), &pod) {
                    let reason = match (operation.kind(), block) {
                        (Kind::Expand, _) => "VolumeResizeFailed",
                        (_, true) => "FailedMapVolume",
                        (_, false) => "FailedMount",
                    };
                    self.record_event(pod, Severity::Warning, reason, error);
                }
            }
        }
        if let Some(uid) = operation.pod().filter(|uid| !self.world.has_any(uid)) {
            disk::tidy_pod(&self.context.actor.layout, uid);
        }
    }
}
