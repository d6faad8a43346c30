//! A registrar that follows a script.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use csi_proto::registration::registration_server::{Registration, RegistrationServer};
use csi_proto::registration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use registrar::authority::AnyAuthority;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep};
use tonic::{Request, Response, Status};

use crate::stage::{D, until};

/// The answer to a call.
#[derive(Clone)]
pub(crate) enum Answer {
    Good,
    Fail(Status),
    After(Duration),
}

/// A call that arrived.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Call {
    GetInfo,
    Notify { registered: bool, error: String },
}

/// The script of a registrar.
#[derive(Clone)]
pub(crate) struct Script {
    socket: PathBuf,
    info: PluginInfo,
    get_info: Answer,
    notify: Answer,
    /// Ends like the real registrar when it is notified of a failure.
    dies: bool,
    /// Rejects invalid authorities, as servers in Rust do by default.
    strict: bool,
}

impl Script {
    pub(crate) fn new(socket: PathBuf) -> Self {
        let info = PluginInfo {
            r#type: "CSIPlugin".to_owned(),
            name: D.to_owned(),
            endpoint: String::new(),
            supported_versions: vec!["1.0.0".to_owned()],
        };
        Self {
            socket,
            info,
            get_info: Answer::Good,
            notify: Answer::Good,
            dies: false,
            strict: false,
        }
    }

    pub(crate) fn kind(mut self, kind: &str) -> Self {
        kind.clone_into(&mut self.info.r#type);
        self
    }

    pub(crate) fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.info.name);
        self
    }

    pub(crate) fn endpoint(mut self, endpoint: &str) -> Self {
        endpoint.clone_into(&mut self.info.endpoint);
        self
    }

    pub(crate) fn versions(mut self, versions: &[&str]) -> Self {
        self.info.supported_versions = versions.iter().map(|&v| v.to_owned()).collect();
        self
    }

    pub(crate) fn get_info(mut self, answer: Answer) -> Self {
        self.get_info = answer;
        self
    }

    pub(crate) fn notify(mut self, answer: Answer) -> Self {
        self.notify = answer;
        self
    }

    pub(crate) fn dies(mut self) -> Self {
        self.dies = true;
        self
    }

    pub(crate) fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    pub(crate) fn listen(self) -> ScriptedRegistrar {
        let listener = UnixListener::bind(&self.socket).unwrap();
        self.listen_on(listener)
    }

    pub(crate) fn listen_on(self, listener: UnixListener) -> ScriptedRegistrar {
        let shared = Shared {
            script: Arc::new(Mutex::new(self.clone())),
            calls: Arc::default(),
            bytes: Arc::default(),
            connections: Arc::default(),
            dead: Arc::new(tokio::sync::Notify::new()),
        };
        let task = tokio::spawn(serve(listener, shared.clone()));
        ScriptedRegistrar {
            socket: self.socket,
            shared,
            task,
        }
    }
}

#[derive(Clone)]
struct Shared {
    script: Arc<Mutex<Script>>,
    calls: Arc<Mutex<Vec<(Instant, Call)>>>,
    /// All received bytes, unchanged.
    bytes: Arc<Mutex<Vec<u8>>>,
    connections: Arc<AtomicUsize>,
    dead: Arc<tokio::sync::Notify>,
}

/// A listening script. Dropping it closes the listener and leaves the socket file behind, like a crash.
pub(crate) struct ScriptedRegistrar {
    socket: PathBuf,
    shared: Shared,
    task: JoinHandle<()>,
}

impl Drop for ScriptedRegistrar {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ScriptedRegistrar {
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Ends as after SIGTERM: removes the socket file.
    pub(crate) fn remove(self) {
        std::fs::remove_file(&self.socket).unwrap();
    }

    /// Restarts on the same path: the file is removed, and bound again.
    pub(crate) fn reborn(self) -> Self {
        let script = self.shared.script.lock().unwrap().clone();
        std::fs::remove_file(&self.socket).unwrap();
        script.listen()
    }

    pub(crate) fn change(&self, change: impl FnOnce(Script) -> Script) {
        let mut script = self.shared.script.lock().unwrap();
        *script = change(script.clone());
    }

