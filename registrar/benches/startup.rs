//! Figures of csi-node-driver-registrar: file size, memory and processor time while idle, time from exec to the
//! registration socket.
//!
//! `cargo bench --profile tool -p registrar --bench startup` measures `bin/csi-node-driver-registrar` of `make build`,
//! and next to it the binary that `REGISTRAR` names, if any.

#![allow(
    clippy::unwrap_used,
    reason = "a measurement that does not work has nothing better to do than to end"
)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use csi_proto::csi::identity_server::{Identity, IdentityServer};
use csi_proto::csi::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, ProbeRequest, ProbeResponse,
};
use csi_proto::registration::registration_client::RegistrationClient;
use csi_proto::registration::{InfoRequest, RegistrationStatus};
use hyper_util::rt::TokioIo;
use inotify::{Inotify, WatchMask};
use sidecar_testkit::measure::{self, Started};
use tokio::net::{UnixListener, UnixStream};
use tonic::transport::Endpoint;
use tonic::{Request, Response, Status};

fn main() {
    let program = "csi-node-driver-registrar";
    measure::figures(program, "REGISTRAR", "to socket ms", |program| {
        Registrar::new(program)
    });
}

/// A registrar with a driver of its own, from just before exec to its socket.
struct Registrar {
    child: Child,
    took: Duration,
    directory: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
}

impl Registrar {
    fn new(program: &Path) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let registry = directory.path().join("reg");
        std::fs::create_dir(&registry).unwrap();
        let csi = directory.path().join("csi.sock");
        let runtime = driver(&csi);

        let mut watch = Inotify::init().unwrap();
        watch.watches().add(&registry, WatchMask::CREATE).unwrap();
        let mut command = Command::new(program);
        command
            .arg(format!("--csi-address={}", csi.display()))
            .arg("--kubelet-registration-path=/var/lib/kubelet/plugins/d/csi.sock")
            .arg(format!("--plugin-registration-path={}", registry.display()))
            .arg("--http-endpoint=127.0.0.1:0")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let start = Instant::now();
        let child = command.spawn().unwrap();
        let mut buffer = [0; 1024];
        watch
            .read_events_blocking(&mut buffer)
            .unwrap()
            .next()
            .unwrap();
        Self {
            child,
            took: start.elapsed(),
            directory,
            runtime,
        }
    }
}

impl Started for Registrar {
    fn id(&self) -> u32 {
        self.child.id()
    }

    fn took(&self) -> Duration {
        self.took
    }

    /// kubelet's calls after it has seen the socket.
    fn serve(&self) {
        let socket = self.directory.path().join("reg/d.example.com-reg.sock");
        self.runtime.block_on(async {
            let dial = tower::service_fn(move |_| {
                let socket = socket.clone();
                async move { UnixStream::connect(socket).await.map(TokioIo::new) }
            });
            let endpoint = Endpoint::from_static("http://localhost");
            let channel = endpoint.connect_with_connector(dial).await.unwrap();
            let mut kubelet = RegistrationClient::new(channel);
            kubelet.get_info(InfoRequest {}).await.unwrap();
            let status = RegistrationStatus {
                plugin_registered: true,
                error: String::new(),
            };
            kubelet.notify_registration_status(status).await.unwrap();
        });
    }
}

impl Drop for Registrar {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A driver on a thread of its own, which lives as long as the runtime.
fn driver(socket: &Path) -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let listener = runtime.block_on(async { UnixListener::bind(socket).unwrap() });
    runtime.spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(registrar::grpc::serve(stream, IdentityServer::new(Driver)));
        }
    });
    runtime
}

struct Driver;

#[tonic::async_trait]
impl Identity for Driver {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        let name = "d.example.com".to_owned();
        Ok(Response::new(GetPluginInfoResponse {
            name,
            ..Default::default()
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }
}
