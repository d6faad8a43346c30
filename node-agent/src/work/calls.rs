//! Calls to drivers. Each one has its own connection, as in kubelet, and part of the operation's
//! deadline.

use std::path::Path;
use std::time::Duration;

use csi_proto::csi;
use csi_proto::csi::node_client::NodeClient;
use csi_proto::csi::node_service_capability::Type;
use csi_proto::csi::node_service_capability::rpc::Type as Rpc;
use registrar::kubelet::plan::keys::clip;
use registrar::kubelet::work::metrics::CsiOperations;
use registrar::kubelet::work::socket;
use sidecar::{rpc_code, verbose};
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::plan::script::{Answer, Call, Capabilities, Failure, Reply};

/// Kubelet's `:authority` towards drivers.
const AUTHORITY: &str = "localhost";

/// Calls the driver; the reply comes within `limit`.
pub(super) async fn call(
    driver: &str,
    endpoint: &str,
    call: &Call,
    limit: Duration,
    operations: &CsiOperations,
) -> Reply {
    let begin = Instant::now();
    let method = method(call);
    let answer = send(endpoint, call, limit).await;
    let code = answer.as_ref().map_or_else(Status::code, |_| Code::Ok);
    let elapsed = begin.elapsed();
    operations.observe(driver, &format!("/csi.v1.Node/{method}"), code, elapsed);
    verbose!(
        4,
        driver,
        method,
        code = rpc_code::name(code),
        request = ?call,
        "called the driver"
    );
    answer.map_err(|status| Failure {
        code: Some(status.code()),
        message: clip(&rpc_code::text(&status)).to_owned(),
    })
}

fn method(call: &Call) -> &'static str {
    match call {
        Call::Capabilities => "NodeGetCapabilities",
        Call::Stage(_) => "NodeStageVolume",
        Call::Publish(_) => "NodePublishVolume",
        Call::Unpublish(_) => "NodeUnpublishVolume",
        Call::Unstage(_) => "NodeUnstageVolume",
        Call::Expand(_) => "NodeExpandVolume",
    }
}

async fn client(endpoint: &str) -> Result<NodeClient<Channel>, Status> {
    let channel = socket::connect(Path::new(endpoint), AUTHORITY).await?;
    Ok(NodeClient::new(channel))
}

async fn send(endpoint: &str, call: &Call, limit: Duration) -> Result<Answer, Status> {
    match call.clone() {
        Call::Capabilities => {
            let message = csi::NodeGetCapabilitiesRequest {};
            let send = async |request| client(endpoint).await?.node_get_capabilities(request).await;
            let answer = socket::call(limit, message, send).await?;
            Ok(Answer::Capabilities(capabilities(&answer)))
        }
        Call::Stage(message) => {
            let send = async |request| client(endpoint).await?.node_stage_volume(request).await;
            done(socket::call(limit, message, send).await)
        }
        Call::Publish(message) => {
            let send = async |request| client(endpoint).await?.node_publish_volume(request).await;
            done(socket::call(limit, message, send).await)
        }
        Call::Unpublish(message) => {
            let send = async |request| client(endpoint).await?.node_unpublish_volume(request).await;
            done(socket::call(limit, message, send).await)
        }
        Call::Unstage(message) => {
            let send = async |request| client(endpoint).await?.node_unstage_volume(request).await;
            done(socket::call(limit, message, send).await)
        }
        Call::Expand(message) => {
            let send = async |request| client(endpoint).await?.node_expand_volume(request).await;
            done(socket::call(limit, message, send).await)
        }
    }
}

fn done<T>(answer: Result<T, Status>) -> Result<Answer, Status> {
    answer.map(|_| Answer::Done)
}

/// Unknown capabilities are ignored.
fn capabilities(answer: &csi::NodeGetCapabilitiesResponse) -> Capabilities {
    let mut all = Capabilities::default();
    for capability in &answer.capabilities {
        let Some(Type::Rpc(rpc)) = &capability.r#type else {
            continue;
        };
        let is = |kind: Rpc| rpc.r#type == i32::from(kind);
        all.stage |= is(Rpc::StageUnstageVolume);
        all.mount_group |= is(Rpc::VolumeMountGroup);
        all.multi_writer |= is(Rpc::SingleNodeMultiWriter);
        all.expand |= is(Rpc::ExpandVolume);
    }
    all
}
