//! Whether the kinds of group snapshots exist: a cluster's installer creates them in any order.

use std::time::Duration;

use sidecar::kube::api::{Api, ApiError};
use sidecar::kube::patch::collection;
use sidecar::refusal::Refusal;
use tokio::time::{sleep, timeout};

use super::api::Resources;
use crate::model::Kind;

/// Pause before a request is repeated to an API server that did not respond.
const PAUSE: Duration = Duration::from_secs(1);

/// Waits for ever until both kinds exist; checks once per `pause`.
pub async fn appear(api: &Api, pause: Duration) {
    loop {
        sleep(pause).await;
        if list(api).await.is_ok() {
            tracing::info!("The custom resources of group snapshots have appeared");
            return;
        }
    }
}

async fn list(api: &Api) -> Result<(), ApiError> {
    for path in paths() {
        api.read(&path).await?;
    }
    Ok(())
}

/// The smallest possible list requests for both kinds.
fn paths() -> [String; 2] {
    let Resources {
        contents, classes, ..
    } = Resources::of(Kind::Group);
    [contents, classes].map(|resource| format!("{}?limit=1", collection(&resource, None)))
}

/// Lists both kinds, and waits for a response, but no longer than `limit`.
///
/// # Errors
/// One of them cannot be listed.
pub async fn are_there(api: &Api, limit: Duration) -> Result<(), ApiError> {
    for path in paths() {
        let answered = async {
            loop {
                match api.read(&path).await {
                    Err(error) if error.refusal == Refusal::Unknown => sleep(PAUSE).await,
                    answer => return answer.map(drop),
                }
            }
        };
        let elapsed = |_| ApiError {
            message: format!("no answer within {limit:?}"),
            refusal: Refusal::Unknown,
        };
        timeout(limit, answered).await.map_err(elapsed)??;
    }
    Ok(())
}
