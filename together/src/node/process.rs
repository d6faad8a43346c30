//! The process that contains livenessprobe and registrar.

use std::sync::Arc;
use std::time::Duration;

use livenessprobe::prober::{Listeners, Prober};
use sidecar::build;
use sidecar::error::Chain;
use sidecar::flags::Exit;
use sidecar::http::{Routes, Server};
use sidecar::in_cluster::InCluster;
use sidecar::metrics::{Process, Registry};
use sidecar::shutdown::{Shutdown, Signal};
use tokio::time::sleep;

use super::FILE;
use super::args::{Config, Http};
use super::routes::{self, Node};
use crate::registration::Registering;

/// Pause between attempts to get the driver's name.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Runs until a signal or an error ends it.
///
/// # Errors
/// Returns the process's exit.
pub(super) async fn work(config: Config, api: InCluster) -> Result<(), Exit> {
    // As in the single programs, signals kill the process until there is a socket to remove.
    let early = Shutdown::listen(&[])?;
    let registry = Registry::with_process(Process::StartTime);
    let replaces = [registrar::run::REPLACES, livenessprobe::run::REPLACES].join(", ");
    build::register(&registry, FILE, &replaces)?;
    let probe = config.livenessprobe.as_ref();
    let prober = match probe {
        Some(probe) => Some(Prober::new(&probe.config, &registry)?),
        None => None,
    };
    let mut listeners = None;
    if let (Some(probe), Some(prober)) = (probe.filter(|probe| probe.listens), &prober) {
        listeners = Some(Listeners::new(&probe.config, prober, &registry)?);
    }
    let is_alone = prober.is_none();
    let registering = { config.registrar.clone() }
        .map(|config| Registering::new(config, is_alone, (api, &registry)))
        .transpose()?;
    let registration = registering.as_ref().map(Registering::registration);
    let node = Arc::new(Node::new(prober.clone(), registration));
    let routes = routes::of(&node, &config, &registry)?;
    let serving = serve(config.http.as_ref(), routes).await?;
    let has_others = registering.is_some();
    let registering = async {
        let Some(registering) = registering else {
            // Without this handler, the process would ignore signals when it runs as process 1.
            let _early = early;
            return std::future::pending().await;
        };
        let registrar = registering.meet().await?;
        // Installed before the socket exists, so that a signal never leaves a socket behind.
        let shutdown = Shutdown::listen(&[Signal::Terminate])?;
        drop(early);
        Box::pin(registering.keep(registrar, &shutdown.request())).await
    };
    let probing = async {
        if let Some(prober) = prober {
            // `/healthz` is served meanwhile; it calls the driver itself.
            let mut last = Exit::default();
            while let Err(exit) = prober.meet_driver().await {
                if !has_others {
                    return Err(exit);
                }
                if exit != last {
                    let (controller, reason) = ("livenessprobe", exit.error.as_deref());
                    tracing::error!(controller, reason, "Cannot get the driver's name");
                    last = exit;
                }
                sleep(RETRY_INTERVAL).await;
            }
            node.probes();
        }
        match listeners {
            // Other programs run in this process, so a failing listener must always end it with an
            // error.
            Some(listeners) => listeners.serve().await.map_err(|exit| Exit {
                code: exit.code.max(1),
                ..exit
            }),
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        result = Box::pin(registering) => result,
        result = Box::pin(probing) => result,
        () = serving => Err(Exit::failure(1, "the HTTP server ended")),
    }
}

/// Binds the HTTP server, if one is configured. The returned future serves until it is dropped.
async fn serve(
    http: Option<&Http>,
    routes: Routes,
) -> Result<impl Future<Output = ()> + use<>, Exit> {
    let mut bound = None;
    if let Some(Http { address, flag, .. }) = http {
        let server = Server::bind(address).await.map_err(|error| {
            let error = Chain(&error);
            Exit::failure(
                1,
                format_args!("{flag}: cannot start the HTTP server: {error}"),
            )
        })?;
        // The flag may leave the choice of the port to the system.
        let address = server.local_addr();
        let address = address.map_or_else(|_| flag.clone(), |address| address.to_string());
        tracing::info!(address, flag, "HTTP server is listening");
        bound = Some(server);
    }
    Ok(async {
        match bound {
            Some(server) => server.serve(routes).await,
            None => std::future::pending().await,
        }
    })
}
