//! The driver's transports: a unix socket, and a pipe within the process.

use std::convert::Infallible;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::Ordering;

use csi_proto::csi::controller_server::ControllerServer;
use csi_proto::csi::group_controller_server::GroupControllerServer;
use csi_proto::csi::identity_server::IdentityServer;
use csi_proto::csi::node_server::NodeServer;
use csi_proto::csi::snapshot_metadata_server::SnapshotMetadataServer;
use csi_proto::volume_condition::controller_server::ControllerServer as OlderControllerServer;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use tower_service::Service;

use super::FakeDriver;
use super::record::Envelope;

type Answer = http::Response<tonic::body::Body>;

/// An open socket; dropping it closes the listener and all connections.
#[derive(Debug)]
pub(super) struct Listening {
    task: JoinHandle<()>,
    accepting: watch::Sender<bool>,
    /// How often connections were ended gracefully.
    goodbyes: watch::Sender<u64>,
}

impl Listening {
    pub(super) fn stop_accepting(&self) {
        self.accepting.send_replace(false);
    }

    pub(super) fn end_connections(&self) {
        self.goodbyes.send_modify(|goodbyes| *goodbyes += 1);
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(super) fn listen(driver: &FakeDriver, socket: &Path) -> Listening {
    // Left over from a killed test process; nobody else uses the directory.
    let _ = std::fs::remove_file(socket);
    let listener = UnixListener::bind(socket).expect("bind a socket in a temporary directory");
    let driver = driver.weak();
    let (accepting, mut accepts) = watch::channel(true);
    let (goodbyes, goodbye) = watch::channel(0);
    let task = tokio::spawn(async move {
        // Dropped with this task, which ends the connections.
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept(), if *accepts.borrow() => {
                    let (Ok((stream, _)), Some(driver)) = (accepted, driver.upgrade()) else { continue };
                    driver.shared.accepted.fetch_add(1, Ordering::SeqCst);
                    let mut goodbye = goodbye.clone();
                    goodbye.mark_unchanged();
                    connections.spawn(async move {
                        driver.shared.open.fetch_add(1, Ordering::SeqCst);
                        let goodbye = async move {
                            let _sender_is_gone = goodbye.changed().await;
                        };
                        serve(driver.clone(), stream, goodbye).await;
                        driver.shared.open.fetch_sub(1, Ordering::SeqCst);
                    });
                }
                Ok(()) = accepts.changed() => {}
                Some(_) = connections.join_next() => {}
            }
        }
    });
    Listening {
        task,
        accepting,
        goodbyes,
    }
}

async fn serve(
    driver: FakeDriver,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    goodbye: impl Future<Output = ()>,
) {
    let service = hyper::service::service_fn(move |request| dispatch(driver.clone(), request));
    let server = http2::Builder::new(TokioExecutor::new());
    let mut connection = std::pin::pin!(server.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ = connection.as_mut() => return,
        () = goodbye => connection.as_mut().graceful_shutdown(),
    }
    // An error means that the client went away.
    let _ = connection.await;
}

async fn dispatch(
    driver: FakeDriver,
    mut request: http::Request<Incoming>,
) -> Result<Answer, Infallible> {
    let envelope = Envelope::of(&request);
    request.extensions_mut().insert(envelope);
    let path = request.uri().path();
    if path.starts_with("/csi.v1.Identity/") {
        IdentityServer::new(driver).call(request).await
    } else if driver.answers_as_older(path) {
        OlderControllerServer::new(driver).call(request).await
    } else if path.starts_with("/csi.v1.Controller/") {
        ControllerServer::new(driver).call(request).await
    } else if path.starts_with("/csi.v1.GroupController/") {
        GroupControllerServer::new(driver).call(request).await
    } else if path.starts_with("/csi.v1.SnapshotMetadata/") {
        SnapshotMetadataServer::new(driver).call(request).await
    } else if path.starts_with("/csi.v1.Node/") {
        NodeServer::new(driver).call(request).await
    } else {
        Ok(Status::unimplemented("unknown service").into_http())
    }
}

impl FakeDriver {
    /// A channel to this driver without a socket; not affected by [`FakeDriver::stop`].
    #[must_use]
    pub fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_static("http://localhost");
        endpoint.connect_with_connector_lazy(Pipe(self.clone()))
    }
}

/// Connects by serving the other end of a pipe.
#[derive(Clone)]
struct Pipe(FakeDriver);

impl Service<http::Uri> for Pipe {
    type Response = TokioIo<tokio::io::DuplexStream>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Uri) -> Self::Future {
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(serve(self.0.clone(), far, std::future::pending()));
        Box::pin(std::future::ready(Ok(TokioIo::new(near))))
    }
}
