//! Writes pods' states to the API server: a pod runs once its volumes are mounted, and is removed
//! once nothing of it is left. Containers are not run.

use registrar::kubelet::work::api::Api;
use serde_json::{Value, json};
use sidecar::error::Chain;
use tracing::{info, warn};

use crate::model::volume::PodRef;
use crate::plan::layout::pod_name;

/// The status of a running pod, as a strategic merge patch.
fn running(now: &str) -> Value {
    let condition = |kind: &str| json!({ "type": kind, "status": "True" });
    let conditions = ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition);
    json!({ "phase": "Running", "startTime": now, "conditions": conditions })
}

/// Sets the pod to Running. Returns whether no retry is needed.
pub(super) async fn run(api: &Api, pod: &PodRef, now: &str) -> bool {
    let PodRef {
        namespace,
        name,
        uid,
        ..
    } = pod;
    let status = running(now);
    match api.patch_pod_status(namespace, name, uid, &status).await {
        Ok(_) => {
            info!(pod = pod_name(pod), "Volumes are mounted, the pod runs");
            true
        }
        // The pod is gone, or another pod has its name.
        Err(error) if error.is_not_found() || error.is_conflict() => true,
        Err(error) => {
            let (pod, error) = (pod_name(pod), Chain(&error));
            warn!(pod, %error, "Cannot set the pod to Running");
            false
        }
    }
}

/// Removes a pod of which nothing is left. Returns whether no retry is needed.
pub(super) async fn remove(api: &Api, pod: &PodRef) -> bool {
    let PodRef {
        namespace,
        name,
        uid,
        ..
    } = pod;
    match api.delete_pod(namespace, name, uid).await {
        Ok(()) => {
            info!(
                pod = pod_name(pod),
                "Volumes are unmounted, the pod is gone"
            );
            true
        }
        Err(error) if error.is_not_found() => true,
        Err(error) => {
            let (pod, error) = (pod_name(pod), Chain(&error));
            warn!(pod, %error, "Cannot remove the pod");
            false
        }
    }
}

/// The current time as the API formats it.
pub(super) fn wall_clock() -> String {
    let now = jiff::Timestamp::now();
    let seconds = jiff::Timestamp::from_second(now.as_second());
    seconds.unwrap_or(now).to_string()
}
