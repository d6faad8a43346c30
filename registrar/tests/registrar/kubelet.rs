//! kubelet's side of the registration socket.

use std::path::{Path, PathBuf};

use csi_proto::registration::registration_client::RegistrationClient;
use csi_proto::registration::{InfoRequest, PluginInfo, RegistrationStatus};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

pub(crate) async fn channel(socket: &Path) -> Channel {
    let socket = PathBuf::from(socket);
    let dial = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://localhost")
        .connect_with_connector(dial)
        .await
        .unwrap()
}

pub(crate) async fn connect(socket: &Path) -> RegistrationClient<Channel> {
    RegistrationClient::new(channel(socket).await)
}

/// Connects and calls GetInfo.
pub(crate) async fn ask(socket: &Path) -> PluginInfo {
    connect(socket)
        .await
        .get_info(InfoRequest {})
        .await
        .unwrap()
        .into_inner()
}

/// Notifies the result of the registration.
pub(crate) async fn notify(socket: &Path, registered: bool, error: &str) -> Result<(), Status> {
    let status = RegistrationStatus {
        plugin_registered: registered,
        error: error.to_owned(),
    };
    connect(socket)
        .await
        .notify_registration_status(status)
        .await
        .map(|_| ())
}
