//! One process around livenessprobe and registrar.

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

/// Between attempts to hear the driver's name.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Runs until a signal ends it, or something is wrong.
///
/// # Errors
/// How the process ends.
pub(super) async fn work(config: Config, api: InCluster) -> Result<(), Exit> {
    // Signals are as in the programs: they kill until there is a socket to be removed.
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
            // Whoever dropped it would not end by signals any more as process 1.
            let _early = early;
            return std::future::pending().await;
        };
        let registrar = registering.meet().await?;
        // From before the socket exists, so that none is left behind.
        let shutdown = Shutdown::listen(&[Signal::Terminate])?;
        drop(early);
        Box::pin(registering.keep(registrar, &shutdown.request())).await
    };
    let probing = async {
        if let Some(prober) = prober {
            // Health is answered meanwhile: it asks for itself.
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
            // There are others in this process, so that a listener that fails is never the end of the work.
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

/// Listens, if there is to be a server; the result serves until it is dropped.
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
        // The port may have been left to the system.
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
