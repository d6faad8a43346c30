//! A driver that only answers GetPluginInfo, as the test requires.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use csi_proto::csi::identity_server::{Identity, IdentityServer};
use csi_proto::csi::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, ProbeRequest, ProbeResponse,
};
use csi_proto::registration::registration_server::{Registration, RegistrationServer};
use csi_proto::registration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};
use tokio::net::UnixListener;
use tokio::task::JoinSet;
use tonic::{Request, Response, Status};

pub(crate) const NAME: &str = "d.example.com";

/// A driver that listens until it is dropped.
pub(crate) struct Driver {
    serving: tokio::task::JoinHandle<()>,
    calls: Arc<Mutex<u32>>,
}

#[derive(Clone)]
struct Answer {
    name: String,
    delay: Duration,
    calls: Arc<Mutex<u32>>,
}

impl Driver {
    pub(crate) fn start(socket: &Path) -> Self {
        Self::named(socket, NAME)
    }

    pub(crate) fn named(socket: &Path, name: &str) -> Self {
        Self::slow(socket, name, Duration::ZERO)
    }

    pub(crate) fn slow(socket: &Path, name: &str, delay: Duration) -> Self {
        let calls = Arc::default();
        let answer = Answer {
            name: name.to_owned(),
            delay,
            calls: Arc::clone(&calls),
        };
        let serving = listen(socket, IdentityServer::new(answer));
        Self { serving, calls }
    }

    /// Ends every connection after one answer.
    pub(crate) fn dropping(socket: &Path) -> Self {
        let calls: Arc<Mutex<u32>> = Arc::default();
        let answer = Answer {
            name: NAME.to_owned(),
            delay: Duration::ZERO,
            calls: Arc::clone(&calls),
        };
        let count = Arc::clone(&calls);
        let listener = UnixListener::bind(socket).unwrap();
        let serving = tokio::spawn(async move {
            loop {
                let before = *count.lock().unwrap();
                let (stream, _) = listener.accept().await.unwrap();
                let service = IdentityServer::new(answer.clone());
                let peer = tokio::spawn(registrar::grpc::serve(stream, service));
                while *count.lock().unwrap() == before {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                // The answer is on its way.
                tokio::time::sleep(Duration::from_millis(5)).await;
                peer.abort();
            }
        });
        Self { serving, calls }
    }

    /// Number of GetPluginInfo calls.
    pub(crate) fn calls(&self) -> u32 {
        *self.calls.lock().unwrap()
    }

    /// Ends with all its connections, like a process that is killed.
    pub(crate) async fn kill(self) {
        self.serving.abort();
        while !self.serving.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Serves in a task that owns its connections; replaces the socket file of an earlier one in one step, since the
/// registrar creates its own again once it is away.
fn listen<S>(socket: &Path, service: S) -> tokio::task::JoinHandle<()>
where
    S: tower::Service<
            http::Request<hyper::body::Incoming>,
            Response = http::Response<tonic::body::Body>,
            Error = std::convert::Infallible,
            Future: Send,
        > + Clone
        + Send
        + 'static,
{
    let fresh = socket.with_extension("new");
    let listener = UnixListener::bind(&fresh).unwrap();
    std::fs::rename(&fresh, socket).unwrap();
    tokio::spawn(async move {
        let mut peers = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            peers.spawn(registrar::grpc::serve(stream, service.clone()));
        }
    })
}

#[tonic::async_trait]
impl Identity for Answer {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        *self.calls.lock().unwrap() += 1;
        // The delay of its answers.
        tokio::time::sleep(self.delay).await;
        let name = self.name.clone();
        Ok(Response::new(GetPluginInfoResponse {
            name,
            ..Default::default()
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        Err(Status::unimplemented("the registrar has no business here"))
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        Err(Status::unimplemented("the registrar has no business here"))
    }
}

/// Another program's registration socket, which answers with another name after a delay.
pub(crate) struct Impostor {
    _serving: AbortOnDrop,
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Impostor {
    pub(crate) fn start(socket: &Path, name: &str, delay: Duration) -> Self {
        let service = RegistrationServer::new(Pretence {
            name: name.to_owned(),
            delay,
        });
        Self {
            _serving: AbortOnDrop(listen(socket, service)),
        }
    }
}

struct Pretence {
    name: String,
    delay: Duration,
}

#[tonic::async_trait]
impl Registration for Pretence {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        // The delay of its answers.
        tokio::time::sleep(self.delay).await;
        Ok(Response::new(PluginInfo {
            name: self.name.clone(),
            ..Default::default()
        }))
    }

    async fn notify_registration_status(
        &self,
        _: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }
}
