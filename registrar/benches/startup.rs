//! The figures of csi-node-driver-registrar: file size, memory and processor time while idle, time
//! from exec to the registration socket.
//!
//! `cargo bench --profile tool -p registrar --bench startup` measures `bin/csi-node-driver-registrar`,
//! which `make build` makes, and beside it the binary that `REGISTRAR` names, if any.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_precision_loss,
    clippy::indexing_slicing,
    reason = "a measurement that does not work has nothing better to do than to end"
)]

use std::path::{Path, PathBuf};
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
use tokio::net::{UnixListener, UnixStream};
use tonic::transport::Endpoint;
use tonic::{Request, Response, Status};

const STARTS: usize = 30;
/// Time to come to rest before memory is read.
const REST: Duration = Duration::from_secs(3);
/// How long processor time is watched.
const WATCH: Duration = Duration::from_secs(10);

fn main() {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bin/csi-node-driver-registrar");
    let mut programs = vec![ours];
    programs.extend(std::env::var_os("REGISTRAR").map(PathBuf::from));
    println!(
        "{:>9} {:>9} {:>9} {:>10} {:>17}  program",
        "size MB", "RSS MB", "anon MB", "CPU ms/h", "to socket ms"
    );
    for program in programs {
        let program = program
            .canonicalize()
            .unwrap_or_else(|error| panic!("{}: {error}; run `make build`", program.display()));
        measure(&program);
    }
}

fn measure(program: &Path) {
    let size = std::fs::metadata(program).unwrap().len();
    let mut starts: Vec<Duration> = (0..STARTS).map(|_| Started::new(program).took).collect();
    starts.sort();
    let idle = Started::new(program);
    idle.register();
    std::thread::sleep(REST);
    let (rss, anonymous) = (idle.memory("VmRSS"), idle.memory("RssAnon"));
    let before = idle.processor_time();
    std::thread::sleep(WATCH);
    let used = idle.processor_time() - before;
    let per_hour = used.as_secs_f64() * 1e3 * (3600.0 / WATCH.as_secs_f64());
    let milliseconds = |took: Duration| took.as_secs_f64() * 1e3;
    println!(
        "{:9.2} {:9.2} {:9.2} {:10.0} {:>17}  {}",
        size as f64 / 1e6,
        rss as f64 / 1e6,
        anonymous as f64 / 1e6,
        per_hour,
        format!(
            "{:.2} ({:.2}-{:.2})",
            milliseconds(starts[STARTS / 2]),
            milliseconds(starts[0]),
            milliseconds(starts[STARTS - 1])
        ),
        program.display()
    );
}

/// A registrar with a driver of its own, from just before exec to its socket.
struct Started {
    child: Child,
    took: Duration,
    directory: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
}

impl Started {
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

    /// What kubelet does after it has seen the socket.
    fn register(&self) {
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

    fn proc(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap()
    }

    /// In bytes.
    fn memory(&self, key: &str) -> u64 {
        let status = self.proc("status");
        let line = status.lines().find(|line| line.starts_with(key)).unwrap();
        line.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<u64>()
            .unwrap()
            * 1024
    }

    /// Of all threads.
    fn processor_time(&self) -> Duration {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let of = |thread: std::io::Result<std::fs::DirEntry>| {
            let text = std::fs::read_to_string(thread.unwrap().path().join("schedstat")).unwrap();
            text.split_whitespace()
                .next()
                .unwrap()
                .parse::<u64>()
                .unwrap()
        };
        Duration::from_nanos(threads.map(of).sum())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A driver on a thread of its own, for as long as the runtime lives.
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