    pub(crate) fn calls(&self) -> Vec<(Instant, Call)> {
        self.shared.calls.lock().unwrap().clone()
    }

    /// Number of accepted connections.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.shared.bytes.lock().unwrap().clone()
    }

    /// Times of the `GetInfo` calls.
    pub(crate) fn infos(&self) -> Vec<Instant> {
        let calls = self.calls().into_iter();
        calls
            .filter(|(_, call)| *call == Call::GetInfo)
            .map(|(at, _)| at)
            .collect()
    }

    /// The notifications: `Ok` for success, else the error.
    pub(crate) fn notices(&self) -> Vec<Result<(), String>> {
        let notice = |(_, call)| match call {
            Call::GetInfo => None,
            Call::Notify {
                registered: true,
                error,
            } => {
                assert_eq!(error, "", "success carries no error");
                Some(Ok(()))
            }
            Call::Notify {
                registered: false,
                error,
            } => Some(Err(error)),
        };
        self.calls().into_iter().filter_map(notice).collect()
    }

    pub(crate) async fn confirmed(&self) {
        until("the registration is confirmed", || {
            self.notices().contains(&Ok(()))
        })
        .await;
    }

    /// The text of the first refusal.
    pub(crate) async fn refused(&self) -> String {
        until("the registration is refused", || !self.notices().is_empty()).await;
        self.notices().remove(0).unwrap_err()
    }

    /// Waits for the `count`th `GetInfo`.
    pub(crate) async fn asked(&self, count: usize) {
        until("GetInfo is called", || self.infos().len() >= count).await;
    }
}

async fn serve(listener: UnixListener, shared: Shared) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted.unwrap();
                shared.connections.fetch_add(1, Ordering::SeqCst);
                connections.spawn(converse(stream, shared.clone()));
            }
            Some(_) = connections.join_next() => {}
            () = shared.dead.notified() => return,
        }
    }
}

/// Serves one connection, behind the layer that makes a tonic server accept kubelet's authority, and behind a tap.
async fn converse(mut stream: UnixStream, shared: Shared) {
    let (mut near, far) = tokio::io::duplex(64 * 1024);
    let bytes = Arc::clone(&shared.bytes);
    let tap = async move {
        let (mut from_client, mut to_client) = stream.split();
        let (mut from_server, mut to_server) = tokio::io::split(&mut near);
        let up = async {
            let mut chunk = [0; 4096];
            while let Ok(count @ 1..) = from_client.read(&mut chunk).await {
                bytes.lock().unwrap().extend_from_slice(&chunk[..count]);
                if to_server.write_all(&chunk[..count]).await.is_err() {
                    break;
                }
            }
        };
        tokio::select! {
            () = up => {}
            _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
        }
    };
    let strict = shared.script.lock().unwrap().strict;
    let service = TowerToHyperService::new(RegistrationServer::new(Service(shared)));
    let server = http2::Builder::new(TokioExecutor::new());
    // Errors are clients that went away.
    let connection = async {
        if strict {
            let _ = server.serve_connection(TokioIo::new(far), service).await;
        } else {
            let _ = server
                .serve_connection(TokioIo::new(AnyAuthority::new(far)), service)
                .await;
        }
    };
    tokio::select! {
        () = tap => {}
        () = connection => {}
    }
}

struct Service(Shared);

impl Service {
    fn record(&self, call: Call) {
        self.0.calls.lock().unwrap().push((Instant::now(), call));
    }

    fn script(&self) -> Script {
        self.0.script.lock().unwrap().clone()
    }
}

async fn perform(answer: Answer) -> Result<(), Status> {
    match answer {
        Answer::Good => Ok(()),
        Answer::Fail(status) => Err(status),
        Answer::After(time) => {
            // The delay from the script.
            sleep(time).await;
            Ok(())
        }
    }
}

#[tonic::async_trait]
impl Registration for Service {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        self.record(Call::GetInfo);
        perform(self.script().get_info).await?;
        Ok(Response::new(self.script().info))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let RegistrationStatus {
            plugin_registered: registered,
            error,
        } = request.into_inner();
        self.record(Call::Notify { registered, error });
        if self.script().dies && !registered {
            self.0.dead.notify_one();
            return std::future::pending().await;
        }
        perform(self.script().notify).await?;
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
