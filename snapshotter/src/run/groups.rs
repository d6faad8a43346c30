//! Whether group snapshots are served by this process, which is settled before it leads.

use std::time::Duration;

use sidecar::controller::Seat;
use sidecar::flags::Exit;
use sidecar::kube::patch::collection;
use sidecar::refusal::{ApiError, Refusal};
use tokio::time::{sleep, timeout};

use crate::args::Config;
use crate::model::Kind;
use crate::plan::settings::Name;
use crate::work::api::Resources;

/// Pause before an API server that did not answer is asked again.
const PAUSE: Duration = Duration::from_secs(1);

/// How groups are named, if they are served: where the gate is on and both kinds are there.
///
/// # Errors
/// They are, and would be named by nothing.
pub(super) async fn served(seat: &Seat, config: &Config) -> Result<Option<Name>, Exit> {
    let Some(name) = &config.groups else {
        return Ok(None);
    };
    if let Err(error) = are_there(seat, config.timeout).await {
        // A conversion webhook that is gone shows in the server's words alone.
        tracing::warn!(
            err = %error,
            "Group snapshots are off until the next start: their custom resources cannot be listed in \
             version v1"
        );
        return Ok(None);
    }
    if name.prefix.is_empty() {
        let line = "group snapshot name prefix cannot be of length 0";
        return Err(Exit::failure(1, line));
    }
    if config.node.is_some() {
        tracing::info!(
            "VolumeGroupSnapshotContents have no node: they are left to a snapshotter without \
             --node-deployment, but for such as are labelled by hand"
        );
    }
    Ok(Some(name.clone()))
}

/// Lists both kinds, as little of them as there can be.
async fn are_there(seat: &Seat, limit: Duration) -> Result<(), ApiError> {
    let api = seat.api();
    let resources = Resources::of(Kind::Group);
    for resource in [resources.contents, resources.classes] {
        let path = format!("{}?limit=1", collection(&resource, None));
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
