//! Talks to a registrar: `GetInfo` and `NotifyRegistrationStatus` on its registration socket.
//!
//! The registrar is not trusted: every step has a deadline, and a reply is at most 4 MiB (tonic's limit, and
//! grpc-go's).

use std::path::{Path, PathBuf};

use csi_proto::registration::registration_client::RegistrationClient;
use csi_proto::registration::{InfoRequest, PluginInfo, RegistrationStatus};
use tokio::time::{sleep, timeout};
use tonic::Status;
use tonic::transport::Channel;

use super::{authority, socket};
use crate::kubelet::plan::schedule::{DIAL_PAUSE, DIAL_TIMEOUT, INFO_TIMEOUT, NOTIFY_TIMEOUT};

/// The registrar did not answer on the socket in time.
#[derive(Debug, thiserror::Error)]
#[error(
    "failed to dial socket {}, nobody answered within {} s{}",
    socket.display(), DIAL_TIMEOUT.as_secs(),
    last.as_ref().map(|status| format!(": {}", status.message())).unwrap_or_default()
)]
pub struct DialError {
    socket: PathBuf,
    last: Option<Status>,
}

/// A connection to one registrar, for one registration attempt.
pub struct Registrar {
    client: RegistrationClient<Channel>,
}

impl Registrar {
    /// Connects, trying again while there is time.
    ///
    /// # Errors
    /// [`DialError`]
    pub async fn dial(socket: &Path) -> Result<Self, DialError> {
        let authority = authority::of_socket(socket);
        let mut last = None;
        let dial = async {
            loop {
                match socket::connect(socket, &authority).await {
                    Ok(channel) => break RegistrationClient::new(channel),
                    Err(status) => last = Some(status),
                }
                sleep(DIAL_PAUSE).await;
            }
        };
        match timeout(DIAL_TIMEOUT, dial).await {
            Ok(client) => Ok(Self { client }),
            Err(_) => Err(DialError {
                socket: socket.to_path_buf(),
                last,
            }),
        }
    }

    /// Calls `GetInfo`.
    ///
    /// # Errors
    /// The registrar's status, `DeadlineExceeded` after a second.
    pub async fn info(&mut self) -> Result<PluginInfo, Status> {
        let client = &mut self.client;
        let get_info = async |request| client.get_info(request).await;
        socket::call(INFO_TIMEOUT, InfoRequest {}, get_info).await
    }

    /// Notifies the registrar of the result; without an error the plugin is registered.
    ///
    /// # Errors
    /// The registrar's status, `DeadlineExceeded` after five seconds.
    pub async fn notify(&mut self, error: Option<String>) -> Result<(), Status> {
        let plugin_registered = error.is_none();
        let status = RegistrationStatus {
            plugin_registered,
            error: error.unwrap_or_default(),
        };
        let client = &mut self.client;
        let notify = async |request| client.notify_registration_status(request).await;
        socket::call(NOTIFY_TIMEOUT, status, notify).await.map(drop)
    }
}
