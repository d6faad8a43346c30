//! Gets a driver's data about this node: `/csi.v1.Node/NodeGetInfo`.
//!
//! Opens a connection of its own for each call, as in kubelet, so that a replaced driver is noticed. It fails at once
//! if no driver listens; the caller retries.

use std::path::Path;

use csi_proto::csi::NodeGetInfoRequest;
use csi_proto::csi::node_client::NodeClient;
use tokio::time::Instant;
use tonic::{Code, Status};

use super::metrics::CsiOperations;
use super::socket;
use crate::kubelet::plan::csinode::NodeInfo;
use crate::kubelet::plan::schedule::CSI_TIMEOUT;

/// Full name of the call, a metric label.
const NODE_GET_INFO: &str = "/csi.v1.Node/NodeGetInfo";

/// The `:authority` that kubelet sends to drivers.
const AUTHORITY: &str = "localhost";

/// Calls `NodeGetInfo` on the driver's socket. `endpoint` is a bare path: `unix://` in front of it
/// makes it a path that does not exist, as in kubelet.
///
/// # Errors
/// The driver's status; `Unavailable` if it cannot be reached, `DeadlineExceeded` after two
/// minutes.
pub async fn node_info(
    driver: &str,
    endpoint: &str,
    operations: &CsiOperations,
) -> Result<NodeInfo, Status> {
    let begin = Instant::now();
    let answer = socket::call(CSI_TIMEOUT, NodeGetInfoRequest {}, async |request| {
        let channel = socket::connect(Path::new(endpoint), AUTHORITY).await?;
        NodeClient::new(channel).node_get_info(request).await
    })
    .await;
    let code = answer.as_ref().map_or_else(Status::code, |_| Code::Ok);
    operations.observe(driver, NODE_GET_INFO, code, begin.elapsed());
    let answer = answer?;
    Ok(NodeInfo {
        node_id: answer.node_id,
        max_volumes: answer.max_volumes_per_node,
        topology: answer
            .accessible_topology
            .map(|topology| topology.segments)
            .unwrap_or_default(),
    })
}
