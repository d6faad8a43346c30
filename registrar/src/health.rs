//! Answers of the HTTP server.
//!
//! `/healthz` checks the registration socket from outside, over a new connection: only that notices a file that was
//! removed or replaced. `/registration` reports kubelet's progress.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use csi_proto::registration::InfoRequest;
use csi_proto::registration::registration_client::RegistrationClient;
use http::StatusCode;
use hyper_util::rt::TokioIo;
use sidecar::error::Chain;
use sidecar::http::{Reply, RouteError, Routes};
use sidecar::rpc_code;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use crate::registration::Plugin;
use crate::registration_status::RegistrationProgress;

/// Health and progress of the registration; clones share them.
#[derive(Clone, Debug)]
pub struct RegistrationHealth {
    plugin: Arc<Plugin>,
    path: PathBuf,
    limit: Duration,
}

impl RegistrationHealth {
    /// The health of the socket at `path`; a call to it may take `limit`.
    pub(crate) fn new(plugin: &Arc<Plugin>, path: &Path, limit: Duration) -> Self {
        Self {
            plugin: Arc::clone(plugin),
            path: path.to_owned(),
            limit,
        }
    }

    /// `/healthz`: the socket exists and answers for this driver.
    pub async fn health(&self) -> Reply {
        let reply = healthz(&self.path, self.limit, self.plugin.name()).await;
        if reply.status != StatusCode::OK {
            tracing::error!(
                status = reply.status.as_u16(),
                err = reply.body.as_str(),
                "Health check failed"
            );
        }
        reply
    }

    /// `/registration`: kubelet's progress.
    #[must_use]
    pub fn registration(&self) -> Reply {
        registration(&self.plugin, Instant::now())
    }

    /// The driver's name.
    #[must_use]
    pub fn driver(&self) -> &str {
        self.plugin.name()
    }

    /// Subscribes to kubelet's progress.
    #[must_use]
    pub fn follow(&self) -> watch::Receiver<RegistrationProgress> {
        self.plugin.follow()
    }

    /// Why kubelet has not registered the driver yet; `None` if it has.
    #[must_use]
    pub fn unregistered(&self) -> Option<String> {
        let progress = self.plugin.progress();
        let describe = || progress.describe(Instant::now());
        (!progress.is_registered()).then(describe)
    }
}

/// Routes of the registration.
///
/// # Errors
/// None with these fixed paths.
pub fn routes(registration: &RegistrationHealth, pprof: bool) -> Result<Routes, RouteError> {
    let mut routes = Routes::new();
    let healthy = registration.clone();
    routes.add("/healthz", move || {
        let registration = healthy.clone();
        async move { registration.health().await }
    })?;
    let registered = registration.clone();
    routes.add("/registration", move || {
        std::future::ready(registered.registration())
    })?;
    if pprof {
        add_pprof(&mut routes)?;
    }
    Ok(routes)
}

/// Adds answers below `/debug/pprof/` that this is no Go program.
///
/// # Errors
/// A path is taken.
pub fn add_pprof(routes: &mut Routes) -> Result<(), RouteError> {
    routes.add("/debug/pprof/", || {
        std::future::ready(Reply::text(StatusCode::OK, PPROF))
    })?;
    routes.add("/debug/pprof/cmdline", || std::future::ready(cmdline()))?;
    for profile in ["profile", "symbol", "trace"] {
        routes.add(&format!("/debug/pprof/{profile}"), || {
            std::future::ready(Reply::text(StatusCode::NOT_IMPLEMENTED, PPROF))
        })?;
    }
    Ok(())
}

const PPROF: &str = "This is not a Go program, so it has no profiles for pprof.\n\
                     /debug/pprof/cmdline has the command line; use perf for a profile.\n";

fn cmdline() -> Reply {
    let arguments: Vec<_> = std::env::args_os()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    Reply::text(StatusCode::OK, arguments.join("\0"))
}

fn registration(plugin: &Plugin, now: Instant) -> Reply {
    let progress = plugin.progress();
    let status = if progress.is_registered() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    Reply::text(status, progress.describe(now))
}

async fn healthz(path: &Path, limit: Duration, name: &str) -> Reply {
    let error = |text| Reply::text(StatusCode::INTERNAL_SERVER_ERROR, text);
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => {}
        Ok(_) => return error(format!("{} is not a socket", path.display())),
        Err(absent) if absent.kind() == io::ErrorKind::NotFound => {
            return Reply::text(StatusCode::NOT_FOUND, "registration socket does not exist");
        }
        Err(reason) => return error(format!("stat {}: {reason}", path.display())),
    }
    let channel = match connect(path).await {
        Ok(channel) => channel,
        Err(reason) => {
            let path = path.display();
            return error(format!(
                "error connecting to node-registrar socket {path}: {}",
                Chain(&reason)
            ));
        }
    };
    match timeout(limit, ask_name(channel))
        .await
        .unwrap_or_else(|_| Err(expired()))
    {
        Ok(answer) if answer == name => Reply::ok(),
        Ok(answer) => error(format!("invalid driver name {answer}")),
        Err(status) => error(format!(
            "error getting info from node-registrar socket: {}",
            rpc_code::text(&status)
        )),
    }
}

fn expired() -> Status {
    Status::deadline_exceeded("context deadline exceeded")
}

async fn connect(path: &Path) -> Result<Channel, tonic::transport::Error> {
    let path = path.to_owned();
    let dial = tower::service_fn(move |_| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://localhost")
        .connect_with_connector(dial)
        .await
}

async fn ask_name(channel: Channel) -> Result<String, Status> {
    let mut client = RegistrationClient::new(channel);
    let answer = client.get_info(Request::new(InfoRequest {})).await?;
    Ok(answer.into_inner().name)
}
