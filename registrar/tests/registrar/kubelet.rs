//! kubelet's side of the registration socket.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use csi_proto::registration::registration_client::RegistrationClient;
use csi_proto::registration::{InfoRequest, PluginInfo, RegistrationStatus};
use hyper_util::rt::TokioIo;
use sidecar_testkit::process::PATIENCE;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

/// As kubelet does, dials again where a program has bound the socket and does not listen yet.
async fn dial(socket: &Path) -> io::Result<UnixStream> {
    let start = Instant::now();
    loop {
        match UnixStream::connect(socket).await {
            Err(error) if is_refused(&error) && start.elapsed() < PATIENCE => {
                // Nothing tells when it listens.
                sleep(Duration::from_millis(10)).await;
            }
            dialled => return dialled,
        }
    }
}

fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

pub(crate) async fn channel(socket: &Path) -> Channel {
    let socket = PathBuf::from(socket);
    let dial = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { dial(&socket).await.map(TokioIo::new) }
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
