//! Waits for the kinds of the snapshot API: a cluster's installation may start this program before it
//! creates the CRDs.

use std::time::Duration;

use sidecar::flags::Exit;
use sidecar::kube::api::{Api, ApiError};
use sidecar::kube::patch::collection;
use sidecar::kube::reflect::Resource;
use tokio::time::{Instant, sleep};

use super::api::{CLASSES, CONTENTS, GROUP_CLASSES, GROUP_CONTENTS, GROUP_SNAPSHOTS, SNAPSHOTS};

/// The first pause between two requests.
const FIRST: Duration = Duration::from_millis(100);

/// Waits until the three kinds exist, at most `timeout`.
///
/// # Errors
/// The exit code and text: a kind is missing, or may not be listed.
pub async fn wait(api: &Api, timeout: Duration) -> Result<(), Exit> {
    let (begun, mut pause) = (Instant::now(), FIRST);
    loop {
        let Err((resource, error)) = look(api).await else {
            return Ok(());
        };
        if error.is_forbidden() {
            // Waiting does not help against a missing right.
            let line = format!(
                "may not list {}.{}, which the role of this program must allow: {error}",
                resource.plural, resource.group
            );
            return Err(Exit::failure(1, line));
        }
        let left = timeout.saturating_sub(begun.elapsed());
        if left.is_zero() {
            let line =
                format!("Exiting due to failure to ensure CRDs exist during startup: {error}");
            return Err(Exit::failure(1, line));
        }
        tracing::warn!(
            resource = resource.plural,
            err = %error,
            "Cannot list a kind of the snapshot API yet, waiting for it"
        );
        sleep(pause.min(left)).await;
        pause = pause.mul_f64(1.5);
    }
}

async fn look(api: &Api) -> Result<(), (Resource, ApiError)> {
    for resource in [SNAPSHOTS, CLASSES, CONTENTS] {
        list(api, &resource)
            .await
            .map_err(|error| (resource, error))?;
    }
    Ok(())
}

async fn list(api: &Api, resource: &Resource) -> Result<(), ApiError> {
    let path = format!("{}?limit=1", collection(resource, None));
    api.read(&path).await.map(drop)
}

/// Whether the three kinds of group snapshots exist and may be listed.
pub async fn groups(api: &Api) -> bool {
    match groups_are_listed(api).await {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(
                err = %error,
                "Cannot list VolumeGroupSnapshots v1, continuing without group snapshots"
            );
            false
        }
    }
}

/// Waits until the group kinds exist and may be listed, without limit: one request per `pause`.
pub async fn until_groups(api: &Api, pause: Duration) {
    loop {
        sleep(pause).await;
        if groups_are_listed(api).await.is_ok() {
            tracing::info!("VolumeGroupSnapshots have appeared, group snapshots are served");
            return;
        }
    }
}

async fn groups_are_listed(api: &Api) -> Result<(), ApiError> {
    for resource in [GROUP_SNAPSHOTS, GROUP_CLASSES, GROUP_CONTENTS] {
        list(api, &resource).await?;
    }
    Ok(())
}
